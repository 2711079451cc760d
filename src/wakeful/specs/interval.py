"""Layer 1, pure. When is something that happens every so often, without drift?"""

from datetime import datetime, timedelta
from typing import Literal

from wakeful.specs.spec import CatchUp, Spec
from wakeful.specs.words import check_ms, every_words, instant_of, instant_text, instant_words, length_text
from wakeful.values.errors import BadSpec, BadTime
from wakeful.values.times import LATEST_MS, Duration, duration_ms, from_datetime

EARLIEST_MS = -62_135_596_800_000  # the year 1, where `datetime` begins
LENGTH_MIN_MS = 1_000  # below it a schedule is a loop: write one

Start = Literal["free", "from", "after"]
_STARTS: dict[str, Start] = {"from": "from", "after": "after"}


def interval(length: Duration, anchor: datetime | None = None) -> "Interval":
    """Every `length`, counted from the anchor; without one, from when the schedule is added."""
    ms = duration_ms(length, what="every")
    if ms < LENGTH_MIN_MS:
        said = f"{length.total_seconds():g}s" if isinstance(length, timedelta) else repr(length)
        raise BadSpec(f"every {said}: the shortest interval is 1s; give a longer one", code="spec.interval")
    if ms > LATEST_MS:
        raise BadSpec(f"every {length!r}: longer than all the time there is, up to the year 9999", code="spec.interval")
    if anchor is None:
        return Interval(ms, 0, "free")
    if not isinstance(anchor, datetime):
        raise BadTime(f"anchor {anchor!r}: give an aware datetime", code="time.type")
    return Interval(ms, check_ms(from_datetime(anchor), f"anchor {anchor.isoformat()}"), "from")


class Interval(Spec):
    """The instants `anchor + k × length`, in exact arithmetic.

    `from`: an anchor that was given is itself the first one (k ≥ 0), also when it lies ahead.
    `after`: an anchor that was bound is the moment of adding, and the first one comes a length after it (k ≥ 1).
    `free`: not bound yet, so every k, around the Unix epoch.
    """

    __slots__ = ("anchor_ms", "length_ms", "start")

    @property
    def catch_up(self) -> CatchUp:
        return "skip"

    def __init__(self, length_ms: int, anchor_ms: int, start: Start) -> None:
        self.length_ms = length_ms
        self.anchor_ms = anchor_ms
        self.start: Start = start

    @property
    def text(self) -> str:
        plain = f"every {length_text(self.length_ms)}"
        return plain if self.start == "free" else f"{plain} {self.start} {instant_text(self.anchor_ms)}"

    def describe(self) -> str:
        plain = every_words(self.length_ms)
        return plain if self.start == "free" else f"{plain}, counted from {instant_words(self.anchor_ms)}"

    def next_ms(self, after: int) -> int | None:
        step = (after - self.anchor_ms) // self.length_ms + 1
        found = self.anchor_ms + max(step, self._first_step(step)) * self.length_ms
        return found if found <= LATEST_MS else None

    def previous_ms(self, before: int) -> int | None:
        step = (before - 1 - self.anchor_ms) // self.length_ms
        if step < self._first_step(step):
            return None
        found = self.anchor_ms + step * self.length_ms
        return found if found >= EARLIEST_MS else None

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        return Interval(self.length_ms, added_at, "after") if self.start == "free" else self

    def _first_step(self, step: int) -> int:
        if self.start == "free":
            return step
        return 0 if self.start == "from" else 1


def interval_from_text(text: str) -> Interval:
    """The `Interval` of its canonical text."""
    length, _, rest = text.removeprefix("every ").partition(" ")
    plain = interval(length)
    if not rest:
        return plain
    word, _, anchor = rest.partition(" ")
    start = _STARTS.get(word)
    if start is None:
        raise BadSpec(f"{text!r}: {word!r} is neither 'from' nor 'after' with an instant", code="spec.text")
    return Interval(plain.length_ms, instant_of(anchor, "anchor"), start)
