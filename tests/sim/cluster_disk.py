"""A disk that several simulated nodes share: slow, forgetful of hints, and jealous of who writes to it."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.slowdisk import Glimpse
from wakeful.store import Disk, MemoryStore
from wakeful.store.protocol import Hint, NodeRow, Obstacle, Outcome, Range, ShardRow
from wakeful.testing.timewarp import Timewarp
from wakeful.testing.world import World
from wakeful.values.commits import Commit, Loaded
from wakeful.values.errors import OutcomeUnknown
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer, TimerKey


@dataclass
class Umpire:
    """What was claimed, released and written, judged while it happens and without believing the store."""

    complain: Callable[[str], None]
    epochs: dict[int, int] = field(default_factory=dict)  # the highest that was ever claimed
    owners: dict[int, str | None] = field(default_factory=dict)
    claims: int = 0
    fenced: int = 0
    late: int = 0  # so many commits from now on are reported as unknown, and arrive later
    is_deaf: bool = False  # hints get lost

    def claimed(self, node: str, won: Mapping[int, int], seen: Mapping[int, int] | None) -> None:
        self.claims += len(won)
        for shard, epoch in won.items():
            if epoch <= self.epochs.get(shard, 0):
                self.complain(f"{node} claimed shard {shard} at epoch {epoch}, which is not new")
            if seen is not None and seen.get(shard) != self.epochs.get(shard, 0):
                self.complain(f"{node} claimed shard {shard}, having seen epoch {seen.get(shard)}, not the last")
            self.epochs[shard], self.owners[shard] = epoch, node

    def released(self, node: str, epochs: Mapping[int, int]) -> None:
        for shard, epoch in epochs.items():
            if (self.owners.get(shard), self.epochs.get(shard)) == (node, epoch):
                self.owners[shard] = None

    def written(self, node: str, commit: Commit, outcome: Outcome) -> None:
        is_owner = (self.owners.get(commit.shard), self.epochs.get(commit.shard)) == (node, commit.epoch)
        if outcome is not None:
            self.fenced += 1
        elif not is_owner:
            self.complain(
                f"{node} wrote {commit.id} at epoch {commit.epoch} of shard {commit.shard}, which is "
                f"{self.owners.get(commit.shard)}'s at epoch {self.epochs.get(commit.shard)}"
            )


class SharedDisk(MemoryStore):
    """One node's session with the disk; each verb may take a while before and after it happens."""

    local = False  # it stands for a server: wakes share reads, and start notes the trips of commits

    def __init__(self, disk: Disk, umpire: Umpire, warp: Timewarp, slow: random.Random | None, **options: Any) -> None:
        super().__init__(disk, shared=True, clock=warp.now, **options)
        self._umpire = umpire
        self._warp = warp
        self._slow = slow

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        if self._umpire.late:
            self._umpire.late -= 1
            asyncio.get_running_loop().create_task(self._straggle(node, commits))
            raise OutcomeUnknown("the connection broke while committing (the simulation says so)")
        await self._pause()
        outcomes = await super().commit(node, commits)
        await self._pause()
        return outcomes

    def _apply(self, node: str, commit: Commit) -> Outcome:
        outcome = super()._apply(node, commit)
        self._umpire.written(node, commit, outcome)
        return outcome

    async def _straggle(self, node: str, commits: Sequence[Commit]) -> None:
        """It reaches the disk whatever became of its sender; only the epoch can stop it."""
        await self._warp.sleep((self._slow or random.Random(1)).choice((1, 20, 400, 3_000)))
        for commit in commits:
            self._apply(node, commit)

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        await self._pause()
        won = await super().claim(node, shards, now=now, seen=seen)
        self._umpire.claimed(node, won, seen)
        await self._pause()
        return won

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        await self._pause()
        await super().release(node, epochs)
        self._umpire.released(node, epochs)
        await self._pause()

    async def join(self, row: NodeRow) -> None:
        await self._pause()
        await super().join(row)

    async def nodes(self) -> list[NodeRow]:
        found = await super().nodes()
        await self._pause()
        return found

    async def owners(self) -> list[ShardRow]:
        found = await super().owners()
        await self._pause()
        return found

    async def insert(self, timers: Sequence[Timer], **options: Any) -> list[Obstacle]:
        await self._pause()
        obstacles = await super().insert(timers, **options)
        await self._pause()
        return obstacles

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        await self._pause()
        found = await super().load(ids)
        await self._pause()
        return found

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        await self._pause()
        return await super().scan(id, space, range)

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        await self._pause()
        found = await super().timers(shards, after=after, until=until, limit=limit)
        await self._pause()
        return found

    async def time(self) -> int | None:
        await self._pause()
        there = await super().time()
        await self._pause()
        return there

    async def tell(self, hints: Sequence[Hint]) -> None:
        if not self._umpire.is_deaf:
            await super().tell(hints)

    async def _pause(self) -> None:
        if self._slow is not None:
            length_ms = self._slow.choice((0, 0, 0, 1, 3, 12))
            if length_ms:
                await self._warp.sleep(length_ms)


class ClusterWorld(World):
    """A world whose nodes share a disk with an umpire."""

    umpire: Umpire
    slow: random.Random | None = None

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def glimpse(self) -> Glimpse:
        return Glimpse(self._disk)

    def now_ms(self) -> int:
        return self._warp.now()

    def open_disk(self, *, shared: bool) -> SharedDisk:
        return SharedDisk(self._disk, self.umpire, self._warp, self.slow, listens=self._listens, sees=self._sees)
