"""Layer 3. Which shards are this node's, and how does one come and go?

`node.epochs` is the truth as this process believes it; the store's own is checked inside every commit. A shard
comes by a claim that raised its epoch, goes by being handed over when nothing of it is running, or is lost to
somebody who claimed it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from wakeful.runtime import ended_epochs
from wakeful.values.commits import Commit, Start
from wakeful.values.errors import Fenced, NotRunning, Unavailable
from wakeful.values.ids import SHARDS, shard_of

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.store.protocol import ShardRow

log = logging.getLogger("wakeful.ownership")

HELD_MAX = 64  # epochs of a shard that are remembered; what was begun in an older one was long tried again
SAID_MAX = 5  # shards whose numbers the log has, of those that were lost at once
LOOK_MS = 5  # between looks at whether the turns of a leaving shard have ended
LOOKED_AT = 200  # of what runs and is awake for each further millisecond: a look goes through all of it


def look_ms(count: int) -> int:
    """How long to wait before another look at so many: a node with thousands under way would do little else.

    >>> look_ms(20), look_ms(13_000)
    (5, 70)
    """
    return LOOK_MS + count // LOOKED_AT


class Ownership:
    """The shards of one node: taken, lost, handed over."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.leaving: set[int] = set()  # being handed over: no new turns but those that a running one waits for
        # Epochs that were this process's own, and those of owners that lost them without having died.
        self._held: dict[int, deque[int]] = {}
        self.taken_at: dict[int, int] = {}  # when the shard came to this node
        self._taken: dict[int, int] = {}  # how many groups the committer had sent when the shard came
        self.takes = 0  # how often shards came
        self.losses = 0
        self.unsure: dict[int, int] = {}  # ours when the store went; whether others took them shows when it is back
        self._unreleased: dict[int, int] = {}  # let go of, and the store has not said yet that it heard
        self._unsaid: list[Fenced] = []  # lost in this pass of the event loop

    def has_held(self, shard: int, epoch: int) -> bool:
        """That epoch of the shard did not end by the death of its owner."""
        return epoch in self._held.get(shard, ())

    def heed(self, epochs: Mapping[int, int]) -> None:
        """These ended cleanly, says the node that had them."""
        for shard, epoch in epochs.items():
            self._hold(shard, epoch)

    def _heed_files(self) -> None:
        for shard, epochs in ended_epochs.known(self._node).items():
            for epoch in epochs:
                if not self.has_held(shard, epoch):
                    self._hold(shard, epoch)

    def _hold(self, shard: int, epoch: int) -> None:
        self._held.setdefault(shard, deque(maxlen=HELD_MAX)).append(epoch)

    def was_ours_before_this_group(self, shard: int) -> bool:
        """The shard came before the group of commits that just reached the disk was sent, and is ours still.

        If not, somebody else may have run already what that group added there.
        """
        return shard in self._node.epochs and self._taken[shard] < self._node.committer.sent

    async def claim_all(self) -> None:
        """Own everything, whoever had it: for the only node of a store.

        It claims from the epochs that it saw: a claim of which no answer came may still arrive, after the next one
        was answered, and would take from this node what nobody else is there to take.
        """
        node = self._node
        node.epochs.clear()
        self._heed_files()
        while len(node.epochs) < SHARDS:
            rows = [row for row in await node.store.owners() if row.shard not in node.epochs and not row.is_away]
            if not rows:
                break  # the others live on other servers of a spread
            seen = {row.shard: row.epoch for row in rows}
            self.take(await node.store.claim(node.name, sorted(seen), now=node.clock.now(), seen=seen))

    async def claim(self, shards: Collection[int], seen: Mapping[int, int], *, spared: Iterable[int] = ()) -> int:
        """Take these shards, as far as nobody else did since they were seen; how many came.

        `spared` are those whose owner is only silent: what it was running did not kill it.
        """
        if not shards:
            return 0
        node = self._node
        self._heed_files()
        won = await node.store.claim(node.name, sorted(shards), now=node.clock.now(), seen=seen)
        for shard in spared:
            if shard in won:
                self._hold(shard, seen[shard])
        self.take(won)
        return len(won)

    def take(self, won: Mapping[int, int]) -> None:
        """These shards are ours at these epochs."""
        node = self._node
        now = node.clock.now()
        self.takes += 1
        node.meter.shards_taken.add(len(won))
        for shard, epoch in won.items():
            node.epochs[shard] = epoch
            self._hold(shard, epoch)
            self._taken[shard] = node.committer.sent
            self.taken_at[shard] = now
            node.seqs.pop(shard, None)
        if won:
            node.dispatcher.took(won)

    def compare(self, owners: Iterable["ShardRow"]) -> None:
        """Give up what the store says is somebody else's."""
        node = self._node
        for row in owners:
            epoch = node.epochs.get(row.shard)
            if epoch is not None and row.epoch > epoch:
                self.lose(row.shard, Fenced(row.shard, epoch))
            if node.state == "down" and row.owner != node.name and row.epoch > self.unsure.get(row.shard, row.epoch):
                self._note_lost(Fenced(row.shard, self.unsure.pop(row.shard)))

    def lose(self, shard: int, fenced: Fenced) -> None:
        """It is somebody else's: drop every object of it, to wake where it lives now."""
        node = self._node
        if node.epochs.pop(shard, None) is not None:
            self._note_lost(fenced)
        for activation in [found for found in node.awake.values() if found.shard == shard]:
            node.drop(activation, fenced)
        node.sideline.cut({shard})
        node.take_leave({shard})
        self._forget_timers({shard})

    def _note_lost(self, fenced: Fenced) -> None:
        self.losses += 1
        if not self._unsaid:  # whoever was frozen loses a hundred at once
            asyncio.get_running_loop().call_soon(self._say_lost)
        self._unsaid.append(fenced)

    def _say_lost(self) -> None:
        """One line for all that was lost at once. The database took nothing: another node did, since this one was mute."""
        lost, self._unsaid = self._unsaid, []
        why = (
            self._node.membership.standstill.words()
            or "another node took over, since its lease was over or it was moved"
        )
        fenced = lost[0]
        if len(lost) == 1:
            log.warning("%s: %s", fenced, why, extra={"code": fenced.code})
            return
        first = ", ".join(str(one.shard) for one in lost[:SAID_MAX])
        more = ", …" if len(lost) > SAID_MAX else ""
        words = "%d shards are no longer owned by this node (%s%s); their objects wake elsewhere [%s]: %s"
        log.warning(words, len(lost), first, more, fenced.code, why, extra={"code": fenced.code})

    async def hand_over(self, shards: Iterable[int], *, within_ms: int) -> None:
        """Release each of these shards as soon as nothing of it runs; those that stay busy for too long stay ours."""
        node = self._node
        asked = {shard for shard in shards if shard in node.epochs} - self.leaving
        going = set(asked)
        self.leaving |= asked
        node.take_leave(asked)
        until = node.clock.now() + within_ms
        try:
            while going:
                busy = self._busy()
                idle = {shard for shard in going if shard not in busy and shard in node.epochs}
                going &= busy
                await self.release(idle)
                if node.clock.now() >= until:
                    await self.release(going - self._busy(beside=False))  # work beside turns begins anew elsewhere
                    break
                if going:
                    await node.clock.sleep(look_ms(len(node.queue.running) + len(node.awake)))
                    if node.state == "stopping":
                        await node.membership.hold_on()
        finally:
            if node.state != "stopping":  # else nothing new may begin on what could not be handed over
                self.leaving -= asked
            stay = asked & node.epochs.keys()
            if node.state == "up" and stay:
                node.dispatcher.took(stay)  # it had forgotten their timers

    def _busy(self, *, beside: bool = True) -> set[int]:
        """Shards where a turn runs or waits, or a timer was handed out; `beside` counts work that no turn waits for."""
        node = self._node
        return {
            activation.shard
            for activation in node.awake.values()
            if (activation.is_busy if beside else activation.has_turns)
        } | {
            shard_of(name[0])
            for name in node.queue.running
            if name not in node.sideline or (beside and node.sideline.will_end(name))
        }

    async def release(self, shards: Collection[int]) -> None:
        """Let these shards go, for anyone to take; nothing of them may be running."""
        if not shards:
            return
        node = self._node
        beside = [t for name, t in node.queue.running.items() if name in node.sideline and shard_of(name[0]) in shards]
        node.sideline.cut(shards)
        await self.hand_back(shards)
        for timer in beside:  # it has ended here, and runs again wherever its shard is then
            node.queue.finish(timer)
        begun = self._busy(beside=False)  # a turn that another waits for may have begun meanwhile: that shard stays
        epochs = {shard: node.epochs.pop(shard) for shard in shards if shard in node.epochs and shard not in begun}
        for activation in [found for found in node.awake.values() if found.shard in epochs]:
            node.drop(
                activation, Unavailable(f"{activation.id} is moving to another node; try again", code="object.moved")
            )
        self._forget_timers(epochs)
        node.meter.shards_released.add(len(epochs))
        self._unreleased.update(epochs)
        await node.store.release(node.name, epochs)
        for shard in epochs:
            self._unreleased.pop(shard, None)
        await node.tidings.tell([])

    async def let_go(self, epochs: Mapping[int, int]) -> None:
        """Release shards that are ours on disk only: this process has nothing of them."""
        if epochs:
            await self._node.store.release(self._node.name, epochs)
            await self._node.tidings.tell([])

    async def release_all(self) -> None:
        """The node stops: hand over what can be, cut off the rest when its time is up, and say whose fault that was not."""
        node = self._node
        within_ms = node.limits.stop_deadline_ms
        if node.is_clustered:
            self.leaving.clear()  # the stop cut these handovers short, and what runs there has its time as well
            await self.hand_over(list(node.epochs), within_ms=within_ms)
        else:
            await self._wait_for_turns(within_ms)
        for activation in list(node.awake.values()):
            if activation.is_busy:
                activation.fail(NotRunning("the node is stopping; try again", code="node.stopping"))
        await node.clock.sleep(1)  # let the cancelled turns unwind
        await node.committer.drain()
        node.sideline.cut(range(SHARDS))
        await self.hand_back(range(SHARDS))
        await node.store.release(node.name, {**self._unreleased, **node.epochs})

    async def _wait_for_turns(self, within_ms: int) -> None:
        node = self._node
        until = node.clock.now() + within_ms
        node.take_leave(range(SHARDS))
        while node.clock.now() < until:
            if not node.sideline and not any(activation.is_busy for activation in node.awake.values()):
                return
            await node.clock.sleep(LOOK_MS)

    async def hand_back(self, shards: Collection[int]) -> None:
        """Timers that were begun and cut off by the stop: not their fault, so no trace of this run may remain.

        Crashes of earlier processes stay counted. Only the very setting that was begun is touched: one that a
        commit of unknown outcome replaced, moved or cleared stays as that commit left it.
        """
        node = self._node
        await self._fence(shards)
        now = node.clock.now()
        commits = [
            Commit(
                id=timer.id,
                shard=shard,
                epoch=node.epochs[shard],
                now=now,
                starts=[Start(timer.name, timer.seq, node.timer_runs.crashes_of(timer), is_running=False)],
            )
            for timer in {**node.outage.begun, **node.queue.running}.values()
            if (shard := shard_of(timer.id)) in node.epochs and shard in shards
        ]
        if commits:
            await node.store.commit(node.name, commits)
        begun = node.outage.begun
        for name in [name for name in begun if shard_of(name[0]) in shards]:
            del begun[name]

    async def _fence(self, shards: Collection[int]) -> None:
        """Claim anew where a commit may still arrive: a start note that came after it was taken back would stay."""
        node = self._node
        seen = {shard: node.epochs[shard] for shard in map(shard_of, node.barred) if shard in node.epochs}
        seen = {shard: epoch for shard, epoch in seen.items() if shard in shards}
        if not seen:
            return
        won = await node.store.claim(node.name, sorted(seen), now=node.clock.now(), seen=seen)
        for shard, epoch in seen.items():
            if shard in won:
                node.epochs[shard] = won[shard]
            else:
                self.lose(shard, Fenced(shard, epoch))

    def _forget_timers(self, shards: Collection[int]) -> None:
        queue = self._node.queue
        queue.forget(id for id in queue.objects() if shard_of(id) in shards)
