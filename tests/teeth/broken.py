"""Wakeful, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import getattr_static
from typing import Any

from msgspec.structs import replace

from wakeful.runtime.activation import Activation
from wakeful.runtime.calls import Call
from wakeful.runtime.env import Env
from wakeful.runtime.node import Node
from wakeful.runtime.ownership import Ownership
from wakeful.runtime.queue import TimerQueue
from wakeful.runtime.timer_runs import Suspects, TimerRuns
from wakeful.runtime.turn import Turn
from wakeful.store.memory import MemoryStore
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Timer


@contextmanager
def swapped(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(the original)` until the block ends."""
    original, is_own = getattr_static(owner, name), name in vars(owner)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


def alarm_cleared_before_the_commit() -> Any:
    """The due timer is removed by a commit of its own, before its handler runs."""

    def make(fire: Any) -> Any:
        async def broken(self: TimerRuns, activation: Activation, owner: Any, timer: Timer, fired_at: int) -> Any:
            commit = Commit(
                id=timer.id,
                shard=activation.shard,
                epoch=activation.epoch,
                now=fired_at,
                clears=[(timer.name, timer.seq)],
            )
            await activation.durable(activation.submit(commit))
            return await fire(self, activation, owner, timer, fired_at)

        return broken

    return swapped(TimerRuns, "_fire", make)


def commit_without_the_epoch_check() -> Any:
    """Whoever commits is believed to own the shard."""

    def make(apply: Any) -> Any:
        def broken(self: MemoryStore, node: str, commit: Commit) -> Any:
            shard = self.disk.shards[commit.shard]
            return apply(self, shard.owner, replace(commit, epoch=shard.epoch))

        return broken

    return swapped(MemoryStore, "_apply", make)


def claim_of_whatever_there_is() -> Any:
    """The only node of a store claims without having looked: a claim that arrives late takes from its own next one."""

    def make(claim_all: Any) -> Any:
        async def broken(self: Ownership) -> None:
            node = self._node
            node.epochs.clear()
            self.take(await node.store.claim(node.name, range(SHARDS), now=node.clock.now()))

        return broken

    return swapped(Ownership, "claim_all", make)


def nominal_time_drifts_with_retries() -> Any:
    """A retry is of the time when it is tried, not of the time that was asked for."""
    return swapped(
        Timer,
        "later",
        lambda moved: (
            lambda self, *, due_at, attempt: replace(moved(self, due_at=due_at, attempt=attempt), nominal_at=due_at)
        ),
    )


def timer_row_not_in_the_turns_commit() -> Any:
    """Rows first, then the timer in a commit of its own."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            if not (commit.sets and commit.puts):
                return int(submit(self, commit))
            submit(self, replace(commit, sets=[]))
            alone = Commit(id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, sets=commit.sets)
            return int(submit(self, alone))

        return broken

    return swapped(Activation, "submit", make)


def answer_released_before_the_commit() -> Any:
    """Nobody waits for the disk."""

    def make(durable: Any) -> Any:
        async def broken(self: Activation, number: int) -> None:
            if self.is_failed:
                await durable(self, number)

        return broken

    def make_finish(finish: Any) -> Any:
        def broken(self: Activation, turn: Turn) -> int:
            finish(self, turn)
            return 0  # rests on nothing

        return broken

    @contextmanager
    def both() -> Iterator[None]:
        with swapped(Activation, "durable", make), swapped(Activation, "finish", make_finish):
            yield

    return both()


def retry_count_not_persisted() -> Any:
    """The count of failures lives in memory only."""

    def make(apply: Any) -> Any:
        def broken(self: MemoryStore, node: str, commit: Commit) -> Any:
            return apply(self, node, replace(commit, sets=[replace(timer, attempt=0) for timer in commit.sets]))

        return broken

    return swapped(MemoryStore, "_apply", make)


def cache_kept_after_a_rollback() -> Any:
    """What a failed turn wrote stays in the cache for the next one to read."""

    def make(undo: Any) -> Any:
        def broken(self: Activation, turn: Turn | None) -> None:
            if turn is not None:
                for slot, value in turn.writes.items():
                    self.rows._keep(slot, value)
            is_awake = self.is_awake
            undo(self, turn)
            self.is_awake = is_awake  # made anew it would read all of it again

        return broken

    return swapped(Activation, "undo", make)


def state_kept_after_a_rollback() -> Any:
    """The typed state that a failed turn changed stays changed."""
    from wakeful.runtime.state import State

    def make(undo: Any) -> Any:
        def broken(self: Activation, turn: Turn | None) -> None:
            is_awake = self.is_awake
            undo(self, turn)
            self.is_awake = is_awake

        return broken

    broken = ExitStack()
    broken.enter_context(swapped(State, "forget", lambda forget: lambda self: None))
    broken.enter_context(swapped(Activation, "undo", make))
    return broken


def same_instant_lost_between_pages() -> Any:
    """The next page of timers begins after the instant at which the last one ended."""

    def make(timers: Any) -> Any:
        async def broken(self: MemoryStore, shards: Any, *, after: Any, until: int, limit: int) -> Any:
            later = None if after is None else (after[0], 1 << 40, 0)
            return await timers(self, shards, after=later, until=until, limit=limit)

        return broken

    return swapped(MemoryStore, "timers", make)


def timer_at_the_edge_dropped() -> Any:
    """A timer set for the very instant of the queue's edge is taken for one beyond it."""

    def make(set_: Any) -> Any:
        def broken(self: TimerQueue, timer: Timer) -> bool:
            edge = self.edge
            if timer.due_at == edge[0]:
                self.edge = (edge[0] - 1, 0, 0)
            try:
                return bool(set_(self, timer))
            finally:
                if timer.due_at == edge[0]:
                    self.edge = edge

        return broken

    return swapped(TimerQueue, "set", make)


def crash_count_not_written() -> Any:
    """Nothing on disk says that a timer is about to run."""

    def make(apply: Any) -> Any:
        def broken(self: MemoryStore, node: str, commit: Commit) -> Any:
            return apply(self, node, replace(commit, starts=[]))

        return broken

    return swapped(MemoryStore, "_apply", make)


def fenced_commit_ignored() -> Any:
    """A commit that was refused because the shard is lost is taken for one that succeeded."""

    def make(committed: Any) -> Any:
        def broken(self: Activation, number: int, commit: Commit, failure: Any) -> None:
            committed(self, number, commit, None if isinstance(failure, Fenced) else failure)

        return broken

    return swapped(Activation, "_on_committed", make)


def page_overwrites_newer_change() -> Any:
    """A page of timers that was read before a change wins over the change."""

    def make(end_page: Any) -> Any:
        def broken(self: TimerQueue, timers: Any, edge: Any) -> None:
            if self._changed is not None:
                self._changed = {}
            for timer in timers:
                self._current.pop((timer.id, timer.name), None)
            end_page(self, timers, edge)

        return broken

    return swapped(TimerQueue, "end_page", make)


def reader_sees_the_running_turn() -> Any:
    """A reader is shown what the turn beside it has written so far."""
    running: dict[tuple[int, ObjectId], Turn] = {}

    def make(init: Any) -> Any:
        def broken(self: Turn, activation: Activation, *args: Any, is_reader: bool = False, **more: Any) -> None:
            init(self, activation, *args, is_reader=is_reader, **more)
            where = (id(activation.node), activation.id)
            if not is_reader:
                running[where] = self
            elif where in running and not running[where].is_over:
                self.writes = dict(running[where].writes)

        return broken

    return swapped(Turn, "__init__", make)


def request_key_not_in_the_turns_commit() -> Any:
    """The answer is remembered by a commit of its own, after that of the turn."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            if commit.remember is None or not commit.puts:
                return int(submit(self, commit))
            submit(self, replace(commit, remember=None))
            alone = Commit(
                id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, remember=commit.remember
            )
            return int(submit(self, alone))

        return broken

    return swapped(Activation, "submit", make)


def savepoint_forgets_the_alarm() -> Any:
    """A transaction that raises keeps the alarm that was set inside it."""

    def make(restore: Any) -> Any:
        def broken(self: Turn) -> None:
            timers = self.timers
            restore(self)
            self.timers = timers

        return broken

    return swapped(Turn, "restore", make)


def wake_beside_a_commit_on_its_way() -> Any:
    """An object is loaded from disk while what it last did is not there yet."""

    def make(settled: Any) -> Any:
        async def broken(self: Activation) -> None:
            if self.is_awake:
                await settled(self)

        return broken

    return swapped(Activation, "settle", make)


def stop_hands_back_what_was_replaced() -> Any:
    """A clean stop puts every timer back that was handed out, whatever became of it since."""
    out: dict[int, dict[tuple[ObjectId, str], Timer]] = {}

    def make(hand_back: Any) -> Any:
        async def broken(self: Ownership, shards: Any) -> None:
            node = self._node
            commits = [
                Commit(id=timer.id, shard=shard, epoch=node.epochs[shard], now=node.clock.now(), sets=[timer])
                for timer in out.pop(id(node.queue), {}).values()
                if (shard := shard_of(timer.id)) in node.epochs
            ]
            if commits:
                await node.store.commit(node.name, commits)
            await hand_back(self, shards)

        return broken

    def make_out(hand_out: Any) -> Any:
        def watching(self: TimerQueue, timer: Timer) -> Timer:
            out.setdefault(id(self), {})[timer.id, timer.name] = timer
            return hand_out(self, timer)  # type: ignore[no-any-return]

        return watching

    @contextmanager
    def both() -> Iterator[None]:
        with swapped(Ownership, "hand_back", make), swapped(TimerQueue, "_hand_out", make_out):
            yield

    return both()


def copy_kept_after_a_rollback() -> Any:
    """What an undone turn left in the object's attributes meets the next one."""

    def make(undo: Any) -> Any:
        def broken(self: Activation, turn: Turn | None) -> None:
            undo(self, turn)
            self.is_awake = self.instance is not None

        return broken

    return swapped(Activation, "undo", make)


def unknown_fields_of_a_state_dropped() -> Any:
    """An older program that changes the state saves only what its class knows."""
    from wakeful.runtime import state

    return swapped(state, "encode_fields", lambda encode: lambda value, rest: encode(value, {}))


def unknown_fields_inside_a_value_dropped() -> Any:
    """The same of a dataclass in a list of the state, or in a row."""
    from wakeful.values import codec

    return swapped(codec, "keep_rest", lambda keep: lambda value, rest: None)


def state_of_another_type_taken() -> Any:
    """What is on disk under a field is taken for what the class says, whatever it is."""
    from wakeful.runtime import state

    return swapped(state, "fits", lambda fits: lambda value: True)


def turn_ends_with_its_caller() -> Any:
    """A caller that gives up takes the turn with it that has begun."""

    def make(left: Any) -> Any:
        def broken(self: Activation, call: Call) -> None:
            call.interrupt()

        return broken

    return swapped(Activation, "_on_caller_gone", make)


def call_runs_without_its_caller() -> Any:
    """One that waits for a slot begins, though nobody waits for it any more."""
    return swapped(Activation, "_on_caller_gone", lambda left: lambda self, call: None)


def deadline_goes_with_the_caller() -> Any:
    """A turn whose caller has gone may take as long as it likes."""

    def make(within: Any) -> Any:
        async def broken(self: Node, call: Call, way: Any) -> Any:
            try:
                return await within(self, call, way)
            finally:
                self.deadlines.remove(call)

        return broken

    return swapped(Node, "within_deadline", make)


def newest_verdict_pruned() -> Any:
    """What is older than the ledger goes, though nothing newer tells of its schedule."""
    return swapped(MemoryStore, "_stays", lambda stays: lambda self, number, row: False)


def stop_keeps_it_to_itself() -> Any:
    """The store is away to the end, and nobody learns that what the stop cut off killed nothing."""
    from wakeful.runtime import ended_epochs

    def make(tell: Any) -> Any:
        async def broken(env: Env, epochs: dict[int, int], others: Any, ask: Any) -> None:
            pass

        return broken

    return swapped(ended_epochs, "tell", make)


def a_note_of_the_dead_counts_as_running() -> Any:
    """What waits to be tried again has a start note, and is shown as if it ran."""
    from wakeful.views import due
    from wakeful.views.due import Line

    def make(_: Any) -> Any:
        async def broken(store: Any, timers: Any, now: int, *, is_named: bool = True) -> Line:
            return Line({timer for timer in timers if timer.started})

        return broken

    return swapped(due, "line_of", make)


def those_in_line_count_as_running() -> Any:
    """A node counts whatever it handed out, also what waits to be tried alone."""
    return swapped(Suspects, "waiting", lambda waiting: lambda self, running: 0)
