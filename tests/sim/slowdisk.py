"""What if the disk takes its time, and a commit arrives after everyone gave it up?"""

import asyncio
import random
from collections.abc import Sequence

from wakeful.store import Disk, MemoryStore, Store
from wakeful.store.protocol import Outcome, Range
from wakeful.testing.timewarp import Timewarp
from wakeful.testing.world import World
from wakeful.values.commits import Commit, Loaded
from wakeful.values.errors import OutcomeUnknown, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer, TimerKey

BOOTS_MAX = 20


class SlowDisk(MemoryStore):
    """A memory store whose verbs take virtual time, and whose commits can arrive after all hope was given up."""

    def __init__(self, disk: Disk, dice: random.Random, warp: Timewarp) -> None:
        super().__init__(disk)
        self._dice = dice
        self._warp = warp
        self.late = 0  # that many commits from now on are reported as unknown, and arrive later
        self._stragglers: set[asyncio.Task[None]] = set()

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        if self.late:
            self.late -= 1
            task = asyncio.get_running_loop().create_task(self._straggle(node, commits))
            self._stragglers.add(task)
            raise OutcomeUnknown("the connection broke while committing (the simulation says so)")
        await self._pause()
        outcomes = await super().commit(node, commits)
        await self._pause()
        return outcomes

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        await self._pause()
        found = await super().load(ids)
        await self._pause()
        return found

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        await self._pause()
        return await super().read(id, space, keys)

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

    async def _pause(self) -> None:
        await self._warp.sleep(self._dice.choice((0, 0, 1, 3, 15)))

    async def _straggle(self, node: str, commits: Sequence[Commit]) -> None:
        """The commit reaches the disk whatever became of its sender; only the epoch can stop it."""
        await self._warp.sleep(self._dice.choice((1, 20, 60, 400, 3_000)))
        for commit in commits:
            self._apply(node, commit)


class Glimpse(MemoryStore):
    """A look at the disk that takes no time and needs no opening."""

    def _check(self) -> None:
        pass


class SimulatedWorld(World):
    """A world that may have a slow disk."""

    slow: random.Random | None = None

    @property
    def is_dead(self) -> bool:
        return self._node is None

    @property
    def disk(self) -> Store | None:
        return self._store.inner if self._store is not None else None

    @property
    def store(self) -> Store:
        """What is on disk, in one instant if it is a memory disk, however slow it is for the node."""
        return Glimpse(self._disk) if self._url == "memory:" else super().store

    def now_ms(self) -> int:
        return self._warp.now()

    async def _boot(self) -> None:
        """Start, as often as it takes when the process is killed while it starts, or its store fails it."""
        for _ in range(BOOTS_MAX):
            try:
                await super()._boot()
                return
            except Unavailable:
                if self._store is None:
                    raise
                self.kill()  # who can't start ends, and is started again
                await self._store.close()
        raise AssertionError("it can't start on a store that fails no more")

    def _open_disk(self) -> Store:
        if self.slow is None:
            return super()._open_disk()
        return SlowDisk(self._disk, self.slow, self._warp)
