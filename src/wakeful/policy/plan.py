"""Layer 1, pure. Which of the occurrences that fell due run, and why not the others?

`plan` is for what fell due while nobody could run it, `overlapped` for what fell due while the run before
was still at it. Both give every occurrence up to the moment of asking exactly one fate: a place in `runs`, or
a verdict in `left`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, Protocol, get_args

from msgspec import Struct

from wakeful.specs.spec import CatchUp, Spec
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadOption, LimitExceeded
from wakeful.values.timers import Verdict
from wakeful.values.times import LATEST_MS

# Which instants does a schedule name, over all the versions it has had?


class Version(Struct, frozen=True, array_like=True):
    """One spec of a schedule and when it was in force: after `since`, up to and including `until`."""

    number: int
    asked: str  # the spec as it was given
    spec: str  # as it is kept: anchored, zoned, seeded
    since: int
    until: int | None = None


class PausedSpan(Struct, frozen=True, array_like=True):
    """When a schedule was paused: after `since`, before `until`."""

    since: int
    until: int | None
    note: str = ""

    def holds(self, at: int) -> bool:
        return self.since < at and (self.until is None or at < self.until)


# Kept by number and by size: a spec may have a million characters, and eight thousand such would be all the memory.
_SHORT = 1_000


def spec_of(text: str) -> Spec:
    """The spec of a kept text; parsed once while it is in use."""
    return _short_spec(text) if len(text) <= _SHORT else _long_spec(text)


def kept_text(spec: Spec) -> str:
    """The text to keep of a spec; who asks for its spec gets this very one, and nothing is read for it."""
    text = spec.text
    _made[text] = spec
    spec_of(text)
    _made.pop(text, None)
    return text


def forget_specs() -> None:
    """Read every text anew."""
    _short_spec.cache_clear()
    _long_spec.cache_clear()


_made: dict[str, Spec] = {}  # those whose text is being kept


def _made_or_parsed(text: str) -> Spec:
    return _made.get(text) or parse_spec(text)


_short_spec = lru_cache(maxsize=8_192)(_made_or_parsed)
_long_spec = lru_cache(maxsize=16)(_made_or_parsed)


class Timeline:
    """The occurrences of a schedule: those of each version while it was in force, within its bounds."""

    __slots__ = ("_end", "_extra", "_pauses", "_start", "_versions")

    def __init__(
        self,
        versions: Sequence[Version],
        *,
        pauses: Sequence[PausedSpan] = (),
        start_at: int | None = None,
        end_at: int | None = None,
        extra: int | None = None,
    ) -> None:
        self._versions = versions
        self._pauses = pauses
        self._start = start_at  # inclusive
        self._end = end_at  # exclusive
        self._extra = extra  # an occurrence that the handler asked for with `Next`

    def next_ms(self, after: int) -> int | None:
        """The first occurrence strictly after."""
        found = self._first(after, _next_of)
        if self._extra is not None and self._extra > after and (found is None or self._extra < found):
            return self._extra
        return found

    def resume_ms(self, after: int) -> int | None:
        """Where the search of `next_ms(after)`, just asked, stood when it had to stop; None when it came to its end."""
        return self._first(after, _resume_of)

    def _first(self, after: int, ask: Callable[[Spec, int], int | None]) -> int | None:
        """What the first version that is in force then, or later, answers, within the bounds."""
        if self._start is not None:
            after = max(after, self._start - 1)
        for version in self._versions:
            if version.until is not None and version.until <= after:
                continue
            found = ask(spec_of(version.spec), max(after, version.since))
            if found is not None and (version.until is None or found <= version.until):
                return found if self._end is None or found < self._end else None
        return None

    def previous_ms(self, before: int) -> int | None:
        """The last occurrence strictly before."""
        found = self._previous(before)
        if self._extra is not None and self._extra < before and (found is None or self._extra > found):
            return self._extra
        return found

    def _previous(self, before: int) -> int | None:
        if self._end is not None:
            before = min(before, self._end)
        for version in reversed(self._versions):
            if version.since >= before:
                continue
            limit = before if version.until is None else min(before, version.until + 1)
            found = spec_of(version.spec).previous_ms(limit)
            if found is not None and found > version.since:
                return found if self._start is None or found >= self._start else None
        return None

    def next_event(self, after: int) -> int | None:
        """The next occurrence, or the next one that the clocks jump over if that comes first: both need a verdict. Or
        where a search that had to stop stood: it goes on from there.
        """
        at = self.next_ms(after)
        if (stood := self.resume_ms(after)) is not None and (at is None or stood < at):
            return stood
        for version in self._versions:
            if "gap=skip" in version.spec and (version.until is None or version.until > after):
                gaps = self._gaps(version, after, at if at is not None else after + _GAP_SEARCH_MS)
                if gaps:
                    return gaps[0]
        return at

    def gaps(self, after: int, to: int) -> list[int]:
        """The occurrences in `after < t <= to` that the clocks jumped over, paused or not: they would not have come."""
        return [at for version in self._versions if "gap=skip" in version.spec for at in self._gaps(version, after, to)]

    def _gaps(self, version: Version, after: int, to: int) -> list[int]:
        """Of one version, in `after < t <= to`, within the bounds."""
        first = max(after, version.since) + 1
        last = to if version.until is None else min(to, version.until)
        if self._start is not None:
            first = max(first, self._start)
        if self._end is not None:
            last = min(last, self._end - 1)
        if first > last:
            return []
        spec = spec_of(version.spec)
        # The jump may lead to a time that the spec names as well (2:00 and 3:00): then that instant has its occurrence.
        return [at for at in spec.gaps_ms(first, last + 1) if spec.next_ms(at - 1) != at]

    def is_paused(self, at: int) -> bool:
        return any(pause.holds(at) for pause in self._pauses)

    def pause_of(self, at: int) -> PausedSpan | None:
        """The pause that holds this instant."""
        return next((pause for pause in self._pauses if pause.holds(at)), None)


# A spec that never occurs again but still names a time in a gap is looked at this far ahead.
_GAP_SEARCH_MS = 366 * 86_400_000


def _next_of(spec: Spec, after: int) -> int | None:
    return spec.next_ms(after)


def _resume_of(spec: Spec, after: int) -> int | None:
    return spec.resume_ms(after)


Overlap = Literal["skip", "queue_one", "queue_all"]

# Occurrences judged in one go, so that one turn stays some ten milliseconds; the rest follows in the next.
JUDGED_MAX = 10_000
# Runs owed at once. More of one schedule is a backlog, for which there is backfill.
RUNS_MAX = 1_000
PARALLEL_MAX = 16
# How far back anything is owed where nothing else was said; of what happens once, without end.
WINDOW_MS = 86_400_000
ENDLESS_MS = LATEST_MS
# Verdicts written one by one, the latest ones; those before them share a row. As many as the ledger keeps.
SINGLE_MAX = 100
# Verdicts of occurrences that should have run, and did not.
MISSED: tuple[Verdict, ...] = ("skipped", "too_late", "coalesced")


class Policy(Struct, frozen=True, kw_only=True, array_like=True):
    """What a schedule does when it is late."""

    catch_up: CatchUp = "latest"
    window_ms: int = WINDOW_MS  # how far back anything is owed
    runs_max: int = 100  # how many missed ones `all` and `backfill` run
    grace_ms: int = 60_000  # late by no more than this is merely late
    overlap: Overlap = "skip"
    parallel: int = 1


class OccurrenceTimes(Protocol):
    """Occurrences, as a `Timeline` knows them."""

    def next_ms(self, after: int) -> int | None: ...
    def resume_ms(self, after: int) -> int | None: ...
    def previous_ms(self, before: int) -> int | None: ...
    def gaps(self, after: int, to: int) -> list[int]: ...
    def pause_of(self, at: int) -> PausedSpan | None: ...


class Due(Struct, frozen=True, array_like=True):
    """An occurrence that runs, and how many missed ones it answers for, itself included."""

    nominal_at: int
    missed: int = 0
    first_at: int = 0  # of the missed ones
    is_backfill: bool = False


class Left(Struct, frozen=True):
    """Occurrences that don't run, and why."""

    verdict: Verdict
    first_at: int
    last_at: int
    count: int = 1


class Plan(Struct, frozen=True):
    """The fate of every occurrence up to `judged_to`; `is_whole` when that is the moment of asking.

    When it is not, `has_missed` goes into the next asking: one run answers for all of the outage, not for each part of it.
    """

    runs: tuple[Due, ...]
    left: tuple[Left, ...]
    judged_to: int
    is_whole: bool = True
    has_missed: bool = False

    @property
    def missed(self) -> int:
        """How many did not run in time and will not."""
        return sum(left.count for left in self.left if left.verdict in MISSED)


def plan(times: OccurrenceTimes, since: int, now: int, policy: Policy, *, has_missed: bool = False) -> Plan:
    """What becomes of the occurrences in `since < t <= now`; some before them may have been missed in the same outage."""
    first = times.next_ms(since)
    stood = _stood(times, since, first)
    if stood > now and first is not None and _is_plain(times, first, since, now, policy):
        return Plan((Due(first),), (), now)
    if stood <= now:
        gone: list[tuple[int, Verdict]] = [(at, "gap") for at in times.gaps(since, stood - 1)]
        return Plan((), compress(gone), stood - 1, False, has_missed)
    runs, has_missed = _due_times(times, since, now, policy, has_missed)
    chosen = set(runs)
    left: list[tuple[int, Verdict]] = [(at, "gap") for at in times.gaps(since, now)]
    gaps = len(left)
    judged_to, at = now, first
    while at is not None and at <= now:
        if len(left) - gaps >= JUDGED_MAX:
            judged_to = at - 1
            break
        if at not in chosen:
            left.append((at, _verdict(times, at, now, policy)))
        before, at = at, times.next_ms(at)
        if (stood := _stood(times, before, at)) <= now:
            judged_to = stood - 1
            break
    if judged_to < now:  # too many for one go: what was judged so far stands, the rest is asked about again
        runs = [at for at in runs if at <= judged_to]
        left = [(at, verdict) for at, verdict in left if at <= judged_to]
    dues = _dues(runs, left, now, policy)
    return Plan(tuple(dues), compress(left), judged_to, judged_to == now, has_missed)


def _is_plain(times: OccurrenceTimes, first: int, since: int, now: int, policy: Policy) -> bool:
    """It is the only occurrence, on time, and nothing is special about it: as nearly always."""
    if not now - policy.grace_ms <= first <= now or times.pause_of(first) is not None:
        return False
    following = times.next_ms(first)
    is_only = (following is None or following > now) and _stood(times, first, following) > now
    return is_only and not times.gaps(since, now)


def _stood(times: OccurrenceTimes, asked: int, found: int | None) -> int:
    """Where the search after that instant, just asked for, had to stop before it came to what it found: what is there is
    not known yet. Beyond all times when it came to its end.
    """
    stood = times.resume_ms(asked)
    return LATEST_MS + 1 if stood is None or (found is not None and found <= stood) else stood


def plan_overlap(times: OccurrenceTimes, since: int, finished_at: int, overlap: Overlap, *, queued: int = 0) -> Plan:
    """What becomes of the occurrences that fell due in `since < t <= finished_at`, while a run was at it; so many wait."""
    queue_max = {"skip": 0, "queue_one": 1, "queue_all": RUNS_MAX}[overlap] - queued
    runs: list[Due] = []
    left: list[tuple[int, Verdict]] = [(at, "gap") for at in times.gaps(since, finished_at)]
    judged_to, at = finished_at, times.next_ms(since)
    stood = _stood(times, since, at)
    while at is not None and at <= min(finished_at, stood):
        if times.pause_of(at) is not None:
            left.append((at, "paused"))
        elif len(runs) < queue_max:
            runs.append(Due(at))
        else:
            left.append((at, "overlap"))
        before, at = at, times.next_ms(at)
        stood = _stood(times, before, at)
    if stood <= finished_at:
        judged_to = stood - 1
        left = [(at, verdict) for at, verdict in left if at <= judged_to]
    return Plan(tuple(runs), compress(left), judged_to)


def _due_times(
    times: OccurrenceTimes, since: int, now: int, policy: Policy, has_missed: bool
) -> tuple[list[int], bool]:
    """The occurrences that run, oldest first, and whether some were missed.

    Found from the latest backwards, so that a long outage costs nothing.
    """
    late_from, window_from = now - policy.grace_ms, now - max(policy.window_ms, policy.grace_ms)
    takes_missed = policy.runs_max if policy.catch_up in ("all", "backfill") else 1
    late: list[int] = []
    missed: list[int] = []
    for at in _backwards(times, now, since):
        if at >= late_from and len(late) < RUNS_MAX:
            late.append(at)
        elif at < window_from or policy.catch_up == "skip" or len(missed) == takes_missed:
            break
        else:
            missed.append(at)
    has_missed = has_missed or bool(missed)
    if has_missed and policy.catch_up in ("latest", "coalesce"):
        return (late or missed)[:1], has_missed
    return [*reversed(missed), *reversed(late)], has_missed


def _backwards(times: OccurrenceTimes, now: int, since: int) -> Iterator[int]:
    """Occurrences that no pause holds, latest first."""
    at = times.previous_ms(now + 1)
    while at is not None and at > since:
        pause = times.pause_of(at)
        if pause is None:
            yield at
        at = times.previous_ms(at if pause is None else pause.since + 1)


def _verdict(times: OccurrenceTimes, at: int, now: int, policy: Policy) -> Verdict:
    if times.pause_of(at) is not None:
        return "paused"
    if at < now - policy.window_ms:
        return "too_late"
    return "coalesced" if policy.catch_up == "coalesce" else "skipped"


def _dues(runs: list[int], left: list[tuple[int, Verdict]], now: int, policy: Policy) -> list[Due]:
    """Each run with what it is told: the first of them answers for the missed ones that don't run."""
    lost = [at for at, verdict in left if verdict in MISSED]
    dues = []
    for index, at in enumerate(runs):
        own = at < now - policy.grace_ms
        missed = own + (len(lost) if index == 0 else 0)
        first_at = min([*lost[:1], at]) if index == 0 and lost else at
        is_backfill = own and policy.catch_up == "backfill"
        dues.append(Due(at, missed, first_at if missed else 0, is_backfill))
    return dues


def compress(left: list[tuple[int, Verdict]]) -> tuple[Left, ...]:
    """The latest ones one by one, those before them as stretches of one verdict, in order of time."""
    left = sorted(left)
    cut = max(0, len(left) - SINGLE_MAX)
    stretches: list[Left] = []
    for at, verdict in left[:cut]:
        if stretches and stretches[-1].verdict == verdict:
            stretches[-1] = Left(verdict, stretches[-1].first_at, at, stretches[-1].count + 1)
        else:
            stretches.append(Left(verdict, at, at))
    return (*stretches, *(Left(verdict, at, at) for at, verdict in left[cut:]))


def check_policy(policy: Policy) -> Policy:
    """The policy, or an error that names the option and what it may be."""
    for name, value, allowed in (
        ("catch_up", policy.catch_up, get_args(CatchUp)),
        ("overlap", policy.overlap, get_args(Overlap)),
    ):
        if value not in allowed:
            raise BadOption(f"{name}={value!r}: it can be {', '.join(allowed)}", code=f"schedule.{name}")
    for name, count, most in (
        ("max_catch_up", policy.runs_max, RUNS_MAX),
        ("parallel", policy.parallel, PARALLEL_MAX),
    ):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise BadOption(f"{name} must be a whole number from 1, not {count!r}", code=f"schedule.{name}")
        if count > most:
            raise LimitExceeded(f"{name}={count} is over the limit of {most}", code=f"limit.{name}")
    return policy
