"""Layer 2. A store whose values only the holders of a key can read: any other store, with a seal on what goes into it.

The runtime knows nothing of it. One row of a reserved object says which key is needed, so that a wrong one, or none,
is refused when the store is opened and not when an object wakes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from wakeful.store.protocol import (
    NO_GUARDS,
    Guard,
    Hint,
    LocalStore,
    Obstacle,
    Outcome,
    Query,
    Range,
    Receipt,
    RunMarks,
    Store,
    Table,
)
from wakeful.store.seal_places import Sealing, about_row
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SPACES, SYSTEM, Commit, Info, Loaded, Remembered, Slot
from wakeful.values.errors import Fenced, NoKey
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.seals import OVERHEAD, KeyRing, id_of, is_sealed
from wakeful.values.timers import Entry, Parked, Timer, TimerKey

if TYPE_CHECKING:
    from wakeful.store.slots import Spreadable

KEYS = "wakeful.Keys"
CHECK = ObjectId(KEYS, "all")
CHECK_SLOT: Slot = (SYSTEM, "check")
PAGE = 500


def with_keys(store: Store, ring: KeyRing | None) -> Store:
    """The store with a seal on it; without keys one that says which it needs, if it needs any."""
    if getattr(store, "is_keyed", False):
        return store  # somebody put something around a store that has them already
    return Unkeyed(store) if ring is None else SealedStore(store, ring)


class Unkeyed:
    """A store as it is, which is refused at opening when its values are sealed."""

    is_keyed = True

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.shared = inner.shared
        self.rhythm, self.keeps_time, self.needs_looks = inner.rhythm, inner.keeps_time, inner.needs_looks
        self.local = inner.local

    @property
    def run_marks(self) -> RunMarks | None:
        return self.inner.run_marks

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if callable(found):
            self.__dict__[name] = found  # the next call goes there straight
        return found

    async def open(self, *, now: int, readonly: bool = False) -> None:
        await self.inner.open(now=now, readonly=readonly)
        data = await _check_row(self.inner)
        if data is not None:
            await self.inner.close()
            raise NoKey(
                f"{self.inner.url} is sealed with key {id_of(data)}; give it in $WAKEFUL_KEYS, $WAKEFUL_KEYS_FILE or App(keys=…)"
            )


class SealedStore:
    """Every verb of the store beneath, with values sealed on their way in and opened on their way out."""

    is_keyed = True

    def __init__(self, inner: Store, ring: KeyRing) -> None:
        self.inner = inner
        self.url = inner.url
        self.shared = inner.shared
        self.rhythm, self.keeps_time, self.needs_looks = inner.rhythm, inner.keeps_time, inner.needs_looks
        self.local = inner.local
        self.sealing = Sealing(ring)
        self._has_check = False
        self.is_mending = False  # who opens it has been told to look through everything and to write the row anew
        # What has nothing sealed in it goes to the store beneath straight.
        self.close = inner.close
        self.migrate = inner.migrate
        self.join = inner.join
        self.leave = inner.leave
        self.nodes = inner.nodes
        self.drain = inner.drain
        self.release = inner.release
        self.owners = inner.owners
        self.prune = inner.prune
        self.erase = inner.erase
        self.locks = inner.locks
        self.time = inner.time
        self.tell = inner.tell
        self.look = inner.look
        self.watch: Callable[[Callable[[Sequence[Hint]], None]], None] = inner.watch

    @property
    def run_marks(self) -> RunMarks | None:
        return self.inner.run_marks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)  # what only one kind of store has, like its path

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def listens(self) -> bool:
        return self.inner.listens

    @property
    def tells(self) -> bool:
        return self.inner.tells

    @property
    def shows_locks(self) -> bool:
        return self.inner.shows_locks

    @property
    def sealed(self) -> "SealedStore":
        """This store, also for someone who has only what was put around it."""
        return self

    async def open(self, *, now: int, readonly: bool = False) -> None:
        await self.inner.open(now=now, readonly=readonly)
        try:
            await self._look()
        except BaseException:
            await self.inner.close()
            raise

    async def _look(self) -> None:
        """`NoKey` when the newest of the store's keys is not in the ring, or nothing says which one that is and there
        are sealed values: only a store without any may be as it was before it had keys.
        """
        if not await self._take_in() and not self.is_mending and await sealed_row(self.inner) is not None:
            raise NoKey(
                f"{self.url} has sealed values, and the row that says so is gone ({CHECK}): somebody removed it, perhaps "
                "to have values taken that are not sealed. Restore a backup; or, when it is known why, stop all nodes and "
                "run `wakeful keys mend`, which looks through everything and writes it anew",
                code="seal.unchecked",
            )

    async def _take_in(self) -> bool:
        """Whether the row is there; then what it says holds."""
        data = await _check_row(self.inner)
        self._has_check = data is not None
        if data is None:
            return False
        ring = self.sealing.ring
        if id_of(data) not in ring.ids:
            raise NoKey(
                f"{self.url} is sealed with key {id_of(data)}, and the ring has {', '.join(ring.ids)}; add that key, after "
                "the newest, in $WAKEFUL_KEYS, $WAKEFUL_KEYS_FILE or App(keys=…)"
            )
        self.sealing.is_whole = bool(decode(ring.open(data, about_row(CHECK, CHECK_SLOT)))["is_whole"])
        return True

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        epochs = await self.inner.claim(node, shards, now=now, seen=seen)
        if not self._has_check and not await self._take_in():
            await self._leave_check(node, epochs, now)
        return epochs

    async def note_key(self, now: int) -> None:
        """Have the store say which key it needs, for a process that owns nothing, before any that does."""
        if not self._has_check and not await self._take_in():
            await self._leave_check(f"keys-{id(self):x}", {}, now)

    async def _leave_check(self, node: str, epochs: Mapping[int, int], now: int) -> None:
        """Say in the store which key it needs, before anything else is sealed; with the shard of that row, which
        may be nobody's. When it is another node's, whoever has it and has keys says it.
        """
        shard = shard_of(CHECK)
        mine = {shard: epochs[shard]} if shard in epochs else {}
        if not mine:
            row = next(row for row in await self.inner.owners() if row.shard == shard)
            if row.owner is not None and self.shared:
                return
            if row.is_away:  # of one of several servers of a class: nobody can have the shard here
                tables = await cast("Spreadable", self.inner).open_slots()
                try:
                    data = self.check_value(is_whole=self.is_mending or await _is_empty(self.inner))
                    await tables.keep(CHECK, CHECK_SLOT, data, now=now)
                finally:
                    await tables.close()
                await self._take_in()
                return
            mine = await self.inner.claim(node, [shard], now=now, seen={shard: row.epoch})
        if shard in mine:
            # What was empty when it got its key never holds a plain value: the key decides, from the first row on.
            is_whole = self.is_mending or await _is_empty(self.inner)
            data = self.check_value(is_whole=is_whole)
            commit = Commit(id=CHECK, shard=shard, epoch=mine[shard], now=now, puts={CHECK_SLOT: data})
            [outcome] = await self.inner.commit(node, [commit])
            self._has_check = outcome is None
            self.sealing.is_whole = is_whole and self._has_check
            if shard not in epochs:
                await self.inner.release(node, mine)
            if outcome is not None and not isinstance(outcome, Fenced):
                raise outcome

    async def sealed_with(self) -> tuple[str, bool]:
        """The key that the store says it needs, and whether it takes nothing that is not sealed."""
        data = await _check_row(self.inner)
        if data is None:
            return "", False
        return id_of(data), bool(decode(self.sealing.ring.open(data, about_row(CHECK, CHECK_SLOT)))["is_whole"])

    def check_value(self, *, is_whole: bool) -> bytes:
        """The row that says which key the store needs, and whether everything in it is sealed."""
        return self.sealing.ring.seal(encode({"is_whole": is_whole}), about_row(CHECK, CHECK_SLOT))

    # the one write

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        return await self.inner.commit(node, [self.sealing.commit(commit) for commit in commits])

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        await self.note_key(now)
        sealed = [self.sealing.timer(timer) for timer in timers]
        found = await self.inner.insert(sealed, now=now, receipt=receipt, guards=guards, each=each)
        return [self._open_obstacle(timers[one.index].id, one) for one in found]

    def _open_obstacle(self, id: ObjectId, obstacle: Obstacle) -> Obstacle:
        timer, parked, answer = obstacle.timer, obstacle.parked, obstacle.answer
        return replace(
            obstacle,
            timer=None if timer is None else self.sealing.opened_timer(timer),
            parked=None if parked is None else self.sealing.opened_parked(parked),
            answer=None if answer is None else self.sealing.opened_answer(id, answer),
        )

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        await self.inner.forget(receipts, at=at)

    # an object's rows

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        found = await self.inner.load(ids)
        return [
            replace(self.sealing.opened_loaded(id, one), info=None if one.info is None else _plain_info(one.info))
            for id, one in zip(ids, found, strict=True)
        ]

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return self._open_rows(id, space, await self.inner.read(id, space, keys))

    def read_now(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return self._open_rows(id, space, cast("LocalStore", self.inner).read_now(id, space, keys))

    def _open_rows(self, id: ObjectId, space: int, found: dict[str, bytes]) -> dict[str, bytes]:
        return {key: self.sealing.open(data, about_row(id, (space, key))) for key, data in found.items()}

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        found = await self.inner.scan(id, space, range)
        return [(key, self.sealing.open(data, about_row(id, (space, key)))) for key, data in found]

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        found = await self.inner.recall(id, key, now=now)
        return None if found is None else self.sealing.opened_answer(id, found)

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        found = await self.inner.find_answers(query, now=now)
        return [(id, self.sealing.opened_answer(id, answer)) for id, answer in found]

    # timers

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        found, more = await self.inner.timers(shards, after=after, until=until, limit=limit)
        return [self.sealing.opened_timer(timer) for timer in found], more

    # for people

    async def find_objects(self, query: Query) -> list[Info]:
        found = await self.inner.find_objects(query)
        mine = [info for info in found if info.id != CHECK]
        if len(mine) < len(found) and query.limit == len(found):  # a short page would look like the last one
            last = found[-1].id
            more = await self.inner.find_objects(replace(query, after=(last.cls, last.key), limit=1))
            mine += more
        return [_plain_info(info) for info in mine]

    async def find_timers(self, query: Query) -> list[Timer]:
        return [self.sealing.opened_timer(timer) for timer in await self.inner.find_timers(query)]

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        found = await self.inner.find_entries(query)
        return [(number, self.sealing.opened_entry(entry)) for number, entry in found]

    async def find_parked(self, query: Query) -> list[Parked]:
        return [self.sealing.opened_parked(parked) for parked in await self.inner.find_parked(query)]

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        found = await self.inner.count(what, cls=cls, key_prefix=key_prefix)
        is_among = what == "objects" and cls in (None, KEYS) and CHECK.key.startswith(key_prefix or "")
        return found - 1 if is_among and await _check_row(self.inner) else found

    async def known_classes(self) -> list[str]:
        return [cls for cls in await self.inner.known_classes() if cls != KEYS]


async def _check_row(store: Store) -> bytes | None:
    space, name = CHECK_SLOT
    return (await store.read(CHECK, space, [name])).get(name)


async def _is_empty(store: Store) -> bool:
    """Nothing is in it that could hold a value, but for the row itself."""
    query = Query(limit=1)
    if await store.find_timers(query) or await store.find_parked(query) or await store.find_entries(query):
        return False
    return not [info for info in await store.find_objects(Query(limit=2)) if info.id != CHECK]


async def sealed_row(store: Store) -> str | None:
    """Where the first sealed value is; None when there is none. All of the store is looked through, once in its life:
    rows that are not sealed can be put in front of those that are.
    """
    objects = Query(limit=PAGE)
    while page := await store.find_objects(objects):
        for info in page:
            for space in SPACES:
                first = ""
                while rows := await store.scan(info.id, space, Range(first, limit=PAGE)):
                    if any(is_sealed(data) for _, data in rows):
                        return str(info.id)
                    first = f"{rows[-1][0]}\0"
        last = page[-1].id
        objects = replace(objects, after=(last.cls, last.key))
    timers = Query(limit=PAGE)
    while found := await store.find_timers(timers):
        for timer in found:
            if timer.payload is not None and is_sealed(timer.payload):
                return f"{timer.id} {timer.name}"
        timers = replace(timers, after=found[-1].sort_key)
    return None


def _plain_info(info: Info) -> Info:
    """Bytes as the object's own: without what the seals add. While some rows are not sealed yet it says too little."""
    return replace(info, bytes=max(0, info.bytes - info.rows * OVERHEAD))


def beneath(store: Store) -> Store:
    """The store under a seal, or the store itself."""
    return store.inner if isinstance(store, SealedStore | Unkeyed) else store
