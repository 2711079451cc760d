"""Schedules, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful.policy import plan as planning
from wakeful.runtime.activation import Activation
from wakeful.runtime.queue import TimerQueue
from wakeful.runtime.timer_handler import RunLater
from wakeful.runtime.turn import Turn
from wakeful.schedules import schedules, steps, timers
from wakeful.schedules.declarations import Declarations
from wakeful.schedules.records import Book, Counters, Record, timer_name
from wakeful.schedules.schedules import Schedules
from wakeful.schedules.timers import ScheduleTimer
from wakeful.specs import combine
from wakeful.specs.interval import Interval
from wakeful.values.commits import SYSTEM, Commit
from wakeful.values.timers import Timer


def next_is_counted_from_the_end_of_the_run() -> Any:
    """An interval starts anew whenever it is asked: it drifts."""
    return swapped(Interval, "next_ms", lambda next_ms: lambda self, after: after + self.length_ms)


def record_not_in_the_runs_commit() -> Any:
    """The run and its effects first, then how far the schedule has got in a commit of its own."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            rows = {
                slot: data for slot, data in commit.puts.items() if slot[0] == SYSTEM and slot[1][:9] == "schedule:"
            }
            if not (rows and commit.entries):
                return int(submit(self, commit))
            submit(self, replace(commit, puts={s: d for s, d in commit.puts.items() if s not in rows}))
            alone = Commit(id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, puts=rows)
            return int(submit(self, alone))

        return broken

    return swapped(Activation, "submit", make)


def deaths_forgotten_when_added_anew() -> Any:
    """A schedule that is given another spec has a timer that nobody ever died of."""

    async def forget(turn: Turn, timer: str) -> None:
        return None

    return swapped(schedules, "_keep_crashes", lambda keep: forget)


def verdicts_in_a_commit_of_their_own() -> Any:
    """The ledger is written after the turn."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            if not (commit.entries and commit.puts):
                return int(submit(self, commit))
            submit(self, replace(commit, entries=[]))
            alone = Commit(id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, entries=commit.entries)
            return int(submit(self, alone))

        return broken

    return swapped(Activation, "submit", make)


def pending_dropped_when_a_run_fails() -> Any:
    """A retry is set, but what it is to run is not kept."""

    def make(failed: Any) -> Any:
        async def broken(self: ScheduleTimer, activation: Activation, turn: Turn, failure: Any) -> Any:
            answer = await failed(self, activation, turn, failure)
            name = failure.timer.name.partition(":")[2]
            record = await Book(turn).get(name)
            if isinstance(answer, RunLater) and record is not None:
                record.pending = []
                Book(turn).put(name, record)
            return answer

        return broken

    return swapped(ScheduleTimer, "failed", make)


def reconciling_anchors_anew() -> Any:
    """Every wake gives the declared schedules a new version from now on."""

    def make(reconcile: Any) -> Any:
        async def broken(self: Declarations, activation: Activation, turn: Turn) -> None:
            book = Book(turn)
            now = activation.node.clock.now()
            for name, (spec, _) in self._of(activation)[0].items():
                record = await book.get(name)
                if record is not None and not record.pending:
                    schedules._add_version(record, spec, turn, name, now)
                    steps.aim(turn, name, record, now)
                    book.put(name, record)
            await reconcile(self, activation, turn)

        return broken

    return swapped(Declarations, "reconcile", make)


def pausing_clears_the_timer() -> Any:
    """What falls due in a pause gets no verdict, because nobody looks."""

    def make(pause: Any) -> Any:
        async def broken(self: Schedules, name: str | None = None, **more: Any) -> int:
            count: int = await pause(self, name, **more)
            if name is not None:
                self._turn().clear_timer(timer_name(name))
            return count

        return broken

    return swapped(Schedules, "pause", make)


def catch_up_forgets_the_window() -> Any:
    """However old, it is owed."""

    def make(part: Any) -> Any:
        return lambda times, at, now, policy, *rest: part(times, at, now, replace(policy, window_ms=1 << 50), *rest)

    return both(swapped(planning, "_due_times", make), swapped(planning, "_verdict", make))


def a_part_of_an_outage_forgets_the_one_before() -> Any:
    """Each part is judged as if nothing had been missed before it."""

    def make(part: Any) -> Any:
        return lambda times, since, now, policy, has_missed: part(times, since, now, policy, False)

    return swapped(planning, "_due_times", make)


def overlap_ends_with_the_first_attempt() -> Any:
    """While a run waits for its retry the schedule goes on as if nothing were under way."""

    def make(judge: Any) -> Any:
        def broken(record: Record, timer: Timer, now: int) -> Any:
            return judge(record, replace(timer, due_at=0) if timer.attempt else timer, now)

        return broken

    return swapped(timers, "judge", make)


def spread_follows_the_moment() -> Any:
    """The part of the window that a schedule has is another one whenever its spec is read."""
    count = iter(range(1, 1 << 30))
    return swapped(combine, "_offset", lambda offset: lambda seed, window: offset(f"{seed}{next(count)}", window))


def triggering_takes_the_next_occurrence() -> Any:
    """A triggered run counts as the schedule's next one."""

    def make(trigger: Any) -> Any:
        async def broken(self: Schedules, name: str | None = None, **more: Any) -> Any:
            ids = await trigger(self, name, **more)
            book = Book(self._turn())
            record = await book.get(name or "")
            if name is not None and record is not None and record.next_at is not None and not record.pending:
                record.judged_to = max(record.judged_to, record.next_at)
                steps.aim(self._turn(), name, record, self._now())
                book.put(name, record)
            return ids

        return broken

    return swapped(Schedules, "trigger", make)


def counters_keep_what_a_failed_turn_counted() -> Any:
    """The run is counted when it begins, and nobody takes that back."""

    def make(failed: Any) -> Any:
        async def broken(self: ScheduleTimer, activation: Activation, turn: Turn, failure: Any) -> Any:
            answer = await failed(self, activation, turn, failure)
            name = failure.timer.name.partition(":")[2]
            record = await Book(turn).get(name)
            if isinstance(answer, RunLater) and record is not None:
                record.counters.runs += 1
                Book(turn).put(name, record)
            return answer

        return broken

    return swapped(ScheduleTimer, "failed", make)


def redriving_makes_another_run_of_it() -> Any:
    """A triggered run that failed comes back under the id of an occurrence that never was."""
    return swapped(
        timers, "_to_redrive", lambda make: lambda timer, name, lane, due, salt: make(timer, name, lane, due, "")
    )


def older_verdicts_are_not_counted() -> Any:
    """Of a stretch that shares a row only one is counted."""

    def make(left: Any) -> Any:
        return lambda self, verdict, count, last_at: left(self, verdict, 1, last_at)

    return swapped(Counters, "add_left", make)


def a_timer_is_handed_out_twice() -> Any:
    """A page tells of a timer before its commit is heard of, and then that is heard of."""

    def make(set_: Any) -> Any:
        def broken(self: TimerQueue, timer: Timer) -> bool:
            self.running.pop((timer.id, timer.name), None)
            return bool(set_(self, timer))

        return broken

    return swapped(TimerQueue, "set", make)


@contextmanager
def both(*blocks: Any) -> Iterator[None]:
    """All of them until the block ends."""
    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)
        yield
