"""Layer 1, pure. What is a spec: a rule that names instants?"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from wakeful.values.errors import BadSpec
from wakeful.values.times import from_datetime, to_datetime

CatchUp = Literal["skip", "latest", "all", "coalesce", "backfill"]
TEXT_MAX = 1_000_000  # characters; ten thousand holidays are a tenth of it


class Spec(ABC):
    """An immutable rule that names instants, in whole milliseconds UTC inside and aware datetimes outside.

    Two specs with the same `text` are the same spec; `parse_spec(spec.text)` gives it back.
    A kind of spec defines `text`, `describe`, `next_ms`, `previous_ms`, and, where they mean something, `gaps_ms`
    and `bind`.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # checkers know that a spec can't be called, and say so themselves

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Only to say how it is meant: `@cron("0 9 * * *")` is what one writes first."""
            raise BadSpec(
                f"{self.text!r} is a rule, no decorator; put every around it, like @every(cron('0 9 * * *'))",
                code="spec.word",
            )

    @property
    def catch_up(self) -> CatchUp:
        """What a schedule with this spec does by default with missed occurrences."""
        return "latest"

    @property
    def is_once(self) -> bool:
        """Whether no other time follows: what is missed of it is lost, unless it still runs."""
        return False

    @property
    def counted_rules(self) -> "tuple[Spec, ...]":
        """The rules in it that have to be counted out, once, before they can be asked."""
        return ()

    def count_out(self) -> Iterator[None]:
        """Count them, a few milliseconds of it at each step of the iterator; whoever asks before is waited for."""
        for rule in self.counted_rules:
            yield from rule.count_out()

    @property
    @abstractmethod
    def text(self) -> str:
        """What a person would type for it, complete: zone, gap, fold and anchor included."""

    @abstractmethod
    def describe(self) -> str:
        """The rule in plain English."""

    @abstractmethod
    def next_ms(self, after: int) -> int | None:
        """The first occurrence strictly after; None when there is none ever."""

    def resume_ms(self, after: int) -> int | None:
        """Where the search of `next_ms(after)`, just asked, stood when it had taken as many steps as one look may: nothing
        comes before that, and whoever must miss nothing asks again from there. None when the search came to its end."""
        return None

    @abstractmethod
    def previous_ms(self, before: int) -> int | None:
        """The last occurrence strictly before; None when there is none."""

    def gaps_ms(self, first: int, last: int) -> list[int]:
        """What `gap="skip"` leaves out in `first <= t < last`: for each local time that the rule names and the clocks
        jump over, the instant of that jump."""
        return []

    def bind(self, *, added_at: int, seed: str, zone: str) -> "Spec":
        """The spec as a schedule keeps it: a relative one gets its anchor, a zoneless one its zone, a spread its seed."""
        return self

    # for people

    def next_after(self, when: datetime) -> datetime | None:
        """The first occurrence strictly after that time."""
        found = self.next_ms(from_datetime(when))
        return None if found is None else to_datetime(found)

    def previous_before(self, when: datetime) -> datetime | None:
        """The last occurrence strictly before that time."""
        found = self.previous_ms(from_datetime(when))
        return None if found is None else to_datetime(found)

    def between(self, start: datetime, end: datetime, limit: int = 1000) -> list[datetime]:
        """The occurrences from `start` (inclusive) to `end` (exclusive), the first `limit` of them."""
        return [to_datetime(at) for at in self.between_ms(from_datetime(start), from_datetime(end), limit)]

    def between_ms(self, first: int, last: int, limit: int) -> list[int]:
        """The same in milliseconds."""
        found: list[int] = []
        at = self.next_ms(first - 1)
        while at is not None and at < last and len(found) < limit:
            found.append(at)
            at = self.next_ms(at)
        return found

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def check_length(text: str) -> None:
    """`BadSpec` when the text is longer than any spec may be."""
    if len(text) > TEXT_MAX:
        raise BadSpec(f"a spec of {len(text)} characters; the most is {TEXT_MAX}", code="spec.text")


# How much may one look at a spec cost, however many searches are within each other?
#
# A search within a search within a search is the product of them. So they all take from one number, that of the outermost
# one: `spend` ends it with `Spent`, and it answers that there is none.

_T = TypeVar("_T")


class Spent(Exception):
    """The work that one look may take is done, and nothing was found."""


class _Left(threading.local):
    """What is left of it in this thread; None while nothing is searched."""

    steps: int | None = None


_left = _Left()


def within_steps(steps: int, search: Callable[[int], _T | None], at: int) -> _T | None:
    """What the search finds, or None after so many steps; one within another takes from the outer one's."""
    if _left.steps is not None:
        return search(at)
    _left.steps = steps
    try:
        return search(at)
    except Spent:
        return None
    finally:
        _left.steps = None


def steps_taken(steps: int, act: Callable[[], object]) -> int:
    """Act for at most so many steps, of its own also within a search: for what is found once and kept, whoever asks first."""
    outer, _left.steps = _left.steps, steps
    try:
        act()
        return steps - _left.steps
    except Spent:
        return steps
    finally:
        _left.steps = outer


def spend(steps: int) -> None:
    """Take that much; `Spent` when nothing is left. Free outside of searches, which have bounds of their own then."""
    if _left.steps is not None:
        _left.steps -= steps
        if _left.steps < 0:
            raise Spent
