"""A cluster, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful.jobs.jobs import Jobs
from wakeful.policy.lease import LEASE_MS
from wakeful.runtime import membership, timer_runs
from wakeful.runtime.activation import Activation
from wakeful.runtime.arrivals import Arrivals
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.runtime.dispatcher import Dispatcher
from wakeful.runtime.membership import Membership
from wakeful.runtime.node import Node
from wakeful.runtime.ownership import Ownership
from wakeful.runtime.queue import TimerQueue
from wakeful.runtime.routes import Routes
from wakeful.runtime.rows import Loader, ObjectRows
from wakeful.store.memory import MemoryStore
from wakeful.store.protocol import Hint, NodeRow, ShardRow
from wakeful.store.sends import is_other
from wakeful.transport import handshake
from wakeful.transport.tcp import Strangers
from wakeful.values.commits import Commit
from wakeful.values.errors import ClusterError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer


def claim_without_epoch_bump() -> Any:
    """The new owner has the epoch of the old one."""

    def make(claim: Any) -> Any:
        async def broken(self: MemoryStore, node: str, shards: Any, *, now: int, seen: Any = None) -> dict[int, int]:
            won: dict[int, int] = await claim(self, node, shards, now=now, seen=seen)
            for shard, epoch in won.items():
                if epoch > 1:
                    won[shard] = epoch - 1
                    self.disk.shards[shard] = ShardRow(shard, node, epoch - 1)
            return won

        return broken

    return swapped(MemoryStore, "claim", make)


def claim_that_ignores_what_was_seen() -> Any:
    """Of two who claim the same shard, the later one has it."""

    def make(claim: Any) -> Any:
        async def broken(self: MemoryStore, node: str, shards: Any, *, now: int, seen: Any = None) -> Any:
            return await claim(self, node, shards, now=now)

        return broken

    return swapped(MemoryStore, "claim", make)


def commit_that_trusts_the_cached_owner() -> Any:
    """Whoever believes to own the shard may write."""

    def make(apply: Any) -> Any:
        def broken(self: MemoryStore, node: str, commit: Commit) -> Any:
            shard = self.disk.shards[commit.shard]
            return apply(self, shard.owner, replace(commit, epoch=shard.epoch))

        return broken

    return swapped(MemoryStore, "_apply", make)


@contextmanager
def lease_judged_by_own_clock() -> Iterator[None]:
    """The node goes by its machine's time, and waits by it too."""
    waits = swapped(FollowedClock, "call_at", lambda call_at: lambda self, at, then: self._own.call_at(at, then))
    with swapped(FollowedClock, "now", lambda now: lambda self: self._own.now()), waits:
        yield


def cancel_that_answers_before_it_knows() -> Any:
    """It looks whether the job is owed, says so, and lets the owner hear of it later."""

    def make(cancel: Any) -> Any:
        async def broken(self: Jobs, id: Any) -> bool:
            job = await self.get(id)
            task = asyncio.get_running_loop().create_task(cancel(self, id))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            return job.state in ("scheduled", "waiting", "running")

        return broken

    return swapped(Jobs, "cancel", make)


@contextmanager
def hint_treated_as_truth() -> Iterator[None]:
    """The owner runs what the hint tells of, without asking the disk."""
    told: dict[tuple[int, int], list[Timer]] = {}

    def make_tell(tell: Any) -> Any:
        def broken(self: Arrivals, timers: Sequence[Timer]) -> None:
            for timer in timers:
                told.setdefault((shard_of(timer.id), timer.due_at), []).append(timer)
            tell(self, timers)

        return broken

    def make_hear(hear: Any) -> Any:
        def broken(self: Arrivals, hints: Sequence[Hint]) -> None:
            for hint in hints:
                for timer in told.get((hint.shard, hint.first_at), []):
                    if hint.shard in self._env.epochs:
                        self._queue.set(timer)
            if hints:
                self._dispatcher.poke()
            else:
                hear(self, hints)

        return broken

    with swapped(Arrivals, "_tell", make_tell), swapped(Arrivals, "hear", make_hear):
        yield


def release_before_the_last_turn_ended() -> Any:
    """A shard is handed over while something of it still runs."""
    return swapped(Ownership, "_busy", lambda busy: lambda self, **_: set())


@contextmanager
def redelivery_without_attempt_check() -> Iterator[None]:
    """A timer that comes again while it runs, or has run, runs again."""

    def make_take(take: Any) -> Any:
        def broken(self: TimerQueue, timer: Timer) -> None:
            if (timer.id, timer.name) not in self._current:
                self._push(timer)

        return broken

    with (
        swapped(TimerQueue, "_take", make_take),
        swapped(timer_runs, "_is_current", lambda is_current: lambda activation, timer: True),
    ):
        yield


def ramp_that_forgets_owned_shards() -> Any:
    """A new node may claim its allowance anew in every round."""

    def make(claimable: Any) -> Any:
        return lambda owned, wanted, allowed, *, claimed=0: claimable(owned, wanted, allowed)

    return swapped(membership, "claimable", make)


@contextmanager
def arrivals_that_ask_nobody() -> Iterator[None]:
    """What was inserted is held in memory, though its shard may have come meanwhile and its owner before have run it."""

    def make_added(added: Any) -> Any:
        def broken(self: Arrivals, timers: Sequence[Timer], mark: int) -> None:
            added(self, timers, self._ownership.takes)

        return broken

    with (
        swapped(Arrivals, "on_added", make_added),
        swapped(Ownership, "was_ours_before_this_group", lambda ours: lambda self, shard: shard in self._node.epochs),
    ):
        yield


def sends_after_the_commit() -> Any:
    """What a turn sends to other objects goes to disk after the turn did: a crash in between loses it."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            if not commit.sends:
                return int(submit(self, commit))
            sends, number = commit.sends, int(submit(self, replace(commit, sends=[])))

            async def follow() -> None:
                await self.durable(number)
                await self.node.add_timers(sends)

            task = asyncio.get_running_loop().create_task(follow())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            return number

        return broken

    return swapped(Activation, "submit", make)


def starts_that_overtake() -> Any:
    """Who comes while the object is busy is there before those whose start notes are on their way."""

    def make(hand_out: Any) -> Any:
        def broken(self: Dispatcher, timer: Timer) -> bool:
            noting, self._noting = self._noting, {}
            try:
                return bool(hand_out(self, timer))
            finally:
                self._noting = {id: noting.get(id, 0) + self._noting.get(id, 0) for id in {*noting, *self._noting}}

        return broken

    return swapped(Dispatcher, "hand_out", make)


def reads_ahead_that_stay() -> Any:
    """What was read before the object's last commit is what it wakes with."""

    def make(adopt: Any) -> Any:
        def broken(self: ObjectRows, *args: Any, **options: Any) -> None:
            begun = self.take_begun()
            adopt(self, *args, **options)
            self._begun = begun

        return broken

    return swapped(ObjectRows, "adopt", make)


def reads_ahead_of_another_epoch() -> Any:
    """What was read as the owner that it was is what it wakes with as the owner that it is again."""

    def make(take: Any) -> Any:
        def broken(self: Loader, id: ObjectId, epoch: int) -> Any:
            before, _ = self._ahead.get(id, (epoch, None))
            return take(self, id, before if epoch else epoch)

        return broken

    return swapped(Loader, "take", make)


def inserts_known_by_their_names_alone() -> Any:
    """What is sent again is known by the name of its timer, which is free again when that has fired."""

    def make(insert: Any) -> Any:
        async def broken(self: MemoryStore, timers: Sequence[Timer], **options: Any) -> Any:
            met = await insert(self, timers, **options | {"receipt": None})
            return [one for one in met if is_other(one, timers)]

        return broken

    return swapped(MemoryStore, "insert", make)


def reads_answered_without_a_lease() -> Any:
    """A node whose lease lapsed goes on, and answers from memory as if nothing had happened."""
    return swapped(membership.Membership, "_on_lapse", lambda lapsed: lambda self: None)


def stops_that_wake_over_what_is_on_its_way() -> Any:
    """A node that stops wakes any object for the turns that still run, whether or not a commit of it may still arrive."""
    return swapped(Node, "lets_wake", lambda lets_wake: lambda self, id_: self.state in ("up", "stopping"))


def stops_that_fence_nothing() -> Any:
    """What arrives after a stop has handed back is written."""

    def make(fence: Any) -> Any:
        async def broken(self: Ownership, shards: Any) -> None:
            pass

        return broken

    return swapped(Ownership, "_fence", make)


def stops_that_cut_claims_off() -> Any:
    """A node that stops does not wait for the answer of what it is claiming."""

    def make(finish: Any) -> Any:
        async def broken(self: Membership) -> None:
            self.stop()

        return broken

    return swapped(Membership, "finish", make)


def stops_that_forget_what_was_let_go() -> Any:
    """What was on its way to be released when the stop came is released by nobody."""

    def make(release_all: Any) -> Any:
        async def broken(self: Ownership) -> None:
            self._unreleased.clear()
            await release_all(self)

        return broken

    return swapped(Ownership, "release_all", make)


def late_commits_that_are_believed() -> Any:
    """What a commit has set is due here, whoever has run it since."""

    def make(changed: Any) -> Any:
        def broken(self: Node, commit: Commit) -> None:
            changed(self, commit)
            for timer in commit.sets:
                self.queue.set(timer)

        return broken

    return swapped(Node, "timers_changed", make)


def late_pages_that_are_believed() -> Any:
    """What a page of timers has is due here, though its shard was another's meanwhile."""
    return swapped(Dispatcher, "_still_ours", lambda still_ours: lambda self, timers, epochs: timers)


def rows_that_ignore_the_lease() -> Any:
    """Others believe in a node for as long as the usual lease lasts, whatever it was given."""

    def make(join: Any) -> Any:
        async def broken(self: MemoryStore, row: NodeRow) -> None:
            await join(self, replace(row, lease_until=row.lease_until - row.lease_ms + LEASE_MS))

        return broken

    return swapped(MemoryStore, "join", make)


def leases_of_their_own() -> Any:
    """Each node has the lease that it was given, whatever the others have."""
    return swapped(membership.Membership, "_check_leases", lambda check: lambda self, rows: None)


def strangers_that_keep_their_place() -> Any:
    """When there is no room the newcomer goes, whoever it is."""

    def make(room_for: Any) -> Any:
        def broken(self: Strangers[Any], wire: Any, place: str) -> Any:
            if len(self._places) < self._most:
                self._places[wire] = place
                return None
            return wire

        return broken

    return swapped(Strangers, "room_for", make)


def codes_that_strangers_choose() -> Any:
    """A refusal is counted under the code that it brings."""

    def make(expected: Any) -> Any:
        def broken(body: bytes, kind: Any, address: str = "") -> Any:
            found = handshake._decoder.decode(body)
            if isinstance(found, handshake.Refusal):
                raise ClusterError(found.message, code=found.code)
            return expected(body, kind, address)

        return broken

    return swapped(handshake, "_expect", make)


def calls_that_wait_for_a_line_to_a_frozen_node() -> Any:
    """Who dials a node is not told that another has the object by now."""

    def make(unless_moved: Any) -> Any:
        async def broken(self: Routes, asking: Any, name: str, shard: int, *, was_sent: bool = True) -> Any:
            return await (unless_moved(self, asking, name, shard) if was_sent else asking)

        return broken

    return swapped(Routes, "_unless_moved", make)
