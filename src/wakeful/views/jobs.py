"""Layer 5. Which jobs are owed, which failed, and what became of the others?"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec

from wakeful.jobs.job import STATES, Job
from wakeful.jobs.payload import READ
from wakeful.jobs.queries import JobFilter, get, list_jobs
from wakeful.values.codec import decode_loosely
from wakeful.views.pages import ViewPage, bad_cursor, check_limit, check_place, open_cursor, write_cursor
from wakeful.views.plain import Instant, OfObject, iso_of, plain
from wakeful.views.view import View, is_shown

PAGE_MAX = 10_000  # of what is read at once
LOOKS_MAX = 10_000  # rows that a page looks at when a filter leaves most of them out: some tenths of a second
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
    batch: dict[str, Any] | None
    result: Any
    left_out: int
    error: str | None
    run_id: str | None


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


async def show(view: View, job_id: str) -> PlainJob:
    """Everything that is known of one job, or `UnknownJob`."""
    with loosely():
        return plain_job(await get(view.node, job_id))


@contextmanager
def loosely() -> Iterator[None]:
    """Results and metadata are read without the program's types."""
    token = READ.set(decode_loosely)
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
        "batch": job.batch,
        "result": plain(job.result),
        "left_out": job.left_out,
        "error": job.error,
        "run_id": job.run_id,
    }
