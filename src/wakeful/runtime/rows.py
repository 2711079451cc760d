"""Layer 3. What do an object's rows look like after its finished turns, whether the disk knows yet or not?

One writer, so what is cached is right. Rows that the disk does not have yet are never dropped.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wakeful.runtime.loader import Loading
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM, USER, Loaded, Slot
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


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

    __slots__ = ("_begun", "_cache", "_complete", "_dirty", "_id", "_news", "_node", "_version", "_wiped_by", "bytes")

    def __init__(self, node: "Node", id: ObjectId, begun: Loading | None) -> None:
        self._node = node
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
        return await self._node.reading(self._node.store.scan(self._id, space, range))

    @contextmanager
    def following(self) -> Iterator["News"]:
        """What turns write while a reader waits for the store: the disk may show it or not, and it must count once."""
        news = News()
        self._news = [*(self._news or ()), news]
        try:
            yield news
        finally:
            self._news = [other for other in self._news or () if other is not news] or None

    def unsaved(self) -> dict[Slot, bytes | None]:
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

    def saved(self, number: int, bound: int) -> None:
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
        return await self._node.reading(self._node.store.read(self._id, space, keys))

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
