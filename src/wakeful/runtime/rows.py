"""Layer 3. What do an object's rows look like after its finished turns, whether the disk knows yet or not?

One writer, so what is cached is right. Rows that the disk does not have yet are never dropped.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from wakeful.runtime.env import Env
from wakeful.store.protocol import Range, Store
from wakeful.values.commits import SYSTEM, USER, Loaded, Slot
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId

# How is what an object needs to wake read: many in one trip, and while its timer's start note is written?

Loading = asyncio.Future[Loaded]
GATHER_ROWS = 500  # in one read, while nobody knows how many there are


class Loader:
    """Gathers wakes that come together into one read: those of many due timers, and all where a read is a round trip."""

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
            if self._is_local and begun is None:
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


class News:
    """Writes of turns that ended while someone was reading."""

    __slots__ = ("is_wiped", "writes")

    def __init__(self) -> None:
        self.writes: dict[Slot, bytes | None] = {}
        self.is_wiped = False

    def add(self, writes: dict[Slot, bytes | None], *, wiped: bool) -> None:
        if wiped:
            self.writes.clear()
            self.is_wiped = True
        self.writes.update(writes)


class ObjectRows:
    """The rows of an awake object: a bounded cache over the store, with unsaved writes laid over it."""

    __slots__ = ("_begun", "_cache", "_complete", "_dirty", "_env", "_id", "_news", "_version", "_wiped_by", "bytes")

    def __init__(self, env: Env, id: ObjectId, begun: Loading | None) -> None:
        self._env = env
        self._id = id
        self._begun = begun  # what is being read for it to wake, since before there was this copy
        self._cache: dict[Slot, bytes | None] = {}
        self._complete = (False, False)  # per space: the cache holds every row there is
        self._dirty: dict[Slot, int] = {}  # commit number after which the disk agrees with the cache, lowest first
        self._wiped_by = 0  # commit number of the last delete_all, 0 when the disk has it
        self._version = 0  # counts finished turns that wrote
        self._news: list[News] | None = None  # of readers that wait for the store; None when there are none
        self.bytes = 0

    def take_begun(self) -> Loading | None:
        """What was begun to be read for it, if that is still what the disk has."""
        begun, self._begun = self._begun, None
        return begun

    def load(self, loaded: Loaded) -> None:
        """The object wakes: this much came with it."""
        self._cache.clear()
        self._version += 1  # what a reader asked for before is of another life
        self.bytes = 0
        self._complete = (loaded.complete, loaded.complete)
        if loaded.rows:
            self._cache.update(loaded.rows)
            self.bytes = sum([len(slot[1]) + len(value) for slot, value in loaded.rows.items()])

    async def read(self, slot: Slot) -> bytes | None:
        """One row, None when there is none."""
        if slot not in self._cache:
            if self._complete[slot[0]]:
                return None
            await self.fetch([slot])
            if slot not in self._cache:  # a turn that ended meanwhile changed or trimmed it
                return (await self._ask(slot[0], [slot[1]])).get(slot[1])
        return self._cache[slot]

    def lacks(self, slot: Slot) -> bool:
        """Only the store knows whether there is such a row."""
        return slot not in self._cache and not self._complete[slot[0]]

    def look(self, slot: Slot) -> bytes | None:
        """A row that is not lacking, without waiting."""
        return self._cache.get(slot)

    def whole(self, space: int) -> dict[str, bytes] | None:
        """All rows of a space without waiting; None when not all are in memory."""
        if not self._complete[space]:
            return None
        return {key: value for (where, key), value in self._cache.items() if where == space and value is not None}

    async def gather(self, space: int, bound: int) -> None:
        """Bring all rows of a space into memory, for code that can't wait; none if they are more bytes than that."""
        while not self._complete[space]:
            version, over = self._version, self.unsaved_writes()
            others = sum(
                [len(key) + len(value or b"") for (where, key), value in self._cache.items() if where != space]
            )
            found = await self._scan_up_to(space, bound - others)
            if found is None:
                return
            if version != self._version:
                continue  # a turn that ended meanwhile changed some of them
            for slot, value in (found | {slot: value for slot, value in over.items() if slot[0] == space}).items():
                if slot not in self._cache:
                    self._keep(slot, value)
            self._complete = (space == USER or self._complete[USER], space == SYSTEM or self._complete[SYSTEM])

    async def _scan_up_to(self, space: int, bound: int) -> dict[Slot, bytes | None] | None:
        """The rows on disk; None when they are more bytes than that."""
        rows: dict[Slot, bytes | None] = {}
        first, size = "", 0
        while True:
            page = await self.scan(space, Range(first, None, False, GATHER_ROWS))
            for key, value in page:
                rows[space, key] = value
                size += len(key) + len(value)
            if size > bound:
                return None
            if len(page) < GATHER_ROWS:
                return rows
            first = page[-1][0] + "\0"

    async def fetch(self, slots: Sequence[Slot]) -> None:
        """Bring rows into the cache in one round trip per space."""
        for space in (USER, SYSTEM):
            keys = [key for where, key in slots if where == space and (where, key) not in self._cache]
            if not keys or self._complete[space]:
                continue
            version = self._version
            found = await self._ask(space, keys)
            if version == self._version:
                for key in keys:
                    self._keep((space, key), found.get(key))

    async def scan(self, space: int, range: Range) -> Sequence[tuple[str, bytes]]:
        """Rows as they are on disk; `unsaved` says what to lay over them. Nothing while a delete_all is on its way."""
        if space == USER and self._wiped_by:
            return ()
        return await self._env.reading(self._env.store.scan(self._id, space, range))

    @contextmanager
    def following(self) -> Iterator["News"]:
        """What turns write while a reader waits for the store: the disk may show it or not, and it must count once."""
        news = News()
        self._news = [*(self._news or ()), news]
        try:
            yield news
        finally:
            self._news = [other for other in self._news or () if other is not news] or None

    def unsaved_writes(self) -> dict[Slot, bytes | None]:
        """Writes of finished turns that the disk may not have yet (None: deleted)."""
        return {slot: self._cache.get(slot) for slot in self._dirty}

    def adopt(self, writes: dict[Slot, bytes | None], *, wiped: bool, number: int) -> None:
        """A turn ended well: the next one sees its writes, and the disk will after that commit number."""
        self._begun = None  # also for a timer that it set: that may be the alarm, which is read too
        if writes or wiped:
            self._version += 1
            for news in self._news or ():
                news.add(writes, wiped=wiped)
        if wiped:
            self._wiped_by = number
            for slot in [slot for slot in self._cache if slot[0] == USER]:
                self._drop(slot)
            for slot in [slot for slot in self._dirty if slot[0] == USER]:
                del self._dirty[slot]
            self._complete = (True, self._complete[SYSTEM])
        for slot, value in writes.items():
            self._keep(slot, value)
            self._dirty.pop(slot, None)  # so that it comes last
            self._dirty[slot] = number

    def on_saved(self, number: int, bound: int) -> None:
        """The disk has everything up to that commit number; drop the oldest rows when the cache is past its bound."""
        if self._wiped_by <= number:
            self._wiped_by = 0
        if self._dirty and self._dirty[next(reversed(self._dirty))] <= number:
            self._dirty.clear()  # nearly always
        elif self._dirty:
            agreed = []
            for slot, by in self._dirty.items():
                if by > number:
                    break
                agreed.append(slot)
            for slot in agreed:
                del self._dirty[slot]
        # With rows on their way the disk does not know all of it yet; the next commit asks again.
        if self.bytes > bound and not self._dirty and not self._wiped_by:
            for slot in list(self._cache):
                if self.bytes <= bound // 2:
                    break
                self._drop(slot)
            self._complete = (False, False)

    async def _ask(self, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._env.reading(self._env.store.read(self._id, space, keys))

    def _keep(self, slot: Slot, value: bytes | None) -> None:
        if slot in self._cache:
            self._drop(slot)
        if value is None and self._complete[slot[0]]:
            return
        self._cache[slot] = value
        self.bytes += len(slot[1]) + len(value or b"")

    def _drop(self, slot: Slot) -> None:
        if slot in self._cache:
            self.bytes -= len(slot[1]) + len(self._cache.pop(slot) or b"")
