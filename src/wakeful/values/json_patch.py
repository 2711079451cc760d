"""Layer 0, pure. Which steps lead from one JSON document to another, and what do they make of it? (RFC 6902)

Only `add`, `remove` and `replace` are written and taken: the rest of the RFC says nothing that these can't. Two documents
are the same when they are spelled the same, so that `1`, `true` and `1.0` are three values.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wakeful.values.errors import BadValue

DEPTH_MAX = 32  # what differs deeper down is replaced as a whole: every level spells its lists once more

Operation = dict[str, Any]  # `{"op": "replace", "path": "/context/n", "value": 2}`


def diff(old: Any, new: Any) -> list[Operation]:
    """Operations that make the new document of the old one, in order; none when they are the same.

    >>> diff({"n": 1, "lines": ["a", "b"]}, {"n": 2, "lines": ["a", "x", "b"]})
    [{'op': 'replace', 'path': '/n', 'value': 2}, {'op': 'add', 'path': '/lines/1', 'value': 'x'}]
    """
    return list(_steps(old, new, "", DEPTH_MAX))


def apply(document: Any, patch: Sequence[Operation]) -> Any:
    """The document after these operations; what was given stays as it is. `BadValue` for a patch that does not fit it.

    >>> apply({"n": 1}, [{"op": "add", "path": "/m", "value": 0}, {"op": "remove", "path": "/n"}])
    {'m': 0}
    """
    top = {"": document}  # so that the document itself has a place that can be replaced
    mine: set[int] = set()  # containers that were copied here, by identity: each once, and only those on the way
    made: list[Any] = []  # which keeps them, so that no identity is given twice
    try:
        for one in patch:
            _do(top, one, mine, made)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise BadValue(f"the patch does not fit the document: {error}", code="patch.unfit") from None
    return top[""]


def json_bytes(value: Any) -> bytes:
    """A plain value as JSON."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        return json.dumps(value).encode()  # escapes half characters


def _steps(old: Any, new: Any, path: str, depth: int) -> Iterator[Operation]:
    if depth and type(old) is dict and type(new) is dict:
        yield from _of_objects(old, new, path, depth)
    elif depth and type(old) is list and type(new) is list:
        yield from _of_lists(old, new, path, depth)
    elif json_bytes(old) != json_bytes(new):
        yield {"op": "replace", "path": path, "value": new}


def _of_objects(old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Operation]:
    for name in old:
        if name not in new:
            yield {"op": "remove", "path": f"{path}/{_escape(name)}"}
    for name, value in new.items():
        inner = f"{path}/{_escape(name)}"
        if name not in old:
            yield {"op": "add", "path": inner, "value": value}
        else:
            yield from _steps(old[name], value, inner, depth - 1)


def _of_lists(old: list[Any], new: list[Any], path: str, depth: int) -> Iterator[Operation]:
    """What both begin and end with stays; of the rest, each is compared with the one in its place."""
    left, right = [json_bytes(item) for item in old], [json_bytes(item) for item in new]
    shorter = min(len(left), len(right))
    first = next((at for at in range(shorter) if left[at] != right[at]), shorter)
    room = shorter - first
    last = next((at for at in range(room) if left[-1 - at] != right[-1 - at]), room)
    both = room - last  # that stand in the same place of what is left, before one of the two ends
    for at in range(first, first + both):
        if left[at] != right[at]:
            yield from _steps(old[at], new[at], f"{path}/{at}", depth - 1)
    for at in reversed(range(first + both, len(old) - last)):
        yield {"op": "remove", "path": f"{path}/{at}"}
    for at in range(first + both, len(new) - last):
        yield {"op": "add", "path": f"{path}/{at}", "value": new[at]}


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _do(top: dict[str, Any], operation: Operation, mine: set[int], made: list[Any]) -> None:
    """One operation, on copies of what stands on its way."""
    path = operation["path"]
    if path and path[0] != "/":
        raise ValueError(f"{path[:100]!r} does not begin with a slash")
    *above, name = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    place: Any = top
    for step in above:
        key = _place(place, step)
        inner = place[key]
        if id(inner) not in mine:
            inner = place[key] = inner.copy()
            mine.add(id(inner))
            made.append(inner)
        place = inner
    _change(place, name, operation)


def _change(place: Any, name: str, operation: Operation) -> None:
    kind = operation["op"]
    if kind == "add" and type(place) is list:
        at = len(place) if name == "-" else _index(name)
        if at > len(place):
            raise IndexError(f"{at} is beyond the end")
        place.insert(at, operation["value"])
        return
    if kind == "add":
        if type(place) is not dict:
            raise TypeError(f"{name[:100]!r} is not in an object or a list")
        place[name] = operation["value"]
        return
    key = _place(place, name)
    place[key]  # must be there
    if kind == "replace":
        place[key] = operation["value"]
    elif kind == "remove":
        del place[key]
    else:
        raise ValueError(f"{kind!r} is none of add, remove, replace")


def _place(container: Any, step: str) -> Any:
    if type(container) is dict:
        return step
    if type(container) is not list:
        raise TypeError(f"{step[:100]!r} is not in an object or a list")
    return _index(step)


def _index(step: str) -> int:
    if not (step.isascii() and step.isdigit()) or (step != "0" and step[0] == "0"):
        raise ValueError(f"{step[:100]!r} is no place in a list")
    return int(step)
