"""Layer 5. Which schedules are there, how do they stand, and why did their occurrences run or not?"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypedDict, cast

from wakeful.policy.plan import spec_of
from wakeful.schedules.queries import as_schedule, parked_of, record_of, runs_of
from wakeful.schedules.records import PREFIX, Record, Schedule, decode_record, schedule_of, slot_of, standing_of
from wakeful.schedules.schedules import next_times
from wakeful.schedules.words import About, standing
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import BadOption, UnknownSchedule
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Run
from wakeful.views import arguments
from wakeful.views.due import HEAD, line_of
from wakeful.views.ledger import PlainRun, plain_run
from wakeful.views.pages import (
    LIMIT_MAX,
    OBJECTS,
    TIMERS,
    ViewPage,
    bad_cursor,
    check_limit,
    check_place,
    find,
    open_cursor,
    write_cursor,
)
from wakeful.views.plain import Instant, OfObject, iso, iso_of, plain
from wakeful.views.timer_names import schedule_named
from wakeful.views.view import READS_MAX, View, is_shown

STATES = ("active", "paused", "waiting", "done", "retired")
CHUNK = 200  # schedules that are read at once
CHUNK_THINNED = 1_000
OBJECTS_MAX = 2_000  # that a page of ended schedules looks through
LOOKS_MAX = 2_000  # schedules that a page looks at when tag or state leave most of them out: a tenth of a second
CONTEXT = 100  # runs before those that are shown, which may be why one of these did not run
_KIND = "schedules"


class ScheduleRow(NamedTuple):
    """One schedule and the latest thing that is known of it."""

    id: ObjectId
    schedule: Schedule
    record: Record
    last: Run | None


class PlainVerdict(TypedDict):
    """The verdict that was given last, and when: of a backfill's run that is not the latest occurrence."""

    nominal_at: Instant
    fired_at: Instant
    verdict: str
    is_backfill: bool


class PlainSchedule(OfObject):
    """A schedule in the terms of JSON."""

    schedule: str
    spec: str
    words: str
    state: str
    note: str
    paused_until: Instant | None
    waits_for: str | None
    handler: str
    is_declared: bool
    version: int
    next_at: Instant | None
    tags: list[str]
    metadata: Any
    arguments: arguments.PlainArguments
    catch_up: str
    depends_on: list[str]
    last: PlainVerdict | None
    counters: dict[str, Any]


class PlainStanding(OfObject):
    """How a schedule stands, in the terms of JSON: this at least, and what its record has while it is there."""

    schedule: str
    state: str
    zone: str
    verdicts: list[PlainRun]


class SchedulePage(NamedTuple):
    """Schedules, and where the next page begins."""

    rows: list[ScheduleRow]
    cursor: str | None


class ScheduleFilter(NamedTuple):
    """Which schedules somebody asks for; None does not filter."""

    cls: str | None = None
    key: str | None = None
    tag: str | None = None
    state: str | None = None
    contains: str | None = None  # in the schedule's name or the object's key, whatever the case
    prefix: str | None = None  # of the objects' keys

    def check(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise BadOption(f"state {self.state!r}: there are {', '.join(STATES)}", code="schedule.state")
        if self.key is not None and self.cls is None:
            raise BadOption("key without cls: keys are per class", code="schedule.list")

    def names(self, id: ObjectId, name: str) -> bool:
        """Whether it may be wanted, as far as the names say."""
        if not is_shown(id.cls, self.cls):
            return False
        if self.contains is None:
            return True
        text = self.contains.casefold()
        return text in name.casefold() or text in id.key.casefold()

    def has(self, record: Record, now: int) -> bool:
        return self.tag in (None, *record.options.tags) and self.state in (None, standing_of(record, now))


async def page(
    view: View,
    cls: str | None = None,
    key: str | None = None,
    tag: str | None = None,
    state: str | None = None,
    contains: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    prefix: str | None = None,
) -> ViewPage[PlainSchedule]:
    """Of one object by name; else those that have a next time, soonest first, then the ended ones by object.

    A page of a list that tag or state thin out may be short; it is over when it has no cursor.
    """
    found = await rows(view, ScheduleFilter(cls, key, tag, state, contains, prefix), limit, cursor)
    return ViewPage(await view.each(lambda row: plain_row(view, row), found.rows), found.cursor)


async def rows(view: View, wanted: ScheduleFilter, limit: int = 50, cursor: str | None = None) -> SchedulePage:
    """The same before they are plain."""
    check_limit(limit)
    wanted.check()
    phase, inner = ("", None) if cursor is None else _phase_of(view, cursor)
    if wanted.cls is not None and wanted.key is not None:
        if not wanted.key.startswith(wanted.prefix or ""):
            return SchedulePage([], None)  # not even a cursor, which would name a schedule of another tenant
        schedules, inner = await _of_object(view, ObjectId(wanted.cls, wanted.key), wanted, limit, inner)
        return await _with_verdicts(view, schedules, "object", inner)
    schedules = []
    if phase in ("", "timed"):
        schedules, inner = await _with_times(view, wanted, limit, inner) if wanted.state in _TIMED else ([], None)
        if inner is not None:
            return await _with_verdicts(view, schedules, "timed", inner)
        if wanted.state not in _ENDED:
            return await _with_verdicts(view, schedules, "timed", None)
        if len(schedules) == limit:
            return await _with_verdicts(view, schedules, "ended", "")
    some, inner = await _without_times(view, wanted, limit - len(schedules), inner or None)
    return await _with_verdicts(view, schedules + some, "ended", inner)


_TIMED = (None, "active", "paused", "waiting")
_ENDED = (None, "done", "retired", "paused", "waiting")  # some that wait have no next time

_Seen = tuple[ObjectId, str, Record]


def _phase_of(view: View, cursor: str) -> tuple[str, str | None]:
    places = open_cursor(view, cursor, _KIND)
    if len(places) != 2 or places[0] not in ("object", "timed", "ended") or not isinstance(places[1], str):
        raise bad_cursor(cursor)
    return places[0], places[1]


def is_among_ended(view: View, cursor: str) -> bool:
    """Whether the page that begins there has those without a next time, for which object after object is looked at."""
    return _phase_of(view, cursor)[0] == "ended"


async def _with_verdicts(view: View, found: list[_Seen], phase: str, inner: str | None) -> SchedulePage:
    """The schedules with the latest verdict of each."""
    now = view.now()
    lasts = await view.together(runs_of(view.store_of(id), id, name, limit=1) for id, name, _ in found)
    some = [
        ScheduleRow(id, as_schedule(name, record, now), record, runs[0] if runs else None)
        for (id, name, record), runs in zip(found, lasts, strict=True)
    ]
    return SchedulePage(some, None if inner is None else write_cursor(view, _KIND, [phase, inner]))


async def _of_object(
    view: View, id: ObjectId, wanted: ScheduleFilter, limit: int, after: str | None
) -> tuple[list[_Seen], str | None]:
    """An object's own, by name; and the name that the page ended with if there are more."""
    store, now = view.store_of(id), view.now()
    if after is not None:
        check_place([after], (str,), after)
    schedules: list[_Seen] = []
    first = f"{PREFIX}:" if after is None else f"{PREFIX}:{after}\0"
    while True:
        rows = await store.scan(id, SYSTEM, Range(first, f"{PREFIX};", limit=CHUNK))
        for slot, data in rows:
            name = slot.partition(":")[2]
            if wanted.names(id, name) and wanted.has(record := decode_record(data, f"{id} {slot}"), now):
                if len(schedules) == limit:
                    return schedules, schedules[-1][1]
                schedules.append((id, name, record))
        if len(rows) < CHUNK:
            return schedules, None
        first = f"{rows[-1][0]}\0"
        await view.breathe()


async def count_of(view: View, id: ObjectId, wanted: ScheduleFilter) -> int:
    """How many schedules of the object are wanted."""
    found, _ = await _of_object(view, id, wanted, LIMIT_MAX, None)
    return len(found)


async def _with_times(
    view: View, wanted: ScheduleFilter, limit: int, cursor: str | None
) -> tuple[list[_Seen], str | None]:
    """Those with a timer, in firing order."""
    query = Query(cls=wanted.cls, key_prefix=wanted.prefix, name_prefix=f"{PREFIX}:")
    timed: list[_Seen] = []
    now, looks_left = view.now(), LOOKS_MAX
    is_thinned = wanted.tag is not None or wanted.state is not None
    while True:
        # Where most are left out many are read at once; if more fit than the page has room for, those are read again.
        chunk = CHUNK_THINNED if is_thinned else min(limit - len(timed), CHUNK)
        timers = await find(
            view,
            TIMERS,
            query,
            limit=chunk,
            cursor=cursor,
            keep=lambda timer: wanted.names(timer.id, schedule_of(timer.name)[0]),
        )
        records = await records_named(view, [(timer.id, schedule_of(timer.name)[0]) for timer in timers.rows])
        fitting = [one for one in records if one[2].next_at is not None and wanted.has(one[2], now)]
        if len(timed) + len(fitting) > limit:
            is_thinned = False
            continue
        timed += fitting
        cursor = timers.cursor
        looks_left -= len(timers.rows)
        # Fewer than asked for, and more to come: names left out as many as a page looks at.
        if cursor is None or len(timed) == limit or looks_left <= 0 or len(timers.rows) < chunk:
            return timed, cursor


async def records_named(view: View, names: Iterable[tuple[ObjectId, str]]) -> list[_Seen]:
    """The records of these that are still there, in their order."""
    by_object: dict[ObjectId, list[str]] = {}
    ordered = list(names)
    for id, name in ordered:
        by_object.setdefault(id, []).append(slot_of(name)[1])
    answers = await view.together(view.store_of(id).read(id, SYSTEM, slots) for id, slots in by_object.items())
    read = {(id, slot): data for id, answer in zip(by_object, answers, strict=True) for slot, data in answer.items()}
    return [
        (id, name, decode_record(read[id, slot_of(name)[1]], f"{id} {name}"))
        for id, name in ordered
        if (id, slot_of(name)[1]) in read
    ]


async def _without_times(
    view: View, wanted: ScheduleFilter, limit: int, cursor: str | None
) -> tuple[list[_Seen], str | None]:
    """Those without a timer, by object and name; a page looks through a bounded number of objects."""
    query = Query(cls=wanted.cls, key_prefix=wanted.prefix)
    ended: list[_Seen] = []
    now, looks_left = view.now(), OBJECTS_MAX
    begin, after = (None, None) if cursor is None else _place(cursor)
    while True:
        objects = await find(
            view, OBJECTS, query, limit=READS_MAX, cursor=begin, keep=lambda info: is_shown(info.id.cls, wanted.cls)
        )
        span = Range(f"{PREFIX}:", f"{PREFIX};")
        ids = [info.id for info in objects.rows if after is None or _order(info.id) >= after[:2]]
        scans = await view.together(view.store_of(id).scan(id, SYSTEM, span) for id in ids)
        for id, rows in zip(ids, scans, strict=True):
            for slot, data in rows:
                name = slot.partition(":")[2]
                if not wanted.names(id, name) or (after is not None and _order(id, name) <= after):
                    continue
                record = decode_record(data, f"{id} {slot}")
                if record.next_at is None and wanted.has(record, now):
                    if len(ended) == limit:
                        return ended, json.dumps([begin, *ended[-1][0], ended[-1][1]])
                    ended.append((id, name, record))
        begin, after = objects.cursor, None
        looks_left -= len(objects.rows)
        if begin is None or len(ended) == limit or looks_left <= 0:
            return ended, None if begin is None else json.dumps([begin])


def _order(id: ObjectId, *names: str) -> tuple[bytes, ...]:
    return (id.cls.encode(), id.key.encode(), *(name.encode() for name in names))


def _place(cursor: str) -> tuple[str | None, tuple[bytes, ...] | None]:
    """Where among the objects a page of ended schedules began to look, and the class, key and name it ended with."""
    try:
        begin, *names = json.loads(cursor)
    except (ValueError, TypeError, RecursionError):
        raise bad_cursor(cursor) from None
    if not (begin is None or isinstance(begin, str)):
        raise bad_cursor(cursor)
    if not names:
        return begin, None
    cls, key, name = check_place(names, (str, str, str), cursor)
    return begin, _order(ObjectId(cls, key), name)


async def show(view: View, id: ObjectId, name: str, *, limit: int = 10, upcoming: int = 10) -> dict[str, Any]:
    """How a schedule stands, its next times, and why its latest occurrences ran or did not; newest first.

    `UnknownObject` or `UnknownSchedule` when there is no such; one that is gone is told from what the ledger has.
    """
    store, now = view.store_of(id), view.now()
    await view.info(id)
    about = await about_of(store, id, name, limit=limit)
    answer: dict[str, Any] = {"class": id.cls, "key": id.key, "schedule": name, "state": "gone", "zone": about.zone}
    record = about.record
    answer["standing"] = standing(record, now)
    if record is not None:
        pause = record.pause_at(now) if record.state == "active" else None
        row = ScheduleRow(id, as_schedule(name, record, now), record, about.runs[0] if about.runs else None)
        answer |= plain_row(view, row)
        answer["arguments"] = await arguments.show(view, record.options.args)
        answer["paused_since"] = iso(pause.since) if pause is not None else None
        answer["overlap"] = record.options.policy.overlap
        answer["max_attempts"] = record.options.retry.max_attempts
        answer["versions"] = [
            {
                "number": version.number,
                "spec": version.spec,
                "words": spec_of(version.spec).describe(),
                "since": iso(version.since),
                "until": iso(version.until),
            }
            for version in record.versions
        ]
        answer["next"] = [iso_of(when) for when in next_times(record, now, upcoming)]
    answer["held_by"] = await line_words(view, id, name)
    answer["verdicts"] = [plain_run(run, about) for run in about.runs[:limit]]
    return answer


async def line_words(view: View, id: ObjectId, name: str, *, is_named: bool = False) -> str | None:
    """Why what is due of it waits though it could run: processes died while it ran; None when it doesn't wait."""
    store = view.store_of(id)
    first = await store.find_timers(Query(cls=id.cls, key=id.key, limit=HEAD))  # those before it in its object too
    line = await line_of(store, first, view.now(), is_named=is_named)
    return next((why for timer, why in line.waits.items() if schedule_named(timer.name) == name), None)


async def about_of(store: Store, id: ObjectId, name: str, *, limit: int) -> About:
    """What there is to explain its verdicts by; `UnknownSchedule` when neither it nor its ledger is there."""
    try:
        record = await record_of(store, id, name)
    except UnknownSchedule:
        runs = await runs_of(store, id, name, limit=limit)
        if not runs:
            raise
        return About(None, runs)
    runs = await runs_of(store, id, name, limit=limit + CONTEXT)
    return About(record, runs, await parked_of(store, id, name))


def plain_row(view: View, row: ScheduleRow) -> PlainSchedule:
    """One schedule of a list."""
    schedule, last = row.schedule, row.last
    return {
        "class": row.id.cls,
        "key": row.id.key,
        "schedule": schedule.name,
        "spec": schedule.text,
        "words": schedule.spec.describe(),
        "state": schedule.state,
        "note": schedule.note,
        "paused_until": iso_of(schedule.paused_until),
        "waits_for": schedule.waits_for,
        "handler": schedule.handler,
        "is_declared": schedule.is_declared,
        "version": schedule.version,
        "next_at": iso_of(schedule.next_at),
        "tags": list(schedule.tags),
        "metadata": plain(schedule.metadata),
        "arguments": arguments.brief(view, row.record.options.args),
        "catch_up": schedule.catch_up,
        "depends_on": list(schedule.depends_on),
        "last": None if last is None else plain_verdict(last),
        "counters": plain_counters(row.record),
    }


def plain_verdict(last: Run) -> PlainVerdict:
    """The latest."""
    return {
        "nominal_at": iso_of(last.nominal_at),
        "fired_at": iso_of(last.fired_at),
        "verdict": cast("str", last.verdict),
        "is_backfill": last.is_backfill,
    }


def plain_counters(record: Record) -> dict[str, Any]:
    """The sums over its life."""
    counters = record.counters
    names = ("runs", "failures", "retries", "missed", "skipped", "too_late", "coalesced", "overlap", "paused", "gap")
    return {name: getattr(counters, name) for name in names} | {
        "last_run_at": iso(counters.last_run_at),
        "last_duration_ms": counters.last_duration_ms,
        "last_missed_at": iso(counters.last_missed_at),
        "average_lateness_ms": counters.average_lateness_ms,
        "p99_lateness_ms": counters.p99_lateness_ms,
    }
