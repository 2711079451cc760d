"""Layer 3. How is what an object needs to wake read: many in one trip, and while its timer's start note is written?"""

import asyncio
from collections.abc import Callable

from wakeful.store.protocol import Store
from wakeful.values.commits import Loaded
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId

Loading = asyncio.Future[Loaded]


class Loader:
    """Gathers wakes that come together into one read, where a read is a round trip."""

    def __init__(self, store: Store, on_down: Callable[[Unavailable], None]) -> None:
        self._store = store
        self._is_local = store.local
        self._on_down = on_down
        self._waiting: list[tuple[ObjectId, Loading]] = []
        self._task: asyncio.Task[None] | None = None
        self._ahead: dict[ObjectId, tuple[int, Loading]] = {}

    async def load(self, id: ObjectId, begun: Loading | None = None) -> Loaded:
        """What the object needs to wake; a store that can't answer is down."""
        try:
            if self._is_local:
                return (await self._store.load([id]))[0]
            return await (begun or self._ask(id))
        except Unavailable as error:
            self._on_down(error)
            raise

    def begin(self, id: ObjectId, epoch: int) -> None:
        """Have it read while it has to be waited for something else."""
        if id not in self._ahead:
            self._ahead[id] = (epoch, self._ask(id))

    def take(self, id: ObjectId, epoch: int) -> Loading | None:
        """What was begun for an object that wakes now. Once: from here on its own commits change it."""
        if not self._ahead:
            return None
        before, loading = self._ahead.pop(id, (epoch, None))
        return loading if before == epoch else None  # another node may have written in between

    def forget(self, id: ObjectId) -> None:
        """What was begun for it is not needed after all."""
        self._ahead.pop(id, None)

    def _ask(self, id: ObjectId) -> Loading:
        loop = asyncio.get_running_loop()
        future: Loading = loop.create_future()
        self._waiting.append((id, future))
        if self._task is None:
            self._task = loop.create_task(self._flush())
        return future

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
                            future.exception()  # heard: what was read ahead may not be needed after all
                    continue
                for (_, future), found in zip(group, loaded, strict=True):
                    if not future.done():
                        future.set_result(found)
        finally:
            self._task = None
