"""Layer 1, pure. When is something that happens once?"""

from datetime import datetime

from wakeful.specs.spec import Spec
from wakeful.specs.words import check_ms, instant_of, instant_text, instant_words, length_text, length_words
from wakeful.values.errors import BadSpec, BadTime
from wakeful.values.times import LATEST_MS, Duration, duration_ms, from_datetime

TOO_LATE = "ends past the latest time, 9999-01-01; give a shorter delay"


def at(when: datetime) -> "At":
    """Once, at that instant; a naive datetime is an error that says how to fix it.

    >>> from datetime import UTC, datetime
    >>> from wakeful import at
    >>> spec = at(datetime(2026, 12, 24, 18, tzinfo=UTC))
    >>> print(spec.next_after(datetime(2026, 1, 1, tzinfo=UTC)), spec.next_after(datetime(2027, 1, 1, tzinfo=UTC)))
    2026-12-24 18:00:00+00:00 None
    """
    if not isinstance(when, datetime):
        raise BadTime(f"at {when!r}: give an aware datetime, such as datetime.now(UTC) + …", code="time.type")
    return At(check_ms(from_datetime(when), f"at {when.isoformat()}"))


def after(delay: Duration) -> "After":
    """Once, that long after the schedule is added.

    >>> from wakeful import after
    >>> after("90m").describe()
    'once, 1 hour and 30 minutes after it is added'
    """
    ms = duration_ms(delay, what="after")
    if ms == 0:
        raise BadSpec(
            f"after {delay!r}: give a delay of at least 1ms; what is due now needs no spec", code="spec.delay"
        )
    if ms > LATEST_MS:
        raise BadTime(f"after {delay!r:.60} {TOO_LATE}", code="time.late")
    return After(ms)


class At(Spec):
    """One instant, exact to the millisecond."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    @property
    def is_once(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return f"at {instant_text(self.at_ms)}"

    def describe(self) -> str:
        return f"once, on {instant_words(self.at_ms)}"

    def next_ms(self, after: int) -> int | None:
        return self.at_ms if self.at_ms > after else None

    def previous_ms(self, before: int) -> int | None:
        return self.at_ms if self.at_ms < before else None


class After(Spec):
    """A delay that has not begun: it names no instant of its own until `bind` makes it an `At`.

    Asked before that, it answers as if it began at the time it is asked about, and nothing lies before it.
    """

    __slots__ = ("delay_ms",)

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms

    @property
    def is_once(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return f"after {length_text(self.delay_ms)}"

    def describe(self) -> str:
        return f"once, {length_words(self.delay_ms)} after it is added"

    def next_ms(self, after: int) -> int | None:
        found = after + self.delay_ms
        return found if found <= LATEST_MS else None

    def previous_ms(self, before: int) -> int | None:
        return None

    def between_ms(self, first: int, last: int, limit: int) -> list[int]:
        found = first + self.delay_ms  # it happens once, so there is no second one to look for
        return [found] if found < last and found <= LATEST_MS and limit > 0 else []

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        if added_at + self.delay_ms > LATEST_MS:
            raise BadTime(f"after '{length_text(self.delay_ms)}' {TOO_LATE}", code="time.late")
        return At(check_ms(added_at + self.delay_ms, self.text))


def at_from_text(text: str) -> At:
    """The `At` of its canonical text."""
    return At(instant_of(text.removeprefix("at "), "at"))


def after_from_text(text: str) -> After:
    """The `After` of its canonical text."""
    return after(text.removeprefix("after "))
