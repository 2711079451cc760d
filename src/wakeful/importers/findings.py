"""Layer 5. What was found in a file, before it meets a chart?"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from wakeful.values.errors import BadValue

# Later than any calendar goes; a start or delay beyond it is no time.
INSTANT_MAX = 8_640_000_000_000_000
DEPTH_MAX = 200  # of lists and objects in one another; every walk over them is bounded


class Remark(Struct, frozen=True):
    """One thing of the file: was it taken, and what became of it or why not?"""

    what: str  # value, context, delay, actor, …
    name: str
    is_taken: bool
    note: str = ""


class FoundMachine(Struct):
    """One machine of the file, in Wakeful's terms."""

    snapshot: dict[str, Any]  # value, context, status, output, error, historyValue
    cls: str | None = None
    key: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list)  # id, due_at, delay_ms, event, target
    knows_delays: bool = False  # what is not among them is not pending; else nobody knows
    children: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # by id: src, status, input, value; of one that was a machine also `machine`, which is this again
    remarks: list[Remark] = field(default_factory=list)

    def note_taken(self, what: str, name: str, note: str = "") -> None:
        self.remarks.append(Remark(what, name, True, note))

    def note_left(self, what: str, name: str, note: str) -> None:
        self.remarks.append(Remark(what, name, False, note))


def bad(path: str, what: str, *, code: str = "import.file") -> BadValue:
    """The error for a place in the file."""
    return BadValue(f"{path}: {what}", code=code)


def parse_json(text: str, path: str) -> Any:
    """JSON, or an error that says where it is none."""
    try:
        value = json.loads(text, parse_constant=lambda name: _no(path, name))
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        said = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        raise bad(path, f"this is no JSON: {said}{where}") from None
    check_depth(value, path)
    return value


def check_depth(value: Any, path: str) -> None:
    """`BadValue` for what is nested so deeply that whoever walks over it could fall; level by level, not by recursion."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        if not inner:
            return
        level = inner
    raise bad(path, f"it is nested more than {DEPTH_MAX} deep")


def _no(path: str, name: str) -> Any:
    raise bad(path, f"{name} is no JSON")


def mapping(value: Any, path: str) -> dict[str, Any]:
    """A JSON object, or an error."""
    if not isinstance(value, Mapping):
        raise bad(path, f"an object was expected, not {short(value)}")
    return dict(value)


def instant(value: Any, path: str) -> int:
    """Milliseconds since 1970, or an error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= INSTANT_MAX:
        raise bad(path, f"{short(value)} is no time in milliseconds")
    return int(value)


def event_of(value: Any, path: str) -> dict[str, Any]:
    """An event with its type, or an error."""
    event = mapping(value, path)
    if not isinstance(event.get("type"), str) or not event["type"]:
        raise bad(f"{path}.type", f"an event needs a type as text, not {short(event.get('type'))}")
    return event


def short(value: Any) -> str:
    """A value for an error, cut."""
    try:
        said = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        said = f"a {type(value).__name__} that is nested too deeply"
    return said if len(said) <= 60 else said[:57] + "…"
