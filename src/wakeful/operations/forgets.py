"""Layer 5. Which objects are to be forgotten, what do they hold, and where else do operators' rows name them?"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypedDict

from msgspec.structs import replace

from wakeful.runtime.erasure import FORGET, forget_object
from wakeful.schedules.tenants import TENANTS
from wakeful.security.audit import LOG
from wakeful.store.protocol import ASIDE, Query, Store
from wakeful.values.errors import BadOption
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key, tenant_of

PAGE = 500
Send = Callable[[ObjectId, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Holdings(TypedDict):
    """What would go, counted."""

    objects: int
    rows: int
    bytes: int
    timers: int
    runs: int
    parked: int
    answers: int


class ObjectChoice(NamedTuple):
    """Which objects: that of a class and a key, or all of one class or of all whose keys begin so."""

    cls: str | None
    key: str | None = None
    prefix: str | None = None

    def check(self) -> "ObjectChoice":
        if (self.key is None) == (self.prefix is None) or self.prefix == "" or (self.key is not None and not self.cls):
            raise BadOption("forget what? Give a class and a key, or a prefix of keys", code="option.forget")
        if self.cls is not None and check_class(self.cls).startswith(RESERVED):
            raise BadOption(f"{self.cls} is Wakeful's own: its objects can't be forgotten", code="option.forget")
        check_key(self.cls or "class", self.key or self.prefix)
        return self

    def query(self) -> Query:
        return Query(cls=self.cls, key=self.key, key_prefix=self.prefix, limit=PAGE)

    async def pseudonym(self, send: Send) -> str:
        """What audit rows call them: a class, and a digest that only who knows the key can have made again."""
        name = f"{self.cls or ''}/{self.key}" if self.key is not None else f"{self.cls or ''}/{self.prefix}…"
        return f"{self.cls or 'all'}/~{await send(LOG, 'pseudonym', (name,), {})}"


async def forget(send: Send, stores: Sequence[Store], choice: ObjectChoice) -> int:
    """Have them forgotten, and their names taken out of the audit rows; how many objects that were."""
    choice.check()
    count = 0
    async for id in each_chosen(stores, choice):
        count += await forget_object(send, id)
    prefix = choice.prefix or ""
    if choice.cls is None and prefix.endswith("/") and (tenant := tenant_of(prefix)) == prefix[:-1]:
        await send(ObjectId(TENANTS, tenant), FORGET, (), {})  # what counted its schedules
    if await stores[0].find_objects(Query(cls=LOG.cls, key=LOG.key, limit=1)):
        await _redact(send, choice)
    return count


async def tally(stores: Sequence[Store], choice: ObjectChoice, now: int) -> Holdings:
    """What they hold; wakes nothing."""
    counts = Holdings(objects=0, rows=0, bytes=0, timers=0, runs=0, parked=0, answers=0)
    query = choice.check().query()
    for store in stores:
        async for info in _each(store.find_objects, query, lambda info: tuple(info.id)):
            if not info.id.cls.startswith(RESERVED):
                counts["objects"] += 1
                counts["rows"] += info.rows
                counts["bytes"] += info.bytes
        counts["timers"] += await _count(store.find_timers, query, lambda timer: timer.id, lambda timer: timer.sort_key)
        counts["runs"] += await _count(store.find_entries, query, lambda one: one[1].id, lambda one: (one[0],))
        counts["parked"] += await _count(store.find_parked, query, lambda one: one.timer.id, lambda one: (one.number,))
        counts["answers"] += await _count(
            lambda page, store=store: store.find_answers(page, now=now),
            query,
            lambda one: one[0],
            lambda one: (*one[0], one[1].key),
        )
    return counts


async def each_chosen(stores: Sequence[Store], choice: ObjectChoice) -> AsyncGenerator[ObjectId, None]:
    """Their ids, a page at a time. One that is named comes in any case: whether it is there its owner says."""
    if choice.key is not None:
        yield ObjectId(str(choice.cls), choice.key)
        return
    for store in stores:
        async for info in _each(store.find_objects, choice.query(), lambda info: tuple(info.id)):
            if not info.id.cls.startswith(RESERVED):
                yield info.id


async def _count(find: Any, query: Query, id_of: Callable[[Any], ObjectId], place_of: Callable[[Any], Any]) -> int:
    return sum([1 async for one in _each(find, query, place_of) if not id_of(one).cls.startswith(RESERVED)])


async def _each(find: Any, query: Query, place_of: Callable[[Any], tuple[Any, ...]]) -> AsyncGenerator[Any, None]:
    """All that there is, read page by page, beside the loop where the store is in this process."""
    while True:
        aside = ASIDE.set(True)
        try:
            page = await find(query)
        finally:
            ASIDE.reset(aside)
        for one in page:
            yield one
        if len(page) < PAGE:
            return
        query = replace(query, after=place_of(page[-1]))


async def _redact(send: Send, choice: ObjectChoice) -> None:
    """What operators did to them stays on record, and to whom does not."""
    name, place = await choice.pseudonym(send), ""
    while place is not None:
        place = await send(LOG, "redact", (place, tuple(choice), name), {})
