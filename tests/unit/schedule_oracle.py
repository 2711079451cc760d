"""What should become of every occurrence of a schedule, found by walking second by second.

Written from the words of the design alone, without a look at how Wakeful finds out: it keeps lists, looks at every
second, and knows no `next`. `walk` says which instants a rule names, `decide` what becomes of those that fell due, and
`Life` lives through outages, slow and failing runs, and pauses.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

DAY = 86_400
LOST = ("skipped", "too_late", "coalesced")
COMMIT_MAX = 10_000  # verdicts that one commit may hold


# which instants


@dataclass(frozen=True)
class Every:
    """Every so many seconds after an anchor."""

    length: int
    anchor: int


@dataclass(frozen=True)
class Wall:
    """Local times of day (seconds since midnight) on some weekdays (0 is Monday), as clocks in a zone show them."""

    times: frozenset[int]
    zone: str = "UTC"
    weekdays: frozenset[int] = frozenset(range(7))
    is_fixed: bool = True  # names its time, so gaps and folds concern it; else it follows elapsed time
    gap: str = "shift"
    fold: str = "first"

    def names(self, wall: int) -> bool:
        return wall % DAY in self.times and (wall // DAY + 3) % 7 in self.weekdays


Rule = Every | Wall


def walk(rules: Iterable[Rule], first: int, last: int) -> tuple[list[int], list[int]]:
    """The instants in `first <= second <= last` that any rule names, and of the others those of jumps over such a time."""
    found: set[int] = set()
    gaps: set[int] = set()
    for rule in rules:
        if isinstance(rule, Every):
            found.update(s for s in range(first, last + 1) if s > rule.anchor and (s - rule.anchor) % rule.length == 0)
        else:
            some, jumped = _walk_wall(rule, first, last)
            found.update(some)
            gaps |= jumped
    return sorted(found), sorted(gaps - found)


def _walk_wall(rule: Wall, first: int, last: int) -> tuple[set[int], set[int]]:
    zone = ZoneInfo(rule.zone)

    def offset(second: int) -> int:
        shown = datetime.fromtimestamp(second, zone).utcoffset()
        assert shown is not None
        return int(shown.total_seconds())

    shown_at: dict[int, list[int]] = {}  # local time -> the seconds at which clocks show it
    shifted: set[int] = set()
    gaps: set[int] = set()
    # A day to each side: a local time near the edge may be shown twice, once beyond it.
    second, end = first - DAY, last + DAY
    ahead = offset(second)
    before = second + ahead - 1
    while second <= end:
        if second % 900 == 0:  # clocks are changed on a quarter of an hour, in every zone that is tested
            ahead = offset(second)
        wall = second + ahead
        if rule.is_fixed and wall > before + 1 and any(rule.names(lost) for lost in range(before + 1, wall)):
            if rule.gap == "shift":
                shifted.add(second)
            else:
                gaps.add(second)
        if wall % 60 == 0 and rule.names(wall):
            shown_at.setdefault(wall, []).append(second)
        before = wall
        second += 1
    found = set(shifted)
    for seconds in shown_at.values():
        if not rule.is_fixed or rule.fold == "both":
            found.update(seconds)
        else:
            found.add(seconds[0] if rule.fold == "first" else seconds[-1])
    return {s for s in found if first <= s <= last}, {s for s in gaps if first <= s <= last}


# what becomes of them


@dataclass(frozen=True)
class Rules:
    """The options of a schedule that say what happens when it is late; milliseconds."""

    catch_up: str = "latest"
    window: int = 86_400_000
    most: int = 100
    grace: int = 60_000
    overlap: str = "skip"
    attempts: int = 5


@dataclass(frozen=True)
class Owed:
    """An occurrence that is to run, and what it is told."""

    nominal: int
    missed: int = 0
    first_at: int = 0
    is_backfill: bool = False


Verdicts = list[tuple[int, str]]


def decide(due: list[int], now: int, rules: Rules, is_paused: Callable[[int], bool]) -> tuple[list[Owed], Verdicts]:
    """Of occurrences that fell due while nobody could run them, oldest first: those that run, and the others' verdicts."""
    verdicts: Verdicts = [(at, "paused") for at in due if is_paused(at)]
    due = [at for at in due if not is_paused(at)]
    late = [at for at in due if now - at <= rules.grace]
    missed = [at for at in due if now - at > rules.grace]
    verdicts += [(at, "too_late") for at in missed if now - at > rules.window]
    missed = [at for at in missed if now - at <= rules.window]
    if rules.catch_up in ("latest", "coalesce"):
        run = (missed + late)[-1:] if missed else late
        word = "coalesced" if rules.catch_up == "coalesce" else "skipped"
        verdicts += [(at, word) for at in missed + late if at < run[0]]
    elif rules.catch_up == "skip":
        run = late
        verdicts += [(at, "skipped") for at in missed]
    else:
        run = missed[-rules.most :] + late
        verdicts += [(at, "skipped") for at in missed[: -rules.most]]
    lost = sorted(at for at, word in verdicts if word in LOST)
    runs = []
    for at in run:
        is_missed = now - at > rules.grace
        answers_for = [*lost, at] if is_missed else lost
        is_backfill = is_missed and rules.catch_up == "backfill"
        runs.append(Owed(at, len(answers_for), min(answers_for) if answers_for else 0, is_backfill))
        lost = []  # the first one that runs answers for them
    return runs, sorted(verdicts)


def swallow(
    due: list[int], rules: Rules, is_paused: Callable[[int], bool], queued: int = 0
) -> tuple[list[Owed], Verdicts]:
    """Of occurrences that fell due while a run was under way: those that run after it, and the others' verdicts."""
    verdicts: Verdicts = [(at, "paused") for at in due if is_paused(at)]
    due = [at for at in due if not is_paused(at)]
    more = {"skip": [], "queue_one": due[: max(0, 1 - queued)], "queue_all": due}[rules.overlap]
    verdicts += [(at, "overlap") for at in due[len(more) :]]
    return [Owed(at) for at in more], sorted(verdicts)


# a whole life


@dataclass(frozen=True)
class Row:
    """A row of the ledger as it should be."""

    nominal: int
    verdict: str
    attempt: int
    fired_at: int
    missed: int = 0
    first_at: int = 0
    is_backfill: bool = False


@dataclass
class Stand:
    """What a crash leaves as it was at the last commit."""

    cursor: int  # everything up to here is decided
    pending: tuple[Owed, ...] = ()
    attempt: int = 0
    due_at: int | None = None  # of the retry, or of the next in the queue
    lost: tuple[int, ...] = ()
    crashes: int = 0
    pauses: tuple[tuple[int, int | None], ...] = ()
    rows: int = 0  # of the ledger


@dataclass
class Life:
    """One schedule from when it was added. Times in milliseconds.

    `outcome(nominal, attempt)` says how long that attempt takes, and whether it succeeds. `asked` are pauses (with an
    end or without) and resumes (`None`), by when they are asked for.
    """

    added_at: int
    due: list[int]
    gaps: list[int]
    rules: Rules
    outages: list[tuple[int, int]]
    outcome: Callable[[int, int], tuple[int, bool]]
    asked: dict[int, tuple[int | None] | None] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def live(self, until: int) -> list[Row]:
        """The ledger at that time."""
        self.now = self.added_at
        self.stand = Stand(self.added_at)
        self.saved = replace(self.stand)
        self.is_up = True
        self.run: tuple[int, Owed, int, bool] | None = None  # fired at, what, ends at, ends well
        self.waiting: list[tuple[int | None] | None] = []  # pauses and resumes behind the run
        down, up = {a for a, _ in self.outages}, {b for _, b in self.outages}
        special = {at // 1000 for at in (*down, *up, *self.asked)}
        marks, self._all = set(self.due) | set(self.gaps), sorted(set(self.due) | set(self.gaps))
        second = self.added_at // 1000
        while second * 1000 <= until:
            parts = (0, 250, 500, 750) if second in special or self._wakes_in(second) else (0,)
            for part in parts:
                self.now = second * 1000 + part
                if self.now > until:
                    break
                if self.now in down:
                    self._crash()
                if self.now in up:
                    self.is_up = True
                if self.is_up and (part or self.now in marks or self.run or self.stand.due_at is not None):
                    self._step()
            second += 1
        return self.rows

    def _wakes_in(self, second: int) -> bool:
        ends = self.run[2] if self.run else self.stand.due_at
        return self.is_up and ends is not None and ends // 1000 == second

    def _step(self) -> None:
        """Do all that can be done now."""
        if self.now in self.asked:
            self.waiting.append(self.asked[self.now])
        while True:
            if self.run is not None:
                if self.now < self.run[2]:
                    return
                self._finish()
            elif self.waiting:
                self._pause(self.waiting.pop(0))
            elif self._due_at() <= self.now:
                self._fire()
            else:
                return

    def _due_at(self) -> float:
        if self.stand.due_at is not None:
            return self.stand.due_at
        return next(iter(self._between(self._all, self.stand.cursor, self.now)), float("inf"))

    def _between(self, times: list[int], after: int, to: int) -> list[int]:
        return times[bisect_right(times, after) : bisect_right(times, to)]

    def _is_paused(self, at: int) -> bool:
        return any(since < at and (until is None or at < until) for since, until in self.stand.pauses)

    def _is_held(self) -> bool:
        return any(since <= self.now and (until is None or self.now < until) for since, until in self.stand.pauses)

    def _pause(self, asked: tuple[int | None] | None) -> None:
        if asked is not None and asked[0] is not None and asked[0] <= self.now:
            return  # refused: its end is past
        held = [(a, self.now if b is None or b > self.now else b) for a, b in self.stand.pauses]
        self.stand.pauses = (*held, *([(self.now, asked[0])] if asked is not None else []))
        self._commit()

    # the schedule's own steps

    def _fire(self) -> None:
        stand = self.stand
        is_late = self.now - self._due_at() > self.rules.grace
        if not stand.pending or is_late:
            while not self._judge():
                self._commit()
        elif stand.attempt == 0 and self._has_stalled():
            self._swallow(stand.due_at or 0)
            while not self._judge():
                self._commit()
        if stand.pending and stand.attempt == 0 and self._is_held():  # what has not begun does not begin
            self._leave([(one.nominal, "paused") for one in stand.pending])
            stand.pending = ()
        if not stand.pending:
            stand.due_at, stand.attempt, stand.crashes = None, 0, 0
            self._commit()
        elif stand.crashes >= 3:
            self._note(self._told(), "failed", self.now)
            self._over()
        else:
            length, is_well = self.outcome(stand.pending[0].nominal, stand.attempt)
            self.run = (self.now, self._told(), self.now + length, is_well)

    def _has_stalled(self) -> bool:
        """Something fell due though the next of those that wait could have gone on: no run was under way by then."""
        return bool(self._between(self.due, max(self.stand.cursor, self.stand.due_at or 0), self.now))

    def _judge(self) -> bool:
        """Decide about everything up to now; False when that is too much for one commit."""
        stand = self.stand
        gaps = self._between(self.gaps, stand.cursor, self.now)
        due = self._between(self.due, stand.cursor, self.now)
        runs, verdicts = decide(due, self.now, self.rules, self._is_paused)
        to, is_whole = self.now, len(verdicts) <= COMMIT_MAX
        if not is_whole:
            to = verdicts[COMMIT_MAX][0] - 1
        elif len(verdicts) == COMMIT_MAX and runs and runs[-1].nominal > verdicts[-1][0]:
            to, is_whole = min(one.nominal for one in runs if one.nominal > verdicts[-1][0]) - 1, False
        if not is_whole:
            verdicts = [(at, word) for at, word in verdicts if at <= to]
            runs = []
            gaps = [at for at in gaps if at <= to]
        self._leave(sorted([*verdicts, *((at, "gap") for at in gaps)]))
        if not runs:
            stand.lost += tuple(at for at, word in verdicts if word in LOST)
        stand.pending += tuple(runs)
        stand.cursor = to
        return is_whole

    def _told(self) -> Owed:
        first, lost = self.stand.pending[0], self.stand.lost
        return replace(first, missed=first.missed + len(lost), first_at=lost[0]) if lost else first

    def _finish(self) -> None:
        assert self.run is not None
        fired_at, owed, _, is_well = self.run
        self.run = None
        stand = self.stand
        self._note(owed, "run" if is_well else "failed", fired_at)
        if is_well or stand.attempt + 1 == self.rules.attempts:
            self._over()
        else:
            stand.due_at = self.now + 2_000 * 2**stand.attempt
            stand.attempt += 1
            stand.crashes = 0
            self._commit()

    def _over(self) -> None:
        """An occurrence is done with: what follows?"""
        stand = self.stand
        stand.pending, stand.lost, stand.attempt, stand.crashes = stand.pending[1:], (), 0, 0
        if not stand.pending:
            self._swallow(self.now)
        stand.due_at = self.now if stand.pending else None
        self._commit()

    def _swallow(self, to: int) -> None:
        """Decide about everything up to then: a run was under way."""
        stand = self.stand
        queued = sum(not one.missed for one in stand.pending)
        runs, verdicts = swallow(self._between(self.due, stand.cursor, to), self.rules, self._is_paused, queued)
        gaps = self._between(self.gaps, stand.cursor, to)
        self._leave(sorted([*verdicts, *((at, "gap") for at in gaps)]))
        stand.pending, stand.cursor = (*stand.pending, *runs), max(stand.cursor, to)

    # the ledger, and what a crash does to it

    def _note(self, owed: Owed, verdict: str, fired_at: int) -> None:
        row = Row(owed.nominal, verdict, self.stand.attempt, fired_at, owed.missed, owed.first_at, owed.is_backfill)
        self.rows.append(row)

    def _leave(self, verdicts: Verdicts) -> None:
        self.rows += [Row(at, word, 0, self.now) for at, word in verdicts]

    def _commit(self) -> None:
        self.stand.rows = len(self.rows)
        self.saved = replace(self.stand)

    def _crash(self) -> None:
        self.is_up = False
        has_run = self.run is not None
        self.run = None
        self.waiting = []
        self.stand = replace(self.saved, crashes=self.saved.crashes + has_run)
        self.saved = replace(self.stand)
        del self.rows[self.stand.rows :]


def ms(text: str) -> int:
    """Milliseconds of an ISO time; UTC unless it says otherwise."""
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
