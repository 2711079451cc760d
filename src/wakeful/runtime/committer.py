"""Layer 3. How do many turns share one trip to the disk?"""

import asyncio
from collections.abc import Callable, Sequence

from wakeful.store.protocol import Outcome, Store
from wakeful.values.commits import Commit, Loaded
from wakeful.values.errors import Fenced, Unavailable, WakefulError
from wakeful.values.ids import ObjectId

Failure = Fenced | WakefulError
OnDone = Callable[[Failure | None], None]


class Committer:
    """Group commit: while one list is on its way to disk the next gathers; an idle node adds no delay."""

    def __init__(self, store: Store, node: str, *, group_max: int, on_down: Callable[[Unavailable], None]) -> None:
        self._store = store
        self._node = node
        self._group_max = group_max
        self._on_down = on_down
        self._waiting: list[tuple[Commit, OnDone]] = []
        self._under_way: list[tuple[Commit, OnDone]] = []
        self._task: asyncio.Task[None] | None = None
        self.groups = 0
        self.commits = 0

    @property
    def backlog(self) -> int:
        """Commits that are not on disk yet."""
        return len(self._waiting) + len(self._under_way)

    def submit(self, commit: Commit, on_done: OnDone) -> None:
        """Take the commit into the next group; `on_done` hears what became of it, in order of submission."""
        self._waiting.append((commit, on_done))
        if self._task is None:
            # The task begins one pass of the event loop later, so turns that end in this pass share its group.
            self._task = asyncio.get_running_loop().create_task(self._flush())

    def abandon(self, error: Unavailable) -> None:
        """Fail whatever has not been sent: what it was built on is gone."""
        dropped, self._waiting = self._waiting, []
        for _, on_done in dropped:
            on_done(error)

    def kill(self) -> None:
        """Drop everything without a word, as a crash would."""
        self._waiting = []
        self._under_way = []
        if self._task is not None:
            self._task.cancel()
            self._task = None  # cancelled before its first step it would never say so itself

    async def drained(self) -> None:
        """Wait until nothing is waiting or under way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _flush(self) -> None:
        try:
            while self._waiting:
                group = self._under_way = self._waiting[: self._group_max]
                self._waiting = self._waiting[self._group_max :]
                try:
                    outcomes: Sequence[Outcome] = await self._store.commit(self._node, [commit for commit, _ in group])
                except Unavailable as error:
                    self._fail(group, error)
                    return
                except Exception as error:
                    # A store that fails in a way it did not name: nothing is known about the group.
                    self._fail(
                        group, Unavailable(f"the store failed: {type(error).__name__}: {error}", code="store.fault")
                    )
                    return
                self.groups += 1
                self.commits += len(group)
                self._under_way = []
                for (_, on_done), outcome in zip(group, outcomes, strict=True):
                    on_done(outcome)
        finally:
            self._task = None

    def _fail(self, group: list[tuple[Commit, OnDone]], error: Unavailable) -> None:
        self._under_way = []
        self._on_down(error)
        for _, on_done in group:
            on_done(error)
        self.abandon(error)


class Loader:
    """Gathers wakes that come together into one read, where a read is a round trip."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[ObjectId, asyncio.Future[Loaded]]] = []
        self._task: asyncio.Task[None] | None = None

    async def load(self, id: ObjectId) -> Loaded:
        if self._store.local:
            return (await self._store.load([id]))[0]
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Loaded] = loop.create_future()
        self._waiting.append((id, future))
        if self._task is None:
            self._task = loop.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                try:
                    loaded = await self._store.load([id for id, _ in group])
                except Exception as error:
                    for _, future in group:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for (_, future), found in zip(group, loaded, strict=True):
                    if not future.done():
                        future.set_result(found)
        finally:
            self._task = None
