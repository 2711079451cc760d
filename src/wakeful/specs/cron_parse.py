"""Layer 1, pure. What do the fields of a cron expression say?"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, NoReturn

from wakeful.values.errors import BadSpec

TEXT_MAX = 1_000  # no rule a person wrote is longer; a pasted file is
KEPT_MAX = 200  # what is longer is read each time: thousands of such, kept with all of their parts, are hundreds of MB

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

Kind = Literal["values", "last", "last_weekday", "nearest", "nth", "last_of"]


class Part(NamedTuple):
    """One part of a field's list, such as `9-17/2`, `15W` or `fri#2`.

    values: low to high (wrapping when high < low), every step-th · last: `step` days before the last of the month ·
    last_weekday: LW · nearest: the weekday nearest day `low` · nth: the `step`-th weekday `low` · last_of: the last one.
    """

    kind: Kind
    low: int = 0
    high: int = 0
    step: int = 1


class Name(NamedTuple):
    """What a field is called, its range, and the names that stand for its values from `low` on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)  # there is one for each word, so it is itself
class Field:
    """A field as read: `star` when it begins with `*` or `?`, which is what Debian's rules ask; `values` sorted."""

    name: str
    star: bool
    parts: tuple[Part, ...]
    values: tuple[int, ...]
    full: bool
    is_kept: bool = True  # short enough that things may be kept by it

    @property
    def special(self) -> tuple[Part, ...]:
        """The parts whose days depend on the month."""
        return tuple(part for part in self.parts if part.kind != "values")


@dataclass(frozen=True, slots=True)
class Fields:
    """A whole expression as read; `text` is it in the spelling that we print."""

    text: str
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def is_elapsed(self) -> bool:
        """A wildcard job: it follows elapsed time rather than the clock on the wall (cron.c of Debian: MIN_STAR, HR_STAR)."""
        return self.minute.star or self.hour.star


NAMES = (
    Name("second", 0, 59),
    Name("minute", 0, 59),
    Name("hour", 0, 23),
    Name("day-of-month", 1, 31),
    Name("month", 1, 12, MONTHS),
    Name("day-of-week", 0, 7, WEEKDAYS),
)
_DAY, _WEEKDAY = NAMES[3], NAMES[5]
_SHAPE = "give 5 (minute hour day-of-month month day-of-week), or 6 with seconds first"
_RANGE = re.compile(r"(?P<low>\*|\?|[0-9]+|[a-z]+)(?:-(?P<high>[0-9]+|[a-z]+))?(?:/(?P<step>[0-9]+))?", re.ASCII)
_LAST = re.compile(r"l(?:-([0-9]+))?", re.ASCII)
_NEAREST = re.compile(r"([0-9]+)w", re.ASCII)
_NTH = re.compile(r"([0-9]|[a-z]{3})#([0-9]+)", re.ASCII)
_LAST_OF = re.compile(r"([0-9]|[a-z]{3})l", re.ASCII)


def parse(text: str) -> Fields:
    """The fields of an expression; what can't be read is an error that names the field and the part."""
    if len(text) > TEXT_MAX:
        raise BadSpec(f"a cron expression of {len(text)} characters; at most {TEXT_MAX}", code="spec.cron")
    return _kept(text) if len(text) <= KEPT_MAX else _parse_fields(text)


def _parse_fields(text: str) -> Fields:
    words = text.lower().split()
    if len(words) == 1 and words[0].startswith("@"):
        macro = _macro(text, words[0])
        return _read(words[0], macro.split(), macro)
    if len(words) not in (5, 6):
        raise BadSpec(f"cron {text!r} has {len(words)} fields; {_SHAPE}", code="spec.cron")
    return _read(None, words, text)


_kept = lru_cache(maxsize=4096)(_parse_fields)


def _read(macro: str | None, words: list[str], text: str) -> Fields:
    typed = words if len(words) == 6 else ["0", *words]
    try:
        read = [_field(index, word) for index, word in enumerate(typed)]
    except _Unreadable as error:
        raise BadSpec(f"cron {text!r}: {error}", code="spec.field") from None
    return Fields(macro or " ".join(_spell(word) for word in words), *read)


def _field(index: int, word: str) -> Field:
    return _kept_field(index, word) if len(word) <= KEPT_MAX else _make_field(index, word)


def _make_field(index: int, word: str) -> Field:
    return _Reader(NAMES[index], word).field()


_kept_field = lru_cache(maxsize=4096)(_make_field)


class _Unreadable(Exception):
    """Which field, and what is wrong with it."""


def _macro(text: str, word: str) -> str:
    if word == "@reboot":
        raise BadSpec(
            "cron '@reboot' names the start of a machine, not a time, so it has no next occurrence; "
            "call the handler when the app starts",
            code="spec.cron",
        )
    if word not in MACROS:
        raise BadSpec(f"cron {text!r} is not one of {', '.join(MACROS)}", code="spec.cron")
    return MACROS[word]


def _spell(word: str) -> str:
    """A lower-case field as we print it: `L` and `W` large, names small."""
    word = re.sub(r"(?<![a-z])lw?(?![a-z])", lambda found: found[0].upper(), word)
    return re.sub(r"([0-9]w|(?:[0-9]|\b[a-z]{3})l)(?![a-z])", lambda found: found[0][:-1] + found[0][-1].upper(), word)


class _Reader:
    """Reads one field; knows what to say when it can't."""

    def __init__(self, name: Name, word: str) -> None:
        self.name = name
        self.word = word

    def field(self) -> Field:
        parts = tuple(self._part(part) for part in self.word.split(","))
        values: set[int] = set()
        for part in parts:
            if part.kind == "values":
                values.update(self._values(part))
        size = self._size()
        is_kept = len(self.word) <= KEPT_MAX
        return Field(self.name.name, self.word[0] in "*?", parts, tuple(sorted(values)), len(values) == size, is_kept)

    def _part(self, part: str) -> Part:
        if not part:
            self._wrong(f"has an empty part in {self.word!r}; take the extra comma out")
        if self.name is _DAY and (special := self._special_day(part)):
            return special
        if self.name is _WEEKDAY and (special := self._special_weekday(part)):
            return special
        found = _RANGE.fullmatch(part)
        if found is None:
            self._wrong(f"can't be read: {part!r}; {self._allowed_text()}")
        low, high, step = found["low"], found["high"], found["step"]
        if low in ("*", "?"):
            if high is not None:
                self._wrong(f"can't be read: {part!r} is a range from {low!r}; write '*' or two numbers")
            if low == "?" and (self.name not in (_DAY, _WEEKDAY) or step is not None or self.word != "?"):
                self._wrong("takes '?' only alone, in place of '*' in day-of-month or day-of-week")
            return Part("values", self.name.low, self.name.high, self._step(part, step))
        first = self._number(low)
        if high is not None:
            return Part("values", first, self._number(high), self._step(part, step))
        # `5/15` is how others write `5-59/15`
        return Part("values", first, first if step is None else self.name.high, self._step(part, step))

    def _special_day(self, part: str) -> Part | None:
        if part == "lw":
            return Part("last_weekday")
        if match := _LAST.fullmatch(part):
            back = int(match[1] or 0)
            if back > 30:
                self._wrong(
                    f"{part.upper()} is out of range: a month has no {back} days before its last; use L-0 to L-30"
                )
            return Part("last", step=back)
        if match := _NEAREST.fullmatch(part):
            return Part("nearest", self._number(match[1]))
        return None

    def _special_weekday(self, part: str) -> Part | None:
        if part == "l":
            self._wrong("'L' needs its day: 5L or friL is the last Friday of the month")
        if found := _NTH.fullmatch(part):
            if not 1 <= int(found[2]) <= 5:
                self._wrong(f"{part!r} is out of range: #{found[2]} is not in #1 to #5 (use {found[1]}L for the last)")
            return Part("nth", self._number(found[1]) % 7, step=int(found[2]))
        if found := _LAST_OF.fullmatch(part):
            return Part("last_of", self._number(found[1]) % 7)
        return None

    def _number(self, word: str) -> int:
        name = self.name
        if word.isdigit():
            value = int(word)
            if not name.low <= value <= name.high:
                self._wrong(f"{word} is out of range {name.low}-{name.high}")
            return value
        if word in name.names:
            return name.names.index(word) + (1 if name.low else 0)
        return self._wrong(f"{word!r} is not known; {self._allowed_text()}")

    def _step(self, part: str, step: str | None) -> int:
        if step is None:
            return 1
        size = self._size()
        if not 1 <= int(step) <= size:
            self._wrong(f"step {step} in {part!r} is out of range 1-{size}")
        return int(step)

    def _values(self, part: Part) -> list[int]:
        """The values of a range; one that ends before it begins goes on from the field's first value."""
        name, size = self.name, self._size()
        high = part.high if part.high >= part.low else part.high + size
        spread = range(part.low, high + 1, part.step)
        return [(value - name.low) % size + name.low for value in spread]

    def _size(self) -> int:
        return 7 if self.name is _WEEKDAY else self.name.high - self.name.low + 1

    def _allowed_text(self) -> str:
        name = self.name
        allowed = f"use {name.low}-{name.high}"
        if name.names:
            allowed += f" or {name.names[0]}-{name.names[-1]}"
        if name is _DAY:
            allowed += ", L, L-3, LW or 15W"
        elif name is _WEEKDAY:
            allowed += ", fri#2 or friL"
        return allowed + ", with lists (1,2), ranges (1-5) and steps (*/2)"

    def _wrong(self, why: str) -> NoReturn:
        raise _Unreadable(f"{self.name.name} {why}")
