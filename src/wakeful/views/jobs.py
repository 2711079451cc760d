"""Layer 5. Which jobs are owed, which failed, and what became of the others?"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
from msgspec.structs import replace

from wakeful.jobs.ids import parse_id
from wakeful.jobs.job import STATES, Job
from wakeful.jobs.payload import READ
from wakeful.jobs.queries import JobFilter, known, list_jobs
from wakeful.store.protocol import Query
from wakeful.values.codec import decode_loosely
from wakeful.values.ids import ObjectId
from wakeful.values.times import from_datetime
from wakeful.views import arguments
from wakeful.views.pages import ViewPage, bad_cursor, check_limit, check_place, open_cursor, write_cursor
from wakeful.views.plain import Instant, OfObject, iso, iso_of, plain, plain_of
from wakeful.views.view import View, is_shown

PAGE_MAX = 10_000  # of what is read at once
LOOKS_MAX = 10_000  # rows that a page looks at when a filter leaves most of them out: some tenths of a second
ATTEMPTS_MAX = 50  # of one job that are shown, the newest
_KIND = "jobs"
JobState = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(STATES)})]
_SHAPES = {"timers": (int, int, int), "parked": (int,), "records": (str, str, str), "ledger": (int,)}


class _JobId(TypedDict):
    id: str


class PlainJob(_JobId, OfObject):
    """A job in the terms of JSON."""

    method: str
    state: JobState
    due_at: Instant
    created_at: Instant | None
    job_key: str | None
    attempt: int
    priority: int
    tags: list[str]
    metadata: dict[str, Any] | None
    depends_on: list[str]
    queue: str | None
    queue_key: str | None
    batch: dict[str, Any] | None
    result: Any
    left_out: int
    error: str | None
    run_id: str | None


class PlainAttempt(TypedDict):
    """One attempt of a job, in the terms of JSON, or that it was cancelled."""

    attempt: int
    verdict: str
    fired_at: Instant
    finished_at: Instant
    error: str | None
    node: str
    run_id: str


class PlainJobDetail(PlainJob):
    """One job with what it is called with, and what came of each attempt, newest first."""

    arguments: arguments.PlainArguments | None  # None: only the ledger knows of it
    attempts: list[PlainAttempt]
    parked: int | None  # the number under which a failed one is parked, for redriving


class JobPage(NamedTuple):
    """Jobs, and where the next page begins."""

    rows: list[Job]
    cursor: str | None


async def page(
    view: View,
    cls: str | None = None,
    key: str | None = None,
    state: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    method: str | None = None,
    key_prefix: str | None = None,
    tag: str | None = None,
    prefix: str | None = None,
) -> ViewPage[PlainJob]:
    """Owed jobs in firing order, then failed, then ended ones; `key_prefix` is of the jobs' own keys, `prefix` of the
    objects'."""
    wanted = JobFilter(cls, key, method, state, key_prefix, tag, prefix)
    found = await rows(view, wanted, limit, cursor)
    return ViewPage(await view.each(plain_job, found.rows), found.cursor)


async def rows(view: View, wanted: JobFilter, limit: int = 50, cursor: str | None = None) -> JobPage:
    """The same before they are plain."""
    check_limit(limit)
    after = None if cursor is None else _read(view, cursor, len(view.stores))
    jobs: list[Job] = []
    looks_max = None if view.running is None else LOOKS_MAX  # who has a process of their own holds up nobody
    with loosely(), view.beside():
        while True:
            wants = min(limit - len(jobs), PAGE_MAX)
            some = await list_jobs(view.node, wanted, limit=wants, after=after, looks_max=looks_max)
            jobs += [job for job in some if is_shown(job.target.cls, wanted.cls)]
            after = some.next
            if after is None or len(jobs) == limit or (looks_max is not None and len(some) < wants):
                return JobPage(jobs, None if after is None else write_cursor(view, _KIND, json.loads(after)))


async def show(view: View, job_id: str, *, is_cut: bool = False) -> PlainJobDetail:
    """Everything that is known of one job, or `UnknownJob`; `is_cut`: of a large result the beginning, as a page shows it."""
    target, name = parse_id(job_id)
    with loosely(bytes):
        standing = await known(view.node, target, name)
    (result, left_out), metadata = await _plain_values(standing.job.result, standing.job.metadata, is_cut=is_cut)
    row = plain_job(replace(standing.job, result=None, metadata=None))
    return {
        **row,
        "result": result,
        "left_out": left_out,
        "metadata": metadata,
        "arguments": None if standing.kept is None else await arguments.show(view, standing.kept.args),
        "attempts": await _attempts(view, target, name, standing.job),
        "parked": None if standing.parked is None else view.mask(standing.parked.number),
    }


async def _plain_values(result: bytes | None, metadata: Any, *, is_cut: bool) -> tuple[tuple[Any, int], Any]:
    """What these bytes stand for; beside the loop where there are many."""

    def read() -> tuple[tuple[Any, int], Any]:
        shown = None if result is None else plain_of(result)
        return (arguments.cut(shown) if is_cut else (shown, 0)), None if metadata is None else plain_of(metadata)

    return read() if len(result or b"") <= arguments.THREAD_BYTES else await asyncio.to_thread(read)


async def _attempts(view: View, id: ObjectId, name: str, job: Job) -> list[PlainAttempt]:
    """What the ledger has of it; of a key that was used again only what is of this job."""
    since = 0 if job.created_at is None else from_datetime(job.created_at)
    found = await view.store_of(id).find_entries(Query(cls=id.cls, key=id.key, name=name, limit=ATTEMPTS_MAX))
    return [
        {
            "attempt": entry.attempt + (entry.verdict != "skipped"),
            "verdict": entry.verdict,
            "fired_at": iso(entry.fired_at),
            "finished_at": iso(entry.finished_at),
            "error": entry.error,
            "node": entry.node,
            "run_id": entry.run_id,
        }
        for _, entry in found
        if entry.fired_at >= since
    ]


@contextmanager
def loosely(read: Callable[[bytes], Any] = decode_loosely) -> Iterator[None]:
    """Results and metadata are read without the program's types, or not yet."""
    token = READ.set(read)
    try:
        yield
    finally:
        READ.reset(token)


def _read(view: View, cursor: str, count: int) -> str:
    """The place as jobs know it, once it is sure to be one."""
    places = open_cursor(view, cursor, _KIND)
    if len(places) != 3:
        raise bad_cursor(cursor)
    index, source, place = places
    if type(index) is not int or not 0 <= index < count or not isinstance(source, str) or source not in _SHAPES:
        raise bad_cursor(cursor)
    check_place(place, _SHAPES[source], cursor)
    return json.dumps(places)


def plain_job(job: Job) -> PlainJob:
    """One job."""
    target = job.target
    return {
        "id": job.id,
        "class": target.cls,
        "key": target.key,
        "method": job.name,
        "state": job.state,
        "due_at": iso_of(job.due_at),
        "created_at": iso_of(job.created_at),
        "job_key": job.key,
        "attempt": job.attempt,
        "priority": job.priority,
        "tags": list(job.tags),
        "metadata": plain(job.metadata),
        "depends_on": list(job.depends_on),
        "queue": job.queue,
        "queue_key": job.queue_key,
        "batch": job.batch,
        "result": plain(job.result),
        "left_out": job.left_out,
        "error": job.error,
        "run_id": job.run_id,
    }
