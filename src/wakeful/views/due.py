"""Layer 5. What fires next, which timers run now, and which wait because processes died while they ran?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wakeful.jobs.ids import PREFIX as JOB
from wakeful.jobs.ids import job_id
from wakeful.policy.retry import CRASHES_MAX
from wakeful.schedules.records import PREFIX, decode_record, schedule_of, slot_of
from wakeful.store.protocol import Query, Store
from wakeful.values.commits import SYSTEM
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer, run_id
from wakeful.values.times import LATEST_MS
from wakeful.views.nodes import state_of
from wakeful.views.pages import TIMERS, RowPage, ViewPage, find
from wakeful.views.plain import Instant, OfObject, iso
from wakeful.views.timer_names import kind_of, schedule_named, timer_words
from wakeful.views.view import View, is_shown

# Which timers run now, and which wait because processes died while they ran?
#
# By what the store has: a start note of the present owner's epoch is of one that runs, and one of an epoch before it was
# left by a process that died. Those are tried a few at a time, or alone, and later ones of their objects wait for them.

HEAD = 1_000  # timers that are looked at in search of the one that is tried: it was due before most others


@dataclass
class Line:
    """Those that run, and why others wait, of the timers that were asked about."""

    running: set[Timer] = field(default_factory=set)
    waits: dict[Timer, str] = field(default_factory=dict)
    tried: dict[str, Timer] = field(default_factory=dict)  # by node: the one that those in its line wait for
    owners: dict[Timer, str] = field(default_factory=dict)  # the nodes in whose lines they wait


async def line_of(store: Store, timers: Sequence[Timer], now: int, *, is_named: bool = True) -> Line:
    """How these stand; not `is_named`: without saying which one they wait for, to somebody who may not know."""
    line = Line()
    if not any(timer.started for timer in timers):
        return line
    owners = {row.shard: (row.owner, row.epoch) for row in await store.owners() if row.owner is not None}
    time = await store.time()
    # In a store of one process the lock says who lives, and a lease nothing.
    rows = await store.nodes() if store.shared else []
    gone = {row.node for row in rows if state_of(row, now if time is None else time) == "gone"}

    def owner_of(timer: Timer) -> str | None:
        return owners.get(shard_of(timer.id), (None, 0))[0]

    def is_running(timer: Timer) -> bool:
        owner, epoch = owners.get(shard_of(timer.id), (None, 0))
        return timer.started == epoch and owner is not None and owner not in gone

    died = [timer for timer in timers if timer.started and not is_running(timer)]
    line.running = {timer for timer in timers if timer.started and is_running(timer)}
    if not died:
        return line
    for timer in sorted(await store.find_timers(Query(limit=HEAD)), key=lambda one: -one.crashes):
        owner = owner_of(timer)
        if owner is not None and timer.crashes and timer.started and is_running(timer):
            line.tried.setdefault(owner, timer)
    first: dict[ObjectId, Timer] = {}
    for timer in died:
        owner = owner_of(timer)
        lives = owner is not None and owner not in gone
        line.waits[timer] = _words(timer, line.tried.get(owner or ""), is_named=is_named) if lives else _death(timer)
        if lives and owner is not None:
            line.owners[timer] = owner
        if timer.id not in first or timer.sort_key < first[timer.id].sort_key:
            first[timer.id] = timer
    for timer in timers:
        before = first.get(timer.id)
        if before is not None and before.sort_key < timer.sort_key and timer not in line.waits and timer.due_at <= now:
            line.waits[timer] = f"behind {timer_words(before)} of its object"
            line.running.discard(timer)
            if before in line.owners:
                line.owners[timer] = line.owners[before]
    return line


def _death(timer: Timer) -> str:
    often = {1: "", 2: " twice"}.get(timer.crashes + 1, f" {timer.crashes + 1} times")
    return f"its process died{often} while it ran or waited"


def _words(timer: Timer, tried: Timer | None, *, is_named: bool) -> str:
    deaths = timer.crashes + 1
    if deaths >= CRASHES_MAX:
        return f"{_death(timer)}: it is about to be parked"
    how = "tried one at a time" if deaths == CRASHES_MAX - 1 else "tried a few at a time"
    who = "" if tried is None else f", behind {tried.id} {timer_words(tried)}" if is_named else ", behind another"
    return f"{_death(timer)}: {how}{who}"


class DueRow(NamedTuple):
    """A timer, why it won't run what it is set for or not yet, if so: `paused`, `waits for 'x'`; and whether it runs."""

    timer: Timer
    held_by: str | None
    is_running: bool


class PlainTimer(OfObject):
    """A timer in the terms of JSON."""

    timer: str
    words: str
    schedule: str | None
    kind: str | None
    job: str | None
    due_at: Instant
    nominal_at: Instant
    attempt: int
    crashes: int
    is_running: bool
    run_id: str
    held_by: str | None


async def page(
    view: View,
    cls: str | None = None,
    key: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    prefix: str | None = None,
    name: str | None = None,
    name_prefix: str | None = None,
) -> ViewPage[PlainTimer]:
    """Timers in firing order, overdue ones first; `prefix` is of the object's key, `name` of the timer."""
    query = Query(cls=cls, key=key, key_prefix=prefix, name=name, name_prefix=name_prefix)
    found = await rows(view, query, limit, cursor)
    return ViewPage(await view.each(plain_row, found.rows), found.cursor)


async def rows(view: View, query: Query, limit: int = 50, cursor: str | None = None) -> RowPage[DueRow]:
    """The same before they are plain."""
    found = await find(
        view, TIMERS, query, limit=limit, cursor=cursor, keep=lambda timer: is_shown(timer.id.cls, query.cls)
    )
    is_all = query.key is None and query.key_prefix is None  # else others may be none of their business
    return RowPage(await stand(view, found.rows, is_named=is_all), found.cursor)


async def stand(view: View, timers: Sequence[Timer], *, is_named: bool) -> list[DueRow]:
    """How each of them stands; not `is_named`: without the names of other objects' timers that it waits for."""
    held, running = await held_by(view, timers), set[Timer]()
    for store in view.stores:
        own = [timer for timer in timers if view.store_of(timer.id) is store]
        found = await line_of(store, own, view.now(), is_named=is_named)
        running |= found.running
        held |= found.waits
    return [DueRow(timer, held.get(timer), timer in running) for timer in timers]


async def held_by(view: View, timers: Iterable[Timer]) -> dict[Timer, str]:
    """Those that won't run what they are set for, and why: `paused`, `waits for 'x'`, or `waits for other jobs`."""
    by_object: dict[ObjectId, dict[str, Timer]] = {}
    held: dict[Timer, str] = {}
    for timer in timers:
        if timer.due_at > LATEST_MS:
            held[timer] = "waits for other jobs"
        elif timer.name.startswith(f"{PREFIX}:"):
            by_object.setdefault(timer.id, {})[slot_of(schedule_of(timer.name)[0])[1]] = timer
    reads = await view.together(view.store_of(id).read(id, SYSTEM, list(slots)) for id, slots in by_object.items())
    now = view.now()
    for (id, slots), rows in zip(by_object.items(), reads, strict=True):
        for slot, data in rows.items():
            timer, record = slots[slot], decode_record(data, f"{id} {slot}")
            if record.timeline.is_paused(max(timer.nominal_at, now)):
                held[timer] = "paused"
            elif record.waits_for is not None:
                held[timer] = f"waits for {record.waits_for!r}"
    return held


def plain_row(row: DueRow) -> PlainTimer:
    """One timer of a list."""
    timer = row.timer
    return {
        "class": timer.id.cls,
        "key": timer.id.key,
        "timer": timer.name,
        "words": timer_words(timer),
        "schedule": schedule_named(timer.name),
        "kind": kind_of(timer),
        "job": job_id(timer.id, timer.name) if timer.name.startswith(f"{JOB}:") else None,
        "due_at": iso(timer.due_at),
        "nominal_at": iso(timer.nominal_at),
        "attempt": timer.attempt,
        "crashes": timer.crashes,
        "is_running": row.is_running,
        "run_id": run_id(timer),
        "held_by": row.held_by,
    }
