"""What is compiled runs as it would interpreted: nothing in it that mypyc changes without a word."""

import ast
import tomllib

import pytest

from tests.tidy import tidy_source as source
from tests.tidy.traps import find_traps

TRAPS = {
    "class keywords of a Struct": "class Row(Struct, frozen=True):\n    x: int\n",
    "keywords of a class": "class Row(Base, tag='x'):\n    pass\n",
    "a result that is a bool or an int": "def count() -> int | bool:\n    return True\n",
    "the same as an argument": "def count(given: bool | int) -> None: ...\n",
    "the same in quotes": "def count() -> 'int | bool | None': ...\n",
    "a field that is either": "class A:\n    def __init__(self) -> None:\n        self.x: bool | int = True\n",
    "one tuple that is looked for": "def find(one: tuple[int, str], other: object) -> bool:\n    return one is other\n",
    "a type of tuples, by its name": "Slot = tuple[int, str]\ndef find(one: Slot, other: object) -> bool:\n    return other is one\n",
    "the same, imported": (
        "from wakeful.values.commits import Slot\ndef find(one: Slot, other: object) -> bool:\n    return other is not one\n"
    ),
    "one that a dict has": (
        "Place = tuple[int, str]\nclass A:\n    def __init__(self) -> None:\n        self.places: dict[str, Place] = {}\n"
        "    def f(self, x: object) -> bool:\n        return self.places.get('a') is x\n"
    ),
    "one that a list has, by another name": (
        "class A:\n    def __init__(self) -> None:\n        self.heap: list[tuple[int, str]] = []\n"
        "    def f(self, x: object) -> bool:\n        heap = self.heap\n        one = heap[0]\n        return one is x\n"
    ),
    "a tuple as it is written": "def find(one: object) -> bool:\n    return one is (1, 2)\n",
    "a number that is looked for": "def find(one: int, other: object) -> bool:\n    return one is other\n",
    "a protocol or None": "from wakeful.values.times import Handle\nclass A:\n    handle: Handle | None = None\n",
    "the same in quotes, a protocol": "class A:\n    handle: 'Handle | None' = None\n",
    "three of which one is None": "class A:\n    x: int | str | None = None\n",
    "a value that is made": "class A:\n    rows: list[int] = []\n",
    "a value of a module": "class A:\n    prefix = PREFIX\n",
    "several at once": "class A:\n    a = b = False\n",
    "a tuple in a class": "class A:\n    c = (1, 2)\n",
    "None, a call, and what it filled": (
        "class A:\n    def get(self) -> str:\n        if self.x is None:\n            self.fill()\n            return self.x\n        return self.x\n"
    ),
    "a function that calls itself": "def f(x: list[Any]) -> list[Any]:\n    return [f(one) for one in x]\n",
    "one that comes back": "def f(x: A) -> A:\n    return g(x)\ndef g(x: A) -> A:\n    return TABLE[0](x)\nTABLE = [f]\n",
    "a method that calls itself": "class A:\n    def f(self) -> None:\n        self.f()\n",
    "waiting while an exception is handled": "async def f() -> None:\n    try:\n        g()\n    except A:\n        await h()\n",
    "the same at the end": "async def f() -> None:\n    try:\n        g()\n    finally:\n        async with h():\n            pass\n",
    "a word of C": "class A:\n    def __init__(self) -> None:\n        self._thread = 1\n",
    "what a person filled in": "def f(spec: JobSpec) -> None:\n    g(spec.key)\n",
    "many of these": "def f(specs: Sequence[JobSpec]) -> None:\n    for one in specs:\n        g(one.key)\n",
    "the same, once it is known to be one": (
        "def f(spec: object) -> None:\n    if isinstance(spec, JobSpec):\n        g(spec.key)\n"
    ),
    "what hangs on an instance": "class A:\n    @cached_property\n    def x(self) -> int: ...\n",
}
FINE = {
    "a protocol's fields": "class P(Protocol):\n    x: Handle | None = None\n    y: list[int] = []\n",
    "what there is one of": "def f(x: tuple[int, str] | None, y: bool) -> bool:\n    return x is None or y is True\n",
    "objects": "def f(x: A, y: A) -> bool:\n    return x is y\n",
    "a tuple of any length": "def f(x: tuple[int, ...], y: object) -> bool:\n    return x is y\n",
    "a name that is another type here": "Slot = Future[None]\ndef f(x: Slot, y: Slot) -> bool:\n    return x is y\n",
    "literals": "class A:\n    __slots__ = ('x',)\n    a = -1\n    b: str | None = None\n    c: ClassVar[list[int]] = []\n",
    "set before it is read": "def f(self) -> X:\n    if self.x is None:\n        self.x = make()\n    return self.x\n",
    "a number or a text": "def f(x: int | str) -> int | None: ...\n",
    "a function of the same name elsewhere": "def f(x: A) -> A:\n    return x.f()\nclass B:\n    def f(self) -> None:\n        f(self)\n",
    "waiting behind it": "async def f() -> None:\n    try:\n        await g()\n    except A:\n        h()\n    else:\n        await i()\n    await j()\n",
    "what a person filled in, as anything": "def f(spec: Any) -> None:\n    g(spec.key)\n",
    "whether it is one": "def f(spec: object) -> bool:\n    return isinstance(spec, JobSpec)\n",
    "None that is said": "def f(self) -> None:\n    if self.x is None:\n        say()\n        return\n",
}


def modules() -> list[str]:
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return names


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS)
def test_each_trap_is_found(text: str) -> None:
    assert list(find_traps(text))


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_what_is_no_trap_is_let_be(text: str) -> None:
    assert list(find_traps(text)) == []


def test_nothing_that_is_compiled_has_a_trap() -> None:
    texts = dict(source.modules())
    found = [f"{name}:{trap.line}: {trap.words}" for name in modules() for trap in find_traps(texts[name])]
    assert found == []


def test_the_list_names_modules_that_there_are_once_and_in_order() -> None:
    names = modules()
    assert names == sorted(set(names))
    assert set(names) <= {name for name, _ in source.modules()}
    assert len(names) > 20


def test_what_inherits_from_a_compiled_class_is_compiled() -> None:
    """Interpreted, it could not: "interpreted classes cannot inherit from compiled"."""
    compiled = {
        (name, node.name)
        for name, text in source.modules()
        if name in modules()
        for node in source.parsed(text).body
        if isinstance(node, ast.ClassDef)
    }
    found = []
    for name, text in source.modules():
        if name in modules():
            continue
        homes = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in source.nodes(text)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in source.nodes(text):
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                found += [f"{name}.{node.name}" for base in node.bases if homes.get(ast.unparse(base)) in compiled]
    assert found == []


def test_what_is_tested_on_the_sources_only_is_little_and_says_why() -> None:
    """Whatever can be, is tested on the compiled wheel as well (`make compiled`)."""
    found = []
    for path in sorted((source.ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "sources_only" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.sources_only":
                [why] = node.args
                assert isinstance(why, ast.Constant)
                assert len(str(why.value)) > 20, path
                found.append(path.name)
    assert found == [
        "test_jobs_edges.py",
        "test_jobs_edges.py",
        "test_limits_overload.py",
        "test_queues.py",
        "test_workflows_edges.py",
        "test_arrivals.py",
        "test_waking_ahead.py",
    ]


# What people call: what is wrong with their arguments is ours to say, and mypyc would say it first, as a TypeError.
FACADES = (
    "wakeful.app",
    "wakeful.objects",
    "wakeful.jobs.jobs",
    "wakeful.policy.limits",
    "wakeful.runtime.alarms",
    "wakeful.runtime.context",
    "wakeful.runtime.registry",
    "wakeful.runtime.storage",
    "wakeful.schedules.schedules",
    "wakeful.testing",
    "wakeful.machine",
    "wakeful.workflow",
)


def test_no_facade_is_compiled() -> None:
    assert [name for name in modules() if name.startswith(FACADES)] == []
    import wakeful

    # Of what the package exports only a tuple of two texts, which is a plain class.
    assert {name for name, home in wakeful._HOMES.items() if home in modules()} <= {"ObjectId"}


def test_unreachable_code_is_an_error_of_types() -> None:
    """Narrowed too far, code that is reached says so only at run time, with a RuntimeError of mypyc."""
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["mypy"]["warn_unreachable"] is True
