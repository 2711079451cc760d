"""Layer 1, pure. When do several specs and calendars together say?

How the work is bounded: outside a calendar the search jumps to its next opening, never from occurrence to occurrence.
It jumps over what a cron leaves out without a hole too. It gives up, and answers that there is none, 400
years past its first candidate (the calendar's own cycle) or after ten thousand candidates that were all refused, those of
searches within it included (`work.py`). Only `except_for` with a dense rule of exact instants can come near the second
bound; to leave out long stretches, give it a calendar. A schedule that lives goes on from where a search stood
(`resume_ms`), in another turn. When a spec is made, 5,000 refused candidates are enough to call it impossible; when it is
added, it is looked at from then on.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeVar

from wakeful.specs.calendars import Calendar, Holidays
from wakeful.specs.cron import Cron, Marks
from wakeful.specs.interval import Interval
from wakeful.specs.rrule import Rule
from wakeful.specs.spec import CatchUp, Spec, Spent, spend, within_steps
from wakeful.specs.words import length_text, length_words
from wakeful.values.errors import BadSpec
from wakeful.values.times import LATEST_MS, Duration, duration_ms

# How far does a spec name everything that another one names, so that a search can jump over it?

_ALL = frozenset(range(60)), frozenset(range(60)), frozenset(range(24))


def stretch_end(out: Spec, at: int, spec: Spec) -> int | None:
    """The first instant after `at`, which both name, at which the spec may name one that `out` does not; None for never."""
    if isinstance(out, Interval):
        return None if _grain(spec) % out.length_ms == 0 else at + 1
    if isinstance(out, Cron) and _grain(spec) >= 1000:
        return out.stretch_around(at, _marks(spec, out))[1]
    parts: tuple[Spec, ...] = getattr(out, "parts", ())
    part = next((one for one in parts if one.next_ms(at - 1) == at), None)
    return at + 1 if part is None else stretch_end(part, at, spec)


def stretch_start(out: Spec, at: int, spec: Spec) -> int | None:
    """The same backwards: the last instant before `at`."""
    if isinstance(out, Interval):
        return None if out.start == "free" and _grain(spec) % out.length_ms == 0 else at - 1
    if isinstance(out, Cron) and _grain(spec) >= 1000:
        return out.stretch_around(at, _marks(spec, out))[0]
    parts: tuple[Spec, ...] = getattr(out, "parts", ())
    part = next((one for one in parts if one.next_ms(at - 1) == at), None)
    return at - 1 if part is None else stretch_start(part, at, spec)


def _grain(spec: Spec) -> int:
    """Two instants of the spec are a multiple of that many milliseconds apart."""
    if isinstance(spec, Interval):
        return spec.length_ms if spec.length_ms % 1000 == 0 else 1
    if isinstance(spec, Cron):
        return 60_000 if len(spec.marks[0]) == 1 and spec.zone in (None, "UTC") else 1000
    return 1000 if isinstance(spec, Rule) else 1


def _marks(spec: Spec, out: Cron) -> Marks:
    """The seconds, minutes and hours that the spec may name, on the clocks of the other."""
    return spec.marks if isinstance(spec, Cron) and spec.zone == out.zone else _ALL


HORIZON_MS = 146_097 * 86_400_000
STEPS_MAX = 10_000  # some fifty milliseconds
FIRST_STEPS_MAX = 5_000
PARTS_MAX = 1_000  # of a union: each look asks all of them
COUNTS_MAX = 10  # rules with COUNT in one spec: each is counted out once, which takes up to a tenth of a second
_S = TypeVar("_S", bound="Sieve")
_T = TypeVar("_T", bound=Spec)

WINDOW_MAX_MS = 366 * 86_400_000  # of a spread
_PLAIN_SEED = re.compile(r"[A-Za-z0-9_./:@+-]+")
DEPTH_MAX = 20  # combinations within combinations; nobody reads more, and the reader of texts recurses


def union(specs: Iterable[Spec]) -> Spec:
    """Whatever any of them names; one spec alone is itself."""
    parts: dict[str, Spec] = {}
    for spec in specs:
        for part in spec.parts if isinstance(spec, AnyOf) else (spec,):
            parts[part.text] = part
    if not parts:
        raise BadSpec("any_of: give at least one spec", code="spec.empty")
    if len(parts) > PARTS_MAX:
        raise BadSpec(f"any_of: {len(parts)} specs; the most is {PARTS_MAX}, use several schedules", code="spec.parts")
    return next(iter(parts.values())) if len(parts) == 1 else check_counts(AnyOf(tuple(parts.values())))


class AnyOf(Spec):
    """The union of specs. Make it with `any_of(…)`."""

    __slots__ = ("depth", "parts")

    def __init__(self, parts: tuple[Spec, ...]) -> None:
        self.parts = parts
        self.depth = depth_over(*parts)

    @property
    def catch_up(self) -> CatchUp:
        return "skip" if all(part.catch_up == "skip" for part in self.parts) else "latest"

    @property
    def is_once(self) -> bool:
        return all(part.is_once for part in self.parts)

    @property
    def counted_rules(self) -> tuple[Spec, ...]:
        return tuple(rule for part in self.parts for rule in part.counted_rules)

    @property
    def text(self) -> str:
        return " or ".join(f"({part.text})" for part in self.parts)

    def describe(self) -> str:
        return ", and also ".join(part.describe() for part in self.parts)

    def next_ms(self, after: int) -> int | None:
        return min((at for part in self.parts if (at := part.next_ms(after)) is not None), default=None)

    def resume_ms(self, after: int) -> int | None:
        return min((at for part in self.parts if (at := part.resume_ms(after)) is not None), default=None)

    def previous_ms(self, before: int) -> int | None:
        return max((at for part in self.parts if (at := part.previous_ms(before)) is not None), default=None)

    def gaps_ms(self, first: int, last: int) -> list[int]:
        return sorted({at for part in self.parts for at in part.gaps_ms(first, last)})

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        return union(part.bind(added_at=added_at, seed=seed, zone=zone) for part in self.parts)


class Sieve(Spec):
    """A spec of which only some occurrences are kept."""

    __slots__ = ("_stopped", "depth", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._stopped: tuple[int, int] | None = None  # the last search, if it was spent: after what, and where it stood

    @property
    def catch_up(self) -> CatchUp:
        return self.spec.catch_up

    @property
    def is_once(self) -> bool:
        return self.spec.is_once

    @property
    def counted_rules(self) -> tuple[Spec, ...]:
        return self.spec.counted_rules

    @abstractmethod
    def keeps_from(self, at: int) -> int | None:
        """The instant itself when an occurrence then is kept, else the first later one worth a look; None for never."""

    @abstractmethod
    def keeps_to(self, at: int) -> int | None:
        """The same backwards."""

    @abstractmethod
    def is_settled(self) -> bool:
        """Whether binding it changes nothing, so that it can be searched."""

    def next_ms(self, after: int) -> int | None:
        return self.search(after, STEPS_MAX)

    def search(self, after: int, steps: int) -> int | None:
        """The first kept occurrence after that instant, if it is found in so many steps."""
        return within_steps(steps, self._next, after)

    def resume_ms(self, after: int) -> int | None:
        return None if self._stopped is None or self._stopped[0] != after else self._stopped[1]

    def _next(self, after: int) -> int | None:
        self._stopped = None
        asked, at = after, None
        try:
            at = first = self.spec.next_ms(after)
            while True:
                spend(self._weight())
                if at is None or first is None or at - first > HORIZON_MS:
                    return None
                kept = self.keeps_from(at)
                if kept == at:
                    return at
                if kept is None:
                    return None
                asked, at = kept - 1, None
                at = self.spec.next_ms(asked)
        except Spent:
            # When not even one was decided, another search would stand where this one did: then there is none.
            stood = self.spec.resume_ms(asked) if at is None else at if asked > after else None
            self._stopped = None if stood is None else (after, stood)
            raise

    def previous_ms(self, before: int) -> int | None:
        return within_steps(STEPS_MAX, self._previous, before)

    def _previous(self, before: int) -> int | None:
        at = last = self.spec.previous_ms(before)
        while True:
            spend(self._weight())
            if at is None or last is None or last - at > HORIZON_MS:
                return None
            kept = self.keeps_to(at)
            if kept == at:
                return at
            at = None if kept is None else self.spec.previous_ms(kept + 1)

    def _weight(self) -> int:
        """What one candidate costs: how many specs are asked for it."""
        return weight(self.spec)


class ExceptFor(Sieve):
    """A spec without the instants of others, or the times of calendars. Make it with `except_for(…)`."""

    __slots__ = ("_calendars", "_specs", "excluded")

    def __init__(self, spec: Spec, excluded: tuple[Spec | Calendar, ...]) -> None:
        super().__init__(spec)
        self.excluded = excluded
        self._specs = [one for one in excluded if isinstance(one, Spec)]
        self._calendars = [one for one in excluded if isinstance(one, Calendar)]
        self.depth = depth_over(spec, *self._specs)

    @property
    def text(self) -> str:
        return f"({self.spec.text}) except {', '.join(f'({one.text})' for one in self.excluded)}"

    def describe(self) -> str:
        said = self.spec.describe()
        for one in self.excluded:
            how = "on " if isinstance(one, Holidays) else "during " if isinstance(one, Calendar) else ""
            said += f", except {how}{one.describe()}"
        return said

    def keeps_from(self, at: int) -> int | None:
        for calendar in self._calendars:
            closing = calendar.next_close(at)
            if closing != at:
                return closing
        for one in self._specs:
            if one.next_ms(at - 1) == at:
                return stretch_end(one, at, self.spec)
        return at

    def keeps_to(self, at: int) -> int | None:
        for calendar in self._calendars:
            closed = calendar.previous_close(at)
            if closed != at:
                return closed
        for one in self._specs:
            if one.next_ms(at - 1) == at:
                return stretch_start(one, at, self.spec)
        return at

    def _weight(self) -> int:
        return weight(self.spec) + sum(map(weight, self._specs))

    @property
    def counted_rules(self) -> tuple[Spec, ...]:
        return (*self.spec.counted_rules, *(rule for one in self._specs for rule in one.counted_rules))

    def gaps_ms(self, first: int, last: int) -> list[int]:
        found = [at for at in self.spec.gaps_ms(first, last) if self.keeps_from(at) == at]
        return [at for at in found if not any(one.gaps_ms(at, at + 1) for one in self._specs)]

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        spec = self.spec.bind(added_at=added_at, seed=seed, zone=zone)
        excluded = tuple(
            one.bind(zone) if isinstance(one, Calendar) else one.bind(added_at=added_at, seed=seed, zone=zone)
            for one in self.excluded
        )
        found = ExceptFor(spec, excluded)
        return check_possible_after(self if found == self else check_possible(found), added_at)

    def is_settled(self) -> bool:
        return is_same_anywhere(self.spec) and all(map(is_same_anywhere, self.excluded))


class Within(Sieve):
    """A spec while calendars are open. Make it with `within(…)`."""

    __slots__ = ("calendars",)

    def __init__(self, spec: Spec, calendars: tuple[Calendar, ...]) -> None:
        super().__init__(spec)
        self.calendars = calendars
        self.depth = depth_over(spec)

    @property
    def text(self) -> str:
        return f"({self.spec.text}) within {', '.join(f'({one.text})' for one in self.calendars)}"

    def describe(self) -> str:
        return ", within ".join([self.spec.describe(), *(one.describe() for one in self.calendars)])

    def keeps_from(self, at: int) -> int | None:
        for calendar in self.calendars:
            opening = calendar.next_open(at)
            if opening != at:
                return opening
        return at

    def keeps_to(self, at: int) -> int | None:
        for calendar in self.calendars:
            opened = calendar.previous_open(at)
            if opened != at:
                return opened
        return at

    def gaps_ms(self, first: int, last: int) -> list[int]:
        return [at for at in self.spec.gaps_ms(first, last) if self.keeps_from(at) == at]

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        spec = self.spec.bind(added_at=added_at, seed=seed, zone=zone)
        found = Within(spec, tuple(one.bind(zone) for one in self.calendars))
        return check_possible_after(self if found == self else check_possible(found), added_at)

    def is_settled(self) -> bool:
        return is_same_anywhere(self.spec) and all(map(is_same_anywhere, self.calendars))


def check_counts(spec: _T) -> _T:
    """The spec, unless too many of its rules have to be counted out."""
    if (rules := len(spec.counted_rules)) > COUNTS_MAX:
        raise BadSpec(f"{rules} rules with COUNT in one spec; the most is {COUNTS_MAX}, use UNTIL", code="spec.work")
    return spec


def check_possible(spec: _S) -> _S:
    """The spec, unless it keeps nothing at all; one that waits for a zone or an anchor is looked at when it is bound."""
    check_counts(spec)
    if spec.is_settled() and spec.search(0, FIRST_STEPS_MAX) is None:
        raise BadSpec(f"{spec.text} never happens: it leaves out every occurrence", code="spec.impossible")
    return spec


def check_possible_after(spec: _S, added_at: int) -> _S:
    """The spec, unless a look at what comes after it was added takes too long; that nothing comes any more may be."""

    def look(at: int) -> bool:
        spec._next(at)
        return True

    if within_steps(STEPS_MAX, look, added_at) is None:
        raise BadSpec(
            f"{spec.text[:200]} leaves out each of the next {STEPS_MAX} times, or as many steps show none; "
            "to leave out long stretches use a calendar, such as business_hours() or holidays()",
            code="spec.impossible",
        )
    return spec


def weight(spec: Spec) -> int:
    """How many specs are asked when this one is."""
    if isinstance(spec, AnyOf):
        return sum(map(weight, spec.parts))
    return spec._weight() if isinstance(spec, Sieve) else 1


def is_same_anywhere(one: Spec | Calendar) -> bool:
    """Whether it means the same whenever and wherever it is added."""
    if isinstance(one, Calendar):
        return one.zone is not None
    if isinstance(one, Sieve):
        return one.is_settled()
    if isinstance(one, AnyOf):
        return all(map(is_same_anywhere, one.parts))
    try:
        return one.bind(added_at=0, seed="", zone="UTC") == one.bind(added_at=86_523_000, seed="", zone="Asia/Tokyo")
    except BadSpec:  # a rule that some starts make impossible
        return False


def depth_over(*parts: Spec) -> int:
    """One more than the deepest of them, up to the limit."""
    depth = 1 + max(getattr(part, "depth", 0) for part in parts)
    if depth > DEPTH_MAX:
        raise BadSpec(f"combinations are nested {depth} deep; the most is {DEPTH_MAX}", code="spec.depth")
    return depth


def spread_over(spec: Spec, window: Duration) -> "Spread":
    """The spec with every occurrence moved by the same part of the window, which is 0 until a schedule seeds it."""
    ms = duration_ms(window, what="spread")
    if not 0 < ms <= WINDOW_MAX_MS:
        raise BadSpec(f"spread {window!r}: give a window from 1ms to 366 days", code="spec.spread")
    return Spread(spec, ms, None)


class Spread(Spec):
    """A spec moved by an offset in [0, window) that a seed decides. Make it with `spread(…)`."""

    __slots__ = ("depth", "offset_ms", "seed", "spec", "window_ms")

    def __init__(self, spec: Spec, window_ms: int, seed: str | None) -> None:
        self.spec = spec
        self.window_ms = window_ms
        self.seed = seed
        self.offset_ms = 0 if seed is None else _offset(seed, window_ms)
        self.depth = depth_over(spec)

    @property
    def catch_up(self) -> CatchUp:
        return self.spec.catch_up

    @property
    def is_once(self) -> bool:
        return self.spec.is_once

    @property
    def text(self) -> str:
        plain = f"({self.spec.text}) spread {length_text(self.window_ms)}"
        if self.seed is None:
            return plain
        return f"{plain} seed {self.seed if _PLAIN_SEED.fullmatch(self.seed) else json.dumps(self.seed)}"

    def describe(self) -> str:
        said = f"{self.spec.describe()}, spread over {length_words(self.window_ms)}"
        return said if self.seed is None else f"{said} (this one {length_words(self.offset_ms)} later)"

    def next_ms(self, after: int) -> int | None:
        found = self.spec.next_ms(after - self.offset_ms)
        return None if found is None or found + self.offset_ms > LATEST_MS else found + self.offset_ms

    @property
    def counted_rules(self) -> tuple[Spec, ...]:
        return self.spec.counted_rules

    def resume_ms(self, after: int) -> int | None:
        found = self.spec.resume_ms(after - self.offset_ms)
        return None if found is None else found + self.offset_ms

    def previous_ms(self, before: int) -> int | None:
        found = self.spec.previous_ms(before - self.offset_ms)
        return None if found is None else found + self.offset_ms

    def gaps_ms(self, first: int, last: int) -> list[int]:
        return [at + self.offset_ms for at in self.spec.gaps_ms(first - self.offset_ms, last - self.offset_ms)]

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        spec = self.spec.bind(added_at=added_at, seed=seed, zone=zone)
        return Spread(spec, self.window_ms, seed if self.seed is None else self.seed)


def _offset(seed: str, window_ms: int) -> int:
    """So that a million schedules that name the same instant do not all run in the same second."""
    digest = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * window_ms >> 64
