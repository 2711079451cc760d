"""Layer 4. How does a job stand, and which are there? Read from the store, without waking anything."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from wakeful.jobs.ids import KEYED, PREFIX, RECORD, ask_prefix, job_id, key_of, parse_id
from wakeful.jobs.job import STATES, Job, Page
from wakeful.jobs.payload import (
    HELD_AT,
    EndedJob,
    JobPayload,
    decode_record,
    is_stopped,
    job_of_entry,
    job_of_parked,
    job_of_record,
    job_of_timer,
    readable_payload,
    record_key,
)
from wakeful.store.protocol import Guard, Obstacle, Query, Store
from wakeful.values.codec import decode
from wakeful.values.commits import Remembered
from wakeful.values.errors import BadOption, UnknownJob
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Parked, Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

T = TypeVar("T")
PAGE = 500
LISTED_RESULT_MAX = 4_096  # bytes of a result that a list of jobs shows; of a larger one only how large it is
RECORDS_PAGE = 64  # records in one read: each may have a result of a mebibyte
APART_MS = 60_000  # more than any two clocks here disagree
READS_MAX = 64  # reads that are on their way at once
PARKED_MAX = 100  # of one name: redriving removes the one before, so there is hardly ever more than one
_SOURCES = ("timers", "parked", "records", "ledger")
_OF_STATE = {
    "scheduled": ("timers",), "waiting": ("timers",), "running": ("timers",), "failed": ("parked",),
    "done": ("records", "ledger"), "cancelled": ("records", "ledger"),
}  # fmt: skip


class Standing(NamedTuple):
    """What the store has of a job."""

    job: Job
    kept: JobPayload | None  # None: only the ledger knows
    timer: Timer | None = None  # it is owed
    parked: Parked | None = None
    is_asked: bool = False  # the timer is an errand that will schedule it
    ended_at: int = 0  # when, of one that only the ledger knows


async def standing(node: "NodeRuntime", id: ObjectId, name: str) -> Standing | None:
    """How the job stands; None when nothing is known of it."""
    # It may move from one place to another between two reads, so what is found nowhere is looked for again.
    return await glance(node, id, name) or await glance(node, id, name)


async def glance(node: "NodeRuntime", id: ObjectId, name: str) -> Standing | None:
    """The same, but one that is owed again since, redriven or replaced, may be missed."""
    node = node.home(id)
    store, here = node.store, Query(cls=id.cls, key=id.key, name=name, limit=1)
    parked_here = Query(cls=id.cls, key=id.key, name=name, limit=PARKED_MAX)
    asked_here = Query(cls=id.cls, key=id.key, name_prefix=ask_prefix(name), limit=PAGE)
    timers = await node.reading(store.find_timers(here))
    if timers and key_of(name) is None:
        return await in_the_way(node, id, name, Obstacle(0, timers[0]))

    async def read(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await node.reading(ask())

    # One trip for all of them, where it is one.
    parked, answer, entries, asks = await asyncio.gather(
        read(lambda: store.find_parked(parked_here)),
        read(lambda: store.recall(id, record_key(name), now=node.clock.now())),
        read(lambda: store.find_entries(here)),
        read(lambda: store.find_timers(asked_here)),
    )
    own = timers[0] if timers else asks[-1] if asks else None
    there = await in_the_way(node, id, name, Obstacle(0, own, parked[-1] if parked else None, answer))
    if entries and (there is None or there.is_asked):
        return Standing(job_of_entry(entries[0][1]), None, ended_at=entries[0][1].finished_at)
    return there


def guard_of(name: str) -> Guard:
    """What must not be there for a job to be inserted under its key: the record of one, or an errand that asks for one."""
    return Guard(record_key(name), ask_prefix(name))


async def in_the_way(node: "NodeRuntime", id: ObjectId, name: str, obstacle: Obstacle) -> Standing | None:
    """The job that has the name, by what there is; None when there is nothing any more."""
    timer, parked, answer = obstacle.timer, obstacle.parked, obstacle.answer
    # A duplicate has not been found out yet, and runs no more: the job is what became of the first.
    if timer is not None and timer.name == name and not _is_beaten(timer, kept := readable_payload(timer), answer):
        return Standing(job_of_timer(timer, is_running=await Epochs(node).run(timer)), kept, timer)
    if parked is not None:
        return Standing(job_of_parked(parked), readable_payload(parked.timer), parked=parked)
    if answer is not None:
        record = decode_record(answer)
        return Standing(job_of_record(id, name, record), record.kept)
    if timer is not None and timer.name != name:
        asked = asked_timer(timer)
        return Standing(
            job_of_timer(asked, is_running=False, is_asked=True), readable_payload(asked), asked, is_asked=True
        )
    return None


async def is_duplicate(node: "NodeRuntime", timer: Timer, kept: JobPayload) -> bool:
    """Its key has had its run: two asked for it at once, and the other was over before this one was inserted."""
    if kept.key is None or kept.is_newest or timer.attempt:
        return False
    return _is_beaten(timer, kept, await node.recall(timer.id, record_key(timer.name)))


def _is_beaten(timer: Timer, kept: JobPayload, record: Remembered | None) -> bool:
    if record is None or kept.key is None or kept.is_newest or timer.attempt:
        return False
    return decode_record(record).kept.token != kept.token


def asked_timer(errand: Timer) -> Timer:
    """The job's timer that an errand will set."""
    name, due_at, nominal_at, seq, priority, payload, _ = decode(errand.payload or b"")
    return Timer(errand.id, name, due_at, nominal_at, seq, priority=priority, payload=payload)


async def get(node: "NodeRuntime", id: object) -> Job:
    """The job, or `UnknownJob`."""
    return (await known(node, *parse_id(id))).job


async def known(node: "NodeRuntime", target: ObjectId, name: str) -> Standing:
    """How the job stands, or `UnknownJob`."""
    found = await standing(node, target, name)
    if found is None:
        raise UnknownJob(f"there is no job {job_id(target, name)}, or it ended so long ago that nothing is kept of it")
    return found


class Epochs:
    """Which timers run right now: those that were begun by the present owner of their shard."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._all: dict[int, int] | None = None

    async def run(self, timer: Timer) -> bool:
        if not timer.started:
            return False
        shard = shard_of(timer.id)
        epoch = self._node.epochs.get(shard)
        if epoch is None:
            if self._all is None:
                owners = await self._node.reading(self._node.store.owners())
                self._all = {row.shard: row.epoch for row in owners if row.owner is not None}
            epoch = self._all.get(shard)
        return timer.started == epoch


class JobFilter(NamedTuple):
    """Which jobs somebody asks for; None does not filter."""

    cls: str | None = None
    key: str | None = None
    name: str | None = None
    state: str | None = None
    key_prefix: str | None = None
    tag: str | None = None
    prefix: str | None = None  # of the objects' keys

    def check(self) -> None:
        for what, value in self._asdict().items():
            if value is not None and not isinstance(value, str):
                raise BadOption(f"{what}={value!r}: jobs are asked for by text", code="job.list")
        if self.state is not None and self.state not in STATES:
            raise BadOption(f"state {self.state!r}: there are {', '.join(STATES)}", code="job.state")
        if self.key is not None and self.cls is None:
            raise BadOption(
                "key without cls: keys are per class; to filter by a job's own key use key_prefix", code="job.list"
            )

    def has(self, job: Job) -> bool:
        return (
            self.name in (None, job.name)
            and self.state in (None, job.state)
            and (self.key_prefix is None or (job.key is not None and job.key.startswith(self.key_prefix)))
            and (self.tag is None or self.tag in job.tags)
        )

    def query(self, before: str, after: tuple[object, ...] | None, limit: int | None = None) -> Query:
        """What the store can filter itself; `before` is what the names begin with."""
        prefix = f"{before}{PREFIX}:" if self.key_prefix is None else f"{before}{KEYED}{self.key_prefix}"
        most = PAGE if limit is None else limit
        return Query(cls=self.cls, key=self.key, key_prefix=self.prefix, name_prefix=prefix, limit=most, after=after)


async def list_jobs(
    node: "NodeRuntime", wanted: JobFilter, *, limit: int, after: str | None, looks_max: int | None = None
) -> Page:
    """The jobs that are wanted: owed ones in firing order, then failed ones, then those of which results are kept.

    Results of more than `LISTED_RESULT_MAX` bytes are left out; `job.left_out` says how many.
    A page that has looked at about `looks_max` rows of a store ends there, however few of them were wanted.
    """
    wanted.check()
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
        raise BadOption(f"limit must be a whole number from 1 to 10000, not {limit!r}", code="job.limit")
    page: list[Job] = []
    last = None
    first, begin = _parse_cursor(after)
    for index, home in enumerate(node.all_homes[first:], first):
        async with aclosing(_walk(home, wanted, begin if index == first else None, looks_max)) as jobs:
            async for place, job in jobs:
                if len(page) == limit:
                    return Page(page, last)
                last = json.dumps([index, *place])
                if job is None:
                    return Page(page, last)
                page.append(job)
    return Page(page)


async def owed_ids(node: "NodeRuntime", wanted: JobFilter) -> list[str]:
    """The ids of all that are owed and wanted."""
    return [id for home in node.all_homes for id in await _owed_ids(home, wanted)]


async def _owed_ids(node: "NodeRuntime", wanted: JobFilter) -> list[str]:
    ids: list[str] = []
    after = None
    while True:
        rows = await _page(node, "timers", wanted, after)
        ids += [job.id for _, job in rows if job is not None and wanted.has(job)]
        if len(rows) < PAGE:
            return ids
        after = tuple(rows[-1][0])


Place = tuple[str, list[Any]]


async def _walk(
    node: "NodeRuntime", wanted: JobFilter, begin: Place | None, looks_max: int | None
) -> AsyncGenerator[tuple[Place, Job | None], None]:
    """The jobs with their places; None after so many rows."""
    looked = 0
    sources = _SOURCES if wanted.state is None else _OF_STATE[wanted.state]
    for source in sources[sources.index(begin[0]) if begin and begin[0] in sources else 0 :]:
        after = tuple(begin[1]) if begin and begin[0] == source else None
        if after is None and wanted.state == "waiting":
            after = (HELD_AT - 1, 0, 0)  # behind all that have a time
        page = RECORDS_PAGE if source == "records" else PAGE
        while True:
            rows = await _page(node, source, wanted, after)
            for start in range(0, len(rows), READS_MAX):
                some = rows[start : start + READS_MAX]
                fit = [(cursor, job) for cursor, job in some if job is not None and wanted.has(job)]
                if source == "ledger":  # else it was listed among the records
                    known = await asyncio.gather(*(_has_record(node, job) for _, job in fit))
                    fit = [one for one, is_known in zip(fit, known, strict=True) if not is_known]
                for cursor, job in fit:
                    yield (source, cursor), job
            if len(rows) < page:
                break
            if wanted.state == "running" and rows[-1][0][0] > node.clock.now() + APART_MS:
                break  # none runs before its time, so of a million that wait nobody looks at more than these
            after = tuple(rows[-1][0])
            looked += len(rows)
            if looks_max is not None and looked >= looks_max:
                yield (source, rows[-1][0]), None


async def _page(
    node: "NodeRuntime", source: str, wanted: JobFilter, after: tuple[object, ...] | None
) -> list[tuple[list[Any], Job | None]]:
    """The next rows of a source, each with its place; None: not a job of its own."""
    store: Store = node.store
    await node.clock.sleep(0)  # a store in this process answers at once, and others want to go on between the pages
    if source == "timers":
        epochs = Epochs(node)
        timers = await node.reading(store.find_timers(wanted.query("", after)))
        return [(list(t.sort_key), job_of_timer(t, is_running=await epochs.run(t))) for t in timers]
    if source == "parked":
        parked = await node.reading(store.find_parked(wanted.query("", after)))
        return [([one.number], job_of_parked(one)) for one in parked]
    if source == "records":
        answers = await node.reading(
            store.find_answers(wanted.query(RECORD, after, RECORDS_PAGE), now=node.clock.now())
        )
        records = [(id, kept.key[len(RECORD) :], decode_record(kept)) for id, kept in answers]
        return [([id.cls, id.key, f"{RECORD}{name}"], _listed_record(id, name, one)) for id, name, one in records]
    entries = await node.reading(store.find_entries(wanted.query("", after)))
    # The last row of a job without a key: what a key stands for may have been replaced since.
    return [
        ([number], job_of_entry(entry) if _is_last(entry) and key_of(entry.name) is None else None)
        for number, entry in entries
    ]


def _listed_record(id: ObjectId, name: str, record: EndedJob) -> Job | None:
    """One that has ended, without a large result; None: a failed one, which is listed where it is parked."""
    return None if record.state == "failed" else job_of_record(id, name, record, result_max=LISTED_RESULT_MAX)


def _is_last(entry: Entry) -> bool:
    """Nothing came after it: neither a failure nor `Again`, whose row says so."""
    return entry.verdict == "skipped" or (entry.verdict == "run" and (entry.error is None or is_stopped(entry)))


async def _has_record(node: "NodeRuntime", job: Job) -> bool:
    id, name = parse_id(job.id)
    return await node.recall(id, record_key(name)) is not None


def _parse_cursor(after: str | None) -> tuple[int, Place | None]:
    """Which store the page ended in, and where there."""
    if after is None:
        return 0, None
    try:
        index, source, cursor = json.loads(after)
        if type(index) is not int or index < 0 or source not in _SOURCES or not isinstance(cursor, list):
            raise ValueError
    except (ValueError, TypeError):
        raise BadOption(f"after={after!r} is not where a page ended; give page.next", code="job.after") from None
    return index, (source, cursor)
