"""Layer 1, pure. Which spec has that text?

The grammar of `Spec.text`, which `parse_spec` reads back exactly:

    at 2026-03-28T12:00:00.250+00:00        after 10m
    every 5m [from INSTANT | after INSTANT]
    cron 0 9 * * 1 [in ZONE] [gap=skip] [fold=both]
    rrule FREQ=DAILY;COUNT=10 [from LOCAL] [in ZONE] [gap=skip] [fold=both] [rdate=…] [exdate=…]
    (SPEC) or (SPEC) …                      (SPEC) spread 10m [seed WORD]
    (SPEC) except (SPEC or CALENDAR), …     (SPEC) within (CALENDAR), …

    hours mon-fri 09:00-12:00,13:00-17:00; sat 10:00-14:00 [in ZONE] [except (holidays …)]
    holidays ["NAME"] 12-25 2026-04-03 … [in ZONE]
"""

import json
import re
from collections.abc import Callable

from wakeful.specs.calendars import Calendar, calendar_from_text
from wakeful.specs.combine import DEPTH_MAX, ExceptFor, Spread, Within, spread_over, union
from wakeful.specs.cron import cron_from_text
from wakeful.specs.instants import after_from_text, at_from_text
from wakeful.specs.interval import interval_from_text
from wakeful.specs.rrule import rule_from_text
from wakeful.specs.spec import Spec, check_length
from wakeful.values.errors import BadSpec

GROUPS_MAX = 4_000  # parentheses of a text

LEAVES: dict[str, Callable[[str], Spec]] = {
    "at": at_from_text,
    "after": after_from_text,
    "every": interval_from_text,
    "cron": cron_from_text,
    "rrule": rule_from_text,
}


def parse_spec(text: str) -> Spec:
    """The spec whose `text` that is, exactly."""
    if not isinstance(text, str):
        raise BadSpec(f"{text!r} is not the text of a spec", code="spec.type")
    check_length(text)
    if text.count("(") > GROUPS_MAX:  # each is read once for each that it is in
        raise BadSpec(f"a spec of {text.count('(')} parentheses; the most is {GROUPS_MAX}", code="spec.text")
    return _parse(text.strip(), 0)


def _parse(text: str, depth: int) -> Spec:
    if depth > DEPTH_MAX:
        raise BadSpec(f"combinations are nested deeper than {DEPTH_MAX}", code="spec.depth")
    if text.startswith("("):
        return _combination(text, depth)
    leaf = LEAVES.get(text.partition(" ")[0])
    if leaf is None:
        raise BadSpec(
            f"{text[:80]!r} is not the text of a spec; it begins with {', '.join(LEAVES)} or '('", code="spec.text"
        )
    return leaf(text)


def _combination(text: str, depth: int) -> Spec:
    inner, rest = _group(text)
    spec = _parse(inner, depth + 1)
    word, _, tail = rest.partition(" ")
    if not rest:
        return spec
    if word == "or":
        parts = [spec]
        while rest:
            inner, rest = _group(_after(rest, "or ", text))
            parts.append(_parse(inner, depth + 1))
        return union(parts)
    if word == "spread":
        return _spread(spec, tail, text)
    if word in ("except", "within"):
        groups = []
        rest = f", {tail}"
        while rest:
            inner, rest = _group(_after(rest, ", ", text))
            groups.append(inner)
        if word == "within":
            return Within(spec, tuple(calendar_from_text(group) for group in groups))
        return ExceptFor(spec, tuple(_parse_excluded(group, depth) for group in groups))
    raise BadSpec(f"{text[:80]!r}: {word!r} is none of or, except, within, spread", code="spec.text")


def _parse_excluded(text: str, depth: int) -> Spec | Calendar:
    return calendar_from_text(text) if text.startswith(("hours ", "holidays ")) else _parse(text, depth + 1)


def _spread(spec: Spec, tail: str, text: str) -> Spread:
    window, _, rest = tail.partition(" ")
    plain = spread_over(spec, window)
    if not rest:
        return plain
    word, _, seed = rest.partition(" ")
    if word != "seed" or not seed:
        raise BadSpec(f"{text[:80]!r}: after the window only 'seed …' can stand, not {rest!r}", code="spec.text")
    if seed.startswith('"'):
        try:
            seed = json.loads(seed)
        except ValueError:
            raise BadSpec(f"{text[:80]!r}: the seed {seed!r} is not one quoted text", code="spec.text") from None
    return Spread(spec, plain.window_ms, seed)


def _after(text: str, marker: str, whole: str) -> str:
    if not text.startswith(marker):
        raise BadSpec(f"{whole[:80]!r}: {marker.strip()!r} expected before {text[:20]!r}", code="spec.text")
    return text.removeprefix(marker)


_MARK = re.compile(r'[()]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)')  # an unclosed quote is the rest: read once, not once for each


def _group(text: str) -> tuple[str, str]:
    """What is in the parentheses that the text begins with, and what follows them."""
    if not text.startswith("("):
        raise BadSpec(f"'(' expected before {text[:40]!r}", code="spec.text")
    depth = 0
    for mark in _MARK.finditer(text):
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if depth == 0:
            return text[1 : mark.start()].strip(), text[mark.end() :].strip()
    raise BadSpec(f"{text[:80]!r}: a closing ) is missing", code="spec.text")
