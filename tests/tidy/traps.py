"""What does mypyc change without a word? Each of these is legal Python that runs otherwise once it is compiled.

What it refuses by itself (async generators, overloads without a body) is not looked for: then there is no wheel.
"""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.tidy import tidy_source as source

# An attribute becomes a name of C with `_` before it: these are words of the compiler then.
OF_C = frozenset(
    {"_thread", "_asm", "_inline", "_volatile", "_attribute", "_typeof", "_extension", "_const", "_signed"}
)
# In whose fields there is what a person gave, checked by nobody yet.
UNCHECKED = frozenset({"JobSpec"})


class Trap(NamedTuple):
    """One place where the compiled module would do something else."""

    line: int
    words: str


@cache
def protocols() -> frozenset[str]:
    """The names of all protocols of the package."""
    found = set()
    for _, text in source.modules():
        for node in source.nodes(text):
            if isinstance(node, ast.ClassDef) and any(_last(base) == "Protocol" for base in node.bases):
                found.add(node.name)
    return frozenset(found)


@cache
def tuples() -> dict[str, frozenset[str]]:
    """The names that stand for types of tuples, by the module that says so."""
    return {name: _tuples_of(text) for name, text in source.modules()}


def _tuples_of(text: str) -> frozenset[str]:
    found = set()
    for node in source.parsed(text).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and _is_tuple(node.value, frozenset())
        ):
            found.add(node.targets[0].id)
    return frozenset(found)


def _tuples_in(text: str) -> frozenset[str]:
    """Its own, and those that it imports."""
    found = set(_tuples_of(text))
    for node in source.nodes(text):
        if isinstance(node, ast.ImportFrom):
            there = tuples().get(node.module or "", frozenset())
            found |= {alias.asname or alias.name for alias in node.names if alias.name in there}
    return frozenset(found)


def find_traps(text: str) -> Iterator[Trap]:
    """All in the source of one module."""
    tree = source.parsed(text)
    for node in source.nodes(text):
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node)
        elif isinstance(node, ast.Try):
            yield from _of_try(node)
        elif isinstance(node, ast.If) and (fault := _narrowed(node)) is not None:
            yield fault
        elif isinstance(node, ast.Attribute) and node.attr in OF_C:
            yield Trap(node.lineno, f"an attribute called {node.attr} is a word of C; give it another name")
    yield from _of_annotations(tree)
    yield from _of_recursion(tree)
    yield from _of_identities(tree, _tuples_in(text))


def _of_class(node: ast.ClassDef) -> Iterator[Trap]:
    bases = {_last(base) for base in node.bases}
    if "Struct" in bases or (node.keywords and "metaclass" not in {one.arg for one in node.keywords}):
        yield Trap(
            node.lineno, f"class {node.name}: its keywords are dropped; let the module of a Struct be interpreted"
        )
    if bases & {"NamedTuple", "Protocol", "Enum", "StrEnum", "IntEnum", "TypedDict"} or node.decorator_list:
        return
    for item in node.body:
        if isinstance(item, ast.Assign) and len(item.targets) > 1:
            yield Trap(item.lineno, f"{ast.unparse(item)} in a class; mypyc takes one name at a time")
        elif isinstance(item, ast.Assign):
            yield from _of_value(item.lineno, _name(item.targets[0]), None, item.value)
        elif isinstance(item, ast.AnnAssign) and item.value is not None:
            yield from _of_value(item.lineno, _name(item.target), item.annotation, item.value)


def _of_value(line: int, name: str, kind: ast.expr | None, value: ast.expr) -> Iterator[Trap]:
    """Of a name in the body of a class."""
    if name == "__slots__" or (kind is not None and "ClassVar" in ast.unparse(kind)):
        return
    plain = value.operand if isinstance(value, ast.UnaryOp) else value
    if not isinstance(plain, ast.Constant):
        yield Trap(line, f"{name} = {ast.unparse(value)} in a class has no value there; set it in __init__")
    elif plain.value is None and kind is not None:
        parts = _parts(kind)
        if len(parts) > 2 or any(_last(part) in protocols() for part in parts):
            yield Trap(line, f"{name}: {ast.unparse(kind)} = None in a class leaves no value; set it in __init__")


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Trap]:
    """What takes a field for what its type says, and what hangs something on an instance, which has no place for it."""
    for one in ast.walk(node):
        if isinstance(one, ast.arg) and one.annotation is not None and UNCHECKED & _words_in(one.annotation):
            yield Trap(
                one.lineno,
                f"{one.arg}: {ast.unparse(one.annotation)}: a field of another type than it says is a TypeError before "
                "it can be checked; say Any",
            )
    known = {_name(one.args[0]) for one in ast.walk(node) if isinstance(one, ast.Call) and _is_check(one)}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id in known:
            yield Trap(
                one.lineno,
                f"{ast.unparse(one)} of what isinstance says: the field is a TypeError if it is of another type; ask a function",
            )
    for decorator in node.decorator_list:
        if _last(decorator) == "cached_property":
            yield Trap(
                node.lineno, f"{node.name}: a native class has no place for a cached_property; keep it in a field"
            )


def _is_check(call: ast.Call) -> bool:
    """`isinstance` of a type whose fields nobody has checked."""
    return _name(call.func) == "isinstance" and bool(UNCHECKED & _words_in(call.args[1]))


def _words_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _of_try(node: ast.Try) -> Iterator[Trap]:
    """While it waits there, the exception is that of all other tasks as well: their errors get it as their context."""
    for part in (*node.handlers, *node.finalbody):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Await | ast.AsyncWith | ast.AsyncFor | ast.Yield | ast.YieldFrom):
                yield Trap(
                    inner.lineno, "waits while an exception is handled, which all other tasks then see; wait behind it"
                )


def _of_annotations(tree: ast.Module) -> Iterator[Trap]:
    for node in ast.walk(tree):
        kinds = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            kinds = [node.returns, *(one.annotation for one in arguments)]
        elif isinstance(node, ast.AnnAssign):
            kinds = [node.annotation]
        for kind in kinds:
            if kind is not None and {"int", "bool"} <= {ast.unparse(part) for part in _parts(kind)}:
                yield Trap(kind.lineno, f"{ast.unparse(kind)}: a bool becomes an int; say Any, or two functions")


def _of_identities(tree: ast.Module, named: frozenset[str]) -> Iterator[Trap]:
    """`is` between what is kept unboxed, and made anew each time that it is looked at."""
    kinds: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            kinds.setdefault(node.arg, node.annotation)
        elif isinstance(node, ast.AnnAssign):
            kinds.setdefault(_name(node.target), node.annotation)
    for node in ast.walk(tree):  # what is taken out of these, under another name
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and (kind := _taken(node.value, kinds)) is not None:
            kinds.setdefault(_name(node.targets[0]), kind)
    unboxed = {name for name, kind in kinds.items() if any(_is_unboxed(part, named) for part in _parts(kind))}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) for side in sides):
            continue  # None, True, False: there is one of each
        for side in sides:
            taken = _taken(side, kinds)
            if (
                isinstance(side, ast.Tuple)
                or _name(side) in unboxed
                or (taken is not None and _is_unboxed(taken, named))
            ):
                yield Trap(
                    node.lineno, f"{ast.unparse(node)}: a tuple or number is never the same one; compare with =="
                )
                break


def _of_recursion(tree: ast.Module) -> Iterator[Trap]:
    """What calls itself, by whatever way: compiled it has no limit, so what is nested too deep ends the process."""
    uses: dict[str, set[str]] = {}
    lines: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            uses[node.name], lines[node.name] = _names_in(node), node.lineno
        elif isinstance(node, ast.ClassDef):
            later = frozenset(item.name for item in node.body if isinstance(item, ast.AsyncFunctionDef))
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    own = {f"{node.name}.{name}" for name in _own_calls(item, later)}
                    uses[f"{node.name}.{item.name}"], lines[f"{node.name}.{item.name}"] = (
                        own | _names_in(item),
                        item.lineno,
                    )
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            uses[_name(target)] = _names_in(node.value)
    for name, line in lines.items():
        if name in _reached(name, uses):
            yield Trap(
                line, f"{name} comes back to itself: compiled it has no limit, and ends the process; walk with a stack"
            )


def _reached(name: str, uses: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [*uses[name]]
    while waiting:
        one = waiting.pop()
        if one in uses and one not in found:
            found.add(one)
            waiting += uses[one]
    return found


def _names_in(node: ast.AST) -> set[str]:
    """What it uses by name, but for what is only said of types."""
    kinds = [one.annotation for one in ast.walk(node) if isinstance(one, ast.arg | ast.AnnAssign) and one.annotation]
    kinds += [
        one.returns for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.returns
    ]
    typed = {id(one) for kind in kinds for one in ast.walk(kind)}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and id(one) not in typed}


def _own_calls(node: ast.AST, later: frozenset[str]) -> set[str]:
    """The methods of its own object that it calls; those that are awaited, of `later`: else they are for another task."""
    found, waiting, awaited = set(), [*ast.iter_child_nodes(node)], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            continue  # for somebody who calls back
        if isinstance(one, ast.Await):
            awaited.add(id(one.value))
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and _name(one.func.value) == "self":
            found |= {one.func.attr} if one.func.attr not in later or id(one) in awaited else set()
        waiting += ast.iter_child_nodes(one)
    return found


def _taken(value: ast.expr, kinds: dict[str, ast.expr]) -> ast.expr | None:
    """The type of what is read there, if its container says so: `self._places.get(x)` of a dict[str, Place]; of a name, its own."""
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("get", "pop", "popleft")
    ):
        container = value.func.value
    elif isinstance(value, ast.Subscript):
        container = value.value
    else:
        return kinds.get(_name(value)) if isinstance(value, ast.Attribute) else None
    kind = kinds.get(_name(container))
    if not isinstance(kind, ast.Subscript) or _last(kind.value) not in ("dict", "list", "deque", "Mapping", "Sequence"):
        return None
    return kind.slice.elts[-1] if isinstance(kind.slice, ast.Tuple) else kind.slice


def _is_unboxed(kind: ast.expr, named: frozenset[str]) -> bool:
    return _is_tuple(kind, named) or _last(kind) in ("int", "float")


def _is_tuple(kind: ast.expr, named: frozenset[str]) -> bool:
    """A tuple of so many; one of any length is an object like others."""
    if isinstance(kind, ast.Subscript) and _last(kind.value) == "tuple":
        return "..." not in ast.unparse(kind.slice)
    return _last(kind) in named


def _narrowed(node: ast.If) -> Trap | None:
    """`if self.x is None:`, a call, and then `self.x`: mypy still takes it for None, and so does the compiled code."""
    test = node.test
    if (
        not isinstance(test, ast.Compare)
        or not isinstance(test.ops[0], ast.Is)
        or not isinstance(test.left, ast.Attribute)
    ):
        return None
    if not isinstance(test.comparators[0], ast.Constant) or test.comparators[0].value is not None:
        return None
    expected, was_called = ast.unparse(test.left), False
    for statement in node.body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Attribute) and ast.unparse(inner) == expected:
                if isinstance(inner.ctx, ast.Store):
                    return None
                if was_called:
                    return Trap(
                        inner.lineno,
                        f"{expected} was None before the call, and still is when compiled; return what the call gives",
                    )
        was_called = was_called or any(isinstance(inner, ast.Call | ast.Await) for inner in ast.walk(statement))
    return None


def _parts(kind: ast.expr) -> list[ast.expr]:
    """Of a union."""
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        return _parts(ast.parse(kind.value, mode="eval").body)
    if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.BitOr):
        return [*_parts(kind.left), *_parts(kind.right)]
    return [kind]


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript | ast.Starred):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _name(node: ast.expr) -> str:
    return (
        node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ast.unparse(node)
    )
