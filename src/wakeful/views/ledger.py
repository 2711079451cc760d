"""Layer 5. What came of the timers, and of the occurrences of schedules: run, failed, left out, and why?"""

import asyncio
from typing import NamedTuple, TypedDict, cast

from wakeful.jobs.ids import KEYED, method_in
from wakeful.policy.plan import spec_of
from wakeful.schedules.nights import local_time, zone_name
from wakeful.schedules.queries import parked_of, record_of, runs_since, verdicts_at
from wakeful.schedules.records import backfill_times, decode_lane, lane_name
from wakeful.schedules.words import About, because, fate
from wakeful.store.protocol import Query, Views
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Run
from wakeful.values.times import from_datetime
from wakeful.views.pages import ENTRIES, ViewPage, find
from wakeful.views.plain import Instant, OfObject, iso, iso_of
from wakeful.views.timer_names import kind_of, name_words, schedule_named
from wakeful.views.view import View, is_shown


class PlainEntry(OfObject):
    """A row of the ledger in the terms of JSON."""

    number: int
    timer: str
    words: str
    schedule: str | None
    verdict: str
    covers: int
    nominal_at: Instant
    fired_at: Instant
    finished_at: Instant
    lateness_ms: int
    attempt: int
    error: str | None
    run_id: str
    node: str


async def page(
    view: View,
    id: ObjectId | None = None,
    name: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    cls: str | None = None,
    prefix: str | None = None,
) -> ViewPage[PlainEntry]:
    """Rows of the ledger, newest first: all, or of an object, a class, keys that begin so, a timer of that name."""
    cls, key = (cls, None) if id is None else id
    query = Query(cls=cls, key=key, key_prefix=prefix, name=name)
    found = await find(
        view, ENTRIES, query, limit=limit, cursor=cursor, keep=lambda row: is_shown(row[1].id.cls, query.cls)
    )
    return ViewPage(await view.each(lambda row: plain_entry(row[1], view.mask(row[0])), found.rows), found.cursor)


def plain_entry(entry: Entry, number: int) -> PlainEntry:
    """What came of one attempt, or of several occurrences that did not run."""
    return {
        "number": number,
        "class": entry.id.cls,
        "key": entry.id.key,
        "timer": entry.name,
        "words": _words(entry),
        "schedule": schedule_named(entry.name),
        "verdict": entry.verdict,
        "covers": entry.covers,
        "nominal_at": iso(entry.nominal_at),
        "fired_at": iso(entry.fired_at),
        "finished_at": iso(entry.finished_at),
        "lateness_ms": entry.fired_at - entry.nominal_at,
        "attempt": entry.attempt,
        "error": entry.error,
        "run_id": entry.run_id,
        "node": entry.node,
    }


def _words(entry: Entry) -> str:
    """The timer's name for people; of a job with a key the method too, which only its rows have."""
    words = name_words(entry.name)
    method = method_in(entry.name, entry.run_id) if entry.name.startswith(KEYED) else ""
    return f"{words}, {method}" if method else words


# What came of occurrences, each with its reason: of those that were, and of those that a backfill would run.

LANES_MAX = 1_000  # timers of one schedule that are looked through; it has as many at once as it may run in parallel


class PlainRun(TypedDict):
    """A verdict in the terms of JSON."""

    nominal_at: Instant
    local: str
    fired_at: Instant
    finished_at: Instant | None
    lateness_ms: int
    attempt: int
    verdict: str
    why: str
    covers: int
    first_at: Instant | None
    missed: int
    is_backfill: bool
    error: str | None
    run_id: str


def plain_run(run: Run, about: About) -> PlainRun:
    """One verdict, and why."""
    at = from_datetime(run.nominal_at)
    return {
        "nominal_at": iso(at),
        "local": local_time(at, about.zone).isoformat(),
        "fired_at": iso_of(run.fired_at),
        "finished_at": iso_of(run.finished_at),
        "lateness_ms": from_datetime(run.fired_at) - at,
        "attempt": run.attempt,
        "verdict": cast("str", run.verdict),  # what is in the ledger has one
        "why": because(run, about),
        "covers": run.covers,
        "first_at": iso_of(run.first_at),
        "missed": run.missed,
        "is_backfill": run.is_backfill,
        "error": run.error,
        "run_id": run.id,
    }


class Stretch(NamedTuple):
    """What a backfill means: which occurrences that have been due, and what the ledger knows of them."""

    zone: str
    first: int
    last: int
    times: list[int]
    about: About
    has_ahead: bool  # the range goes on past now: what is still to come runs by itself


async def stretch(view: View, id: ObjectId, name: str, first: int, last: int) -> Stretch:
    """The schedule's occurrences from `first` up to but not at `last`, until now; `UnknownSchedule` when there is none."""
    store = view.store_of(id)
    record = await record_of(store, id, name)
    zone = zone_name(spec_of(record.version.spec))
    due = view.now() + 1  # the end of what a backfill runs
    # Thousands of times take longer than timers may wait; the loop goes on meanwhile.
    times = await asyncio.to_thread(backfill_times, name, record, first, min(last, due))
    runs = await runs_since(store, id, name, first)
    return Stretch(zone, first, last, times, About(record, runs, await parked_of(store, id, name)), last > due)


class Underway(NamedTuple):
    """A backfill that is not over: how many of its occurrences are behind it, of how many, and which is next."""

    behind: int
    total: int
    next_at: int

    @property
    def ahead(self) -> int:
        return self.total - self.behind

    def is_of(self, times: list[int]) -> bool:
        """These are the occurrences that it runs."""
        return len(times) == self.total and times[self.behind] == self.next_at


async def backfills(store: Views, id: ObjectId, name: str) -> dict[str, Underway]:
    """The backfills of the schedule that are under way, by the name of their timer."""
    lanes = Query(cls=id.cls, key=id.key, name_prefix=lane_name(name, ""), limit=LANES_MAX)
    found = {}
    for timer in await store.find_timers(lanes):
        if schedule_named(timer.name) == name and kind_of(timer) == "backfill":
            lane = decode_lane(timer.payload)
            found[timer.name] = Underway(lane.index, lane.total, timer.nominal_at)
    return found


class PlainKnown(TypedDict):
    """An occurrence that a backfill would run, in the terms of JSON."""

    nominal_at: Instant
    local: str
    verdict: str | None
    why: str


async def preview(view: View, id: ObjectId, name: str, first: int, last: int) -> list[PlainKnown]:
    """What a backfill would run, each occurrence with the verdict that it has already, if any; wakes nothing."""
    found = await stretch(view, id, name, first, last)
    now = view.now()
    return await asyncio.to_thread(
        lambda: [plain_known(at, run, said, found.zone) for at, run, said in known(found, now)]
    )


def plain_known(at: int, run: Run | None, said: str, zone: str) -> PlainKnown:
    """One occurrence that a backfill would run."""
    return {
        "nominal_at": iso(at),
        "local": local_time(at, zone).isoformat(),
        "verdict": None if run is None else run.verdict,
        "why": said,
    }


def known(found: Stretch, now: int) -> list[tuple[int, Run | None, str]]:
    """Each occurrence with the newest verdict about it, and why; or what there is to say when the ledger has none."""
    record = found.about.record
    assert record is not None
    own = {from_datetime(run.nominal_at): run for run in reversed(found.about.runs)}
    stretches = [run for run in found.about.runs if run.covers > 1]
    rows: list[tuple[int, Run | None, str]] = []
    for at in found.times:
        run = own.get(at) or next(iter(verdicts_at(stretches, at)), None)
        if run is not None:
            said = because(run, found.about)
        elif at <= record.versions[0].since:
            said = "before the schedule was made"
        else:
            said = fate(record, at, now)
        rows.append((at, run, said))
    return rows
