"""Layer 4. What do an object's schedules look like from outside, without waking it?"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from wakeful.schedules.counters import Counters
from wakeful.schedules.records import META, PREFIX, Record, decode_meta, decode_record, slot_of, timer_name
from wakeful.schedules.schedule import Schedule
from wakeful.schedules.schedules import next_times
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import UnknownSchedule
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Run

PAGE = 500


async def records_of(store: Store, id: ObjectId) -> dict[str, Record]:
    """Every schedule of the object as it is on disk, by name."""
    rows = await store.scan(id, SYSTEM, Range(f"{PREFIX}:", f"{PREFIX};"))
    return {key.partition(":")[2]: decode_record(data, f"{id} {key}") for key, data in rows}


async def schedules_of(store: Store, id: ObjectId, now: int) -> list[Schedule]:
    return [Schedule.of(name, record, now) for name, record in (await records_of(store, id)).items()]


async def record_of(store: Store, id: ObjectId, name: str) -> Record:
    """One schedule; `UnknownSchedule` says which there are."""
    found = await store.read(id, SYSTEM, [slot_of(name)[1]])
    if not found:
        names = ", ".join(list(await records_of(store, id))[:10])
        raise UnknownSchedule(f"{id} has no schedule {name!r}; it has {names or 'none'}")
    return decode_record(found[slot_of(name)[1]], f"{id} {name}")


async def counters_of(store: Store, id: ObjectId) -> Counters:
    """The sums over all schedules that the object has and had."""
    meta = (await store.read(id, SYSTEM, [META[1]])).get(META[1])
    total = decode_meta(meta).gone
    for record in (await records_of(store, id)).values():
        total.add(record.counters)
    return total


async def counters_of_tenant(store: Store, tenant: str) -> Counters:
    """The sums over all objects whose key is the tenant, or begins with it and a slash."""
    total = Counters()
    async for id in objects_of(store, tenant):
        total.add(await counters_of(store, id))
    return total


async def objects_of(store: Store, tenant: str) -> AsyncIterator[ObjectId]:
    """The tenant's objects, of every class, but for those that Wakeful keeps itself."""
    for query in (Query(key=tenant, limit=PAGE), Query(key_prefix=f"{tenant}/", limit=PAGE)):
        page = await store.find_objects(query)
        while page:
            for info in page:
                if not info.id.cls.startswith("wakeful."):
                    yield info.id
            last = page[-1].id
            after = Query(key=query.key, key_prefix=query.key_prefix, limit=PAGE, after=(last.cls, last.key))
            page = await store.find_objects(after) if len(page) == PAGE else []


@dataclass(frozen=True, slots=True)
class Why:
    """Everything there is to say about why a schedule ran or did not."""

    schedule: Schedule
    runs: list[Run]  # newest first
    next: list[datetime]


async def why(store: Store, id: ObjectId, name: str, *, now: int, limit: int = 20) -> Why:
    """The schedule, its latest verdicts, and what comes."""
    record = await record_of(store, id, name)
    found = await store.find_entries(Query(cls=id.cls, key=id.key, name=timer_name(name), limit=limit))
    return Why(Schedule.of(name, record, now), [Run.of(entry) for _, entry in found], next_times(record, now, 5))
