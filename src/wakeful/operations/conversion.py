"""Layer 5, pure. From what JSON can say to a type, where a time need not say its seconds.

`2030-01-01T09:00+00:00` and `09:00` are what people write, and ISO 8601 has them; msgspec wants RFC 3339, where the seconds
are not optional. So a text that msgspec refuses as a time is given its seconds, where it stands, and nothing else is touched.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

_MINUTE = re.compile(r"(\d{4}-\d\d-\d\d[Tt ])?\d\d:\d\d(?=([Zz]|[+-]\d\d:?\d\d)?\Z)", re.ASCII)
_REFUSED = re.compile(r"Invalid RFC3339 encoded (?:date)?time(?: - at `(\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
EXACT_MAX = 32  # times of one value that are mended one by one; after that, all that stand where one was wrong


def convert_json(value: Any, hint: Any, by: Callable[..., Any] = msgspec.convert, **options: Any) -> Any:
    """The value as that type, or msgspec's `ValidationError`; the options are those of `by`."""
    tries = 0
    while True:
        try:
            return by(value, hint, **options)
        except msgspec.ValidationError as error:
            refused = _REFUSED.fullmatch(str(error))
            if refused is None:
                raise
            steps = [name or index for name, index in _STEP.findall((refused[1] or "")[1:])]
            mended = _mend(value, steps, is_exact=tries < EXACT_MAX)
            if mended is value:
                raise
            value, tries = mended, tries + 1


def _mend(value: Any, steps: list[str], *, is_exact: bool) -> Any:
    """A copy of it with seconds in what stands at the end of these steps; the value itself when nothing there lacks them."""
    if not steps:
        minute = _MINUTE.match(value) if isinstance(value, str) else None
        return value if minute is None else f"{minute[0]}:00{value[minute.end() :]}"
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):  # a name of a field, or "...": some value of a mapping, whose values are all alike
        places: list[Any] = list(value) if step == "..." else [step] if step in value else []
        changed = {place: _mend(value[place], rest, is_exact=is_exact) for place in places}
        changed = {place: one for place, one in changed.items() if one is not value[place]}
        return {**value, **changed} if changed else value
    if isinstance(value, list | tuple) and step.isdigit():
        indexes = range(len(value)) if not is_exact else [int(step)] if int(step) < len(value) else []
        items = list(value)
        for index in indexes:
            items[index] = _mend(items[index], rest, is_exact=is_exact)
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    return value
