"""Layer 5. How are the parts of a chart said in few words: events, guards, actions, delays?"""

import json
import re
from collections.abc import Mapping
from typing import Any

from wakeful.diagrams.texts import one_line

_NUMBER = re.compile(r"\d+(\.\d+)?")
_TEXT_MAX = 40
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def guard_words(guard: Any) -> str:
    """A guard: its name with its params, combinations as one says them."""
    if not isinstance(guard, Mapping):
        return one_line(str(guard))
    kind = str(guard.get("type", "?"))
    builtin = kind.removeprefix("xstate.")
    params = guard.get("params")
    given = {**guard, **params} if kind != builtin and isinstance(params, Mapping) else guard
    if builtin in ("and", "or") and "guards" in given:
        return f" {builtin} ".join(_inner(one) for one in _several(given["guards"]))
    if builtin == "not" and ("guard" in given or "guards" in given):
        return "not " + " ".join(_inner(one) for one in _several(given.get("guard", given.get("guards"))))
    if builtin == "stateIn" and "stateValue" in given:
        return f"in {_value(given['stateValue'])}"
    return _with_params(kind, params)


def _inner(guard: Any) -> str:
    said = guard_words(guard)
    return f"({said})" if " and " in said or " or " in said else said


def action_words(action: Any) -> str:
    """An action: its name with its params, XState's own as one says them."""
    if not isinstance(action, Mapping):
        return one_line(str(action))
    kind = str(action.get("type", "?"))
    builtin = kind.removeprefix("xstate.")
    params = action.get("params")
    given = {**action, **params} if kind != builtin and isinstance(params, Mapping) else action
    extra = [key for key in given if key not in ("type", "params")]
    if kind == builtin and not extra:
        return _with_params(kind, params)
    return one_line(_own_words(builtin, given) + _later(given.get("delay")))


def _own_words(builtin: str, given: Mapping[str, Any]) -> str:
    if builtin == "assign":
        assignment = given.get("assignment")
        return f"set {', '.join(assignment)}" if isinstance(assignment, Mapping) else f"set {_value(assignment)}"
    if builtin in ("raise", "emit"):
        return f"{builtin} {_event(given.get('event'))}"
    if builtin in ("sendTo", "sendParent"):
        to = "parent" if builtin == "sendParent" else _value(given.get("to"))
        return f"send {_event(given.get('event'))} to {to}"
    if builtin == "cancel":
        return f"cancel {_value(given.get('sendId'))}"
    if builtin == "log":
        return f"log {_value(given.get('value', given.get('label', '')))}"
    if builtin == "enqueueActions":
        return actions_words(given.get("actions")) or "enqueue"
    if builtin == "spawnChild":
        return f"spawn {_value(given.get('src'))}"
    if builtin == "stopChild":
        return f"stop {_value(given.get('id'))}"
    return builtin


def actions_words(actions: Any) -> str:
    """Actions in their order, with commas."""
    return ", ".join(action_words(one) for one in _several(actions))


def delay_words(delay: Any) -> str:
    """A delay: milliseconds in the largest unit that says them exactly, other texts as they are."""
    if isinstance(delay, bool) or not isinstance(delay, int | float | str):
        return _value(delay)
    if isinstance(delay, str) and not _NUMBER.fullmatch(delay):
        return one_line(delay)
    ms = float(delay)
    for unit, size in _UNITS:
        if ms >= size and round(ms / size, 2) * size == ms:
            return f"{ms / size:g} {unit}"
    return f"{ms:g} ms"


def remaining_words(ms: int) -> str:
    """How long until something is due: two units at most."""
    if ms <= 0:
        return "due now" if ms > -1_000 else f"{_span(-ms)} late"
    return f"in {_span(ms)}"


def _span(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    seconds = ms // 1_000
    sizes = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for place, (unit, size) in enumerate(sizes):
        if seconds >= size:
            rest = seconds % size
            if place + 1 < len(sizes) and rest >= sizes[place + 1][1] and seconds // size < 10:
                return f"{seconds // size} {unit} {rest // sizes[place + 1][1]} {sizes[place + 1][0]}"
            return f"{round(seconds / size)} {unit}"
    return f"{ms} ms"


def _later(delay: Any) -> str:
    return "" if delay is None else f" after {delay_words(delay)}"


def _event(event: Any) -> str:
    return str(event.get("type", _value(event))) if isinstance(event, Mapping) else _value(event)


def _with_params(name: str, params: Any) -> str:
    if params is None:
        return one_line(name)
    if isinstance(params, Mapping) and "$call" not in params:
        said = ", ".join(f"{key}: {_value(value)}" for key, value in params.items())
    else:
        said = _value(params)
    return one_line(f"{name}({_short(said)})")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Mapping) and "$call" in value:
        return f"{value['$call']}()"
    return _short(json.dumps(value, ensure_ascii=False, default=str))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
