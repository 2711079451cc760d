"""Layer 5. What do type checkers know of an object whose methods block? What is written down for them.

No type says "this class, but its methods are not async". So for programs that use `Client.sync(…)` each class gets a protocol
of the same name with its methods as they are there, made from their annotations.
"""

import inspect
from collections.abc import Iterable
from textwrap import indent
from typing import Any, get_args

from wakeful.operations.arguments import resolve_hints
from wakeful.runtime.registry import ObjectClass

_PLAIN = ("builtins", "typing", "types")


def write_stubs(classes: Iterable[ObjectClass], made_from: str) -> str:
    """A module with a protocol for each class."""
    imports: set[str] = set()
    protocols = [_protocol(known, imports) for known in classes]
    head = f'"""Objects of {made_from} as `Client.sync(…)` has them; made by `wakeful stubs {made_from}`, to be made anew with it."""'
    lines = ["import typing", *(f"import {name}" for name in sorted(imports))]
    return "\n\n\n".join([f"{head}\n\n" + "\n".join(lines), *protocols]) + "\n"


def _protocol(known: ObjectClass, imports: set[str]) -> str:
    methods = [_method(known.cls, name, imports) for name in known.outside]
    doc = [_doc(known.cls.__doc__)] if known.cls.__doc__ else []
    body = "\n\n".join([*doc, *methods]) or "..."
    return f"class {known.name}(typing.Protocol):\n{indent(body, '    ')}"


def _method(cls: type, name: str, imports: set[str]) -> str:
    function = inspect.getattr_static(cls, name)
    function = getattr(function, "__func__", function)
    hints = resolve_hints(function)
    imports.update(name for hint in hints.values() for name in _modules(hint))
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=_Text(_words(hints.get(one.name, Any)) if at else ""), default=_default(one))
        for at, one in enumerate(signature.parameters.values())
    ]
    parameters[0] = parameters[0].replace(annotation=inspect.Parameter.empty)
    shown = signature.replace(parameters=parameters, return_annotation=_Text(_words(hints.get("return", Any))))
    doc = inspect.getdoc(function)
    return f"def {name}{shown}:" + (f"\n    {indent(_doc(doc), '    ').lstrip()}" if doc else " ...")


def _default(one: inspect.Parameter) -> Any:
    return one.default if one.default is one.empty else _Text("...")


def _doc(text: str) -> str:
    return '"""' + inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', "'''") + '"""'


def _words(hint: Any) -> str:
    return "None" if hint is type(None) else "typing.Any" if hint is Any else inspect.formatannotation(hint)


def _modules(hint: Any) -> set[str]:
    """Where the names in an annotation come from."""
    modules = set().union(*map(_modules, get_args(hint)))
    name = getattr(hint, "__module__", None)
    if name not in (None, *_PLAIN) and (isinstance(hint, type) or get_args(hint)):
        modules.add(str(name))
    return modules


class _Text:
    """What a signature shows as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
