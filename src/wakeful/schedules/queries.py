"""Layer 4. What do an object's schedules look like from outside, without waking it?"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from wakeful.schedules.records import (
    META,
    PREFIX,
    Counters,
    Record,
    Schedule,
    count_out,
    decode_meta,
    decode_record,
    lane_name,
    slot_of,
    timer_name,
)
from wakeful.schedules.schedules import next_times
from wakeful.schedules.words import About
from wakeful.store.protocol import Query, Range, Store, Views
from wakeful.values.codec import decode_loosely
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import UnknownSchedule
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.values.timers import Run
from wakeful.values.times import to_datetime

PAGE = 500
CLOCK_STEP_MS = 86_400_000
CONTEXT = 100


async def records_of(store: Store, id: ObjectId) -> dict[str, Record]:
    """Every schedule of the object as it is on disk, by name."""
    rows = await store.scan(id, SYSTEM, Range(f"{PREFIX}:", f"{PREFIX};"))
    return {key.partition(":")[2]: decode_record(data, f"{id} {key}") for key, data in rows}


async def record_of(store: Store, id: ObjectId, name: str) -> Record:
    """One schedule; `UnknownSchedule` says which there are."""
    found = await store.read(id, SYSTEM, [slot_of(name)[1]])
    if not found:
        names = ", ".join(list(await records_of(store, id))[:10])
        raise UnknownSchedule(f"{id} has no schedule {name!r}; it has {names or 'none'}")
    record = decode_record(found[slot_of(name)[1]], f"{id} {name}")
    pieces = count_out(record)
    for _ in pieces:
        await asyncio.to_thread(list, pieces)  # all the others
    return record


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


async def objects_of(store: Views, tenant: str) -> AsyncIterator[ObjectId]:
    """The tenant's objects, of every class, but for those that Wakeful keeps itself."""
    for query in (Query(key=tenant, limit=PAGE), Query(key_prefix=f"{tenant}/", limit=PAGE)):
        page = await store.find_objects(query)
        while page:
            for info in page:
                if not info.id.cls.startswith(RESERVED):
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
    record: Record
    context: list[Run]  # those runs and some before them, which may be why one of them did not run
    parked: dict[str, int]  # run id → number, of occurrences that wait for a person

    @property
    def about(self) -> About:
        """For `because`, which says it in words."""
        return About(self.record, self.context, self.parked)


async def why(store: Store, id: ObjectId, name: str, *, now: int, limit: int = 20) -> Why:
    """The schedule, its latest verdicts, and what comes."""
    record = await record_of(store, id, name)
    runs = await runs_of(store, id, name, limit=limit + CONTEXT)
    parked = await parked_of(store, id, name)
    return Why(as_schedule(name, record, now), runs[:limit], next_times(record, now, 5), record, runs, parked)


async def runs_of(store: Views, id: ObjectId, name: str, *, limit: int) -> list[Run]:
    """The latest verdicts, newest first; also of a schedule that is gone."""
    found = await store.find_entries(Query(cls=id.cls, key=id.key, name=timer_name(name), limit=limit))
    return [Run.of(entry) for _, entry in found]


async def runs_since(store: Views, id: ObjectId, name: str, since: int) -> list[Run]:
    """Every verdict in the ledger about occurrences from that time on, newest first."""
    runs: list[Run] = []
    after: tuple[object, ...] | None = None
    while True:
        query = Query(cls=id.cls, key=id.key, name=timer_name(name), limit=PAGE, after=after)
        page = await store.find_entries(query)
        runs += [Run.of(entry) for _, entry in page if entry.nominal_at >= since]
        # Nothing gets its verdict before its time, so rows written earlier, with room for a clock that was set back, are not about it.
        if len(page) < PAGE or page[-1][1].fired_at < since - CLOCK_STEP_MS:
            return runs
        after = (page[-1][0],)


def verdicts_at(runs: list[Run], at: int) -> list[Run]:
    """Those of the runs that are about the occurrence of that instant: its own rows, else the stretch that it is in."""
    when = to_datetime(at)
    own = [run for run in runs if run.nominal_at == when]
    return own or [run for run in runs if run.covers > 1 and run.first_at and run.first_at <= when < run.nominal_at]


async def parked_of(store: Views, id: ObjectId, name: str) -> dict[str, int]:
    """The numbers of the schedule's parked occurrences, by run id."""
    query = Query(cls=id.cls, key=id.key, name_prefix=lane_name(name, ""), limit=PAGE)
    return {parked.run_id: parked.number for parked in await store.find_parked(query)}


def as_schedule(name: str, record: Record, now: int) -> Schedule:
    """The record, for people who may not have the program's types."""
    metadata = record.options.metadata
    plain = msgspec.structs.replace(record, options=msgspec.structs.replace(record.options, metadata=None))
    found = Schedule.of(name, plain, now)
    return found if metadata is None else replace(found, metadata=decode_loosely(metadata))
