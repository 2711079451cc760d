"""Layer 5. Jobs over HTTP: schedule one or many, look at one, wait for it, cancel it."""

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.http.acts import Length, Waits, acts_of
from wakeful.http.asks import MSGPACK, Answer, Ask, json_answer, result_of
from wakeful.http.calls import request_key
from wakeful.http.looks import connection_of
from wakeful.http.machine_watch import shown_to
from wakeful.http.problems import Problem
from wakeful.http.queues import QueueName, queue_of
from wakeful.http.table import read_body
from wakeful.jobs.ids import parse_id
from wakeful.jobs.job import Job, JobSpec
from wakeful.jobs.node_jobs import feature_of
from wakeful.jobs.submission import Scheduling
from wakeful.operations.arguments import signature_of, weighs_more
from wakeful.runtime.calls import make_stub
from wakeful.runtime.registry import ObjectClass
from wakeful.values.errors import BadValue
from wakeful.values.ids import ObjectId
from wakeful.values.weights import WEIGHT_MAX, too_heavy
from wakeful.views import jobs
from wakeful.views.view import READS_MAX

if TYPE_CHECKING:
    from wakeful.deployment import Deployment

WAIT_MS = 30_000
WAIT_MAX_MS = 300_000
MANY_MAX = 4_000  # jobs of one request: the timers of so many are put in their places within 50 ms
MANY_WEIGHT_MAX = 8 * WEIGHT_MAX  # of the body of so many


class Asked(Struct, forbid_unknown_fields=True, kw_only=True):
    """One call, once: which method of which object, with what, when. `job_key` makes it repeatable."""

    cls: str = msgspec.field(name="class")
    key: str
    method: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    at: datetime | None = None
    after: Length | None = None
    job_key: str | None = None
    metadata: dict[str, str | int | float | bool] | None = None
    tags: list[str] = []
    retry: Waits | None = None
    priority: int = 0
    depends_on: list[str] = []
    queue: QueueName | str | None = None


class One(Asked, forbid_unknown_fields=True, kw_only=True):
    """The same; `replace` puts it in the place of the job that has its `job_key`."""

    replace: bool = False


class Many(Struct, forbid_unknown_fields=True):
    """All of them or none; with `then`, one more that runs when all have ended."""

    jobs: list[Asked]
    then: Asked | None = None


async def schedule(ask: Ask) -> Answer:
    """Schedule one; 201 with how it stands."""
    asked: One = await read_body(ask, One, is_needed=True)
    spec = await _spec(ask, asked, "", Ask.exact_value)
    key = request_key(ask)
    if key is not None and asked.replace:
        raise Problem(
            400, "request.key.unsupported", "Idempotency-Key: not with replace, which each time puts a new job"
        )
    if key is not None and spec.key is None:
        spec = replace(spec, key=once_key(key))
    # Not app.jobs.schedule(…, **kwargs): a method may have an argument that is called like one of its options.
    scheduling = Scheduling(ask.node, feature_of(ask.node), None)
    job = await scheduling.trace([spec], scheduling.one(spec, is_newest=asked.replace))
    return json_answer(jobs.plain_job(await _show(ask, job)), 201)


def once_key(key: str) -> str:
    """An Idempotency-Key as the key of a job: of any length, and no key that somebody chose for another meaning."""
    return f"idempotency:{blake2b(key.encode(), digest_size=16).hexdigest()}"


async def schedule_many(ask: Ask) -> Answer:
    """Schedule many, all of them or none."""
    asked: Many = await read_body(ask, Many, is_needed=True)
    if not 1 <= len(asked.jobs) <= MANY_MAX:
        raise BadValue(f"jobs: give 1 to {MANY_MAX} of them, not {len(asked.jobs)}", code="limit.count")
    view, known = ask.view, list[ObjectClass]()
    for place, one in enumerate(asked.jobs):
        if not place % READS_MAX:
            await view.breathe()
        known.append(await _known(ask, one))
    places = [f"jobs[{place}]: " for place in range(len(known))]
    exact = await _exact_jobs(ask, asked, known)
    specs = await ask.beside(lambda: list(map(_make_spec, repeat(ask.deployment), asked.jobs, known, places, exact)))
    if asked.then is None:
        jobs_made = await ask.deployment.jobs.schedule_many(specs)
        made = await view.together(_show(ask, job) for job in jobs_made)
        return json_answer({"rows": await view.each(jobs.plain_job, made), "then": None}, 201)
    batch = await ask.deployment.jobs.batch(
        specs, then=await _spec(ask, asked.then, "then: ", lambda ask: ask.exact_value()["then"])
    )
    rows = await view.each(jobs.plain_job, batch.jobs)
    return json_answer({"rows": rows, "then": jobs.plain_job(batch.then)}, 201)


async def show(ask: Ask) -> Answer:
    await _check(ask)
    if ask.wants_types:
        return await result_of(await ask.deployment.jobs.get(ask.params["id"]), MSGPACK, ask.asker)
    return json_answer(await jobs.show(ask.view, ask.params["id"]))


async def cancel(ask: Ask) -> Answer:
    """True: it has not run and never will."""
    await _check(ask)
    id = ask.params["id"]
    # Only an operator's is an act with an audit row: callers could push out all others with theirs.
    done = await (acts_of(ask).cancel_job(id) if ask.who.may("operate") else ask.deployment.jobs.cancel(id))
    return json_answer({"id": id, "cancelled": done})


async def wait(ask: Ask) -> Answer:
    """The result once it is done; a problem when it failed, was cancelled, or is not done in time."""
    target = await _check(ask)
    ms = min(ask.query["timeout"] or WAIT_MS, WAIT_MAX_MS)
    until = ask.node.clock.now() + ms
    value = await ask.deployment.jobs.wait(ask.params["id"], timeout=ms / 1000)
    shown = await shown_to(ask.node, target, value, ask.who, deadline_at=until)
    return await result_of(shown, MSGPACK if ask.wants_types else b"", ask.asker)


async def _show(ask: Ask, job: Job) -> Job:
    """The same as the caller may see it: one that had its key before may have ended, with a machine's snapshot."""
    if job.result is None:
        return job
    result = await shown_to(ask.node, job.target, job.result, ask.who)
    return job if result is job.result else replace(job, result=result)


async def _check(ask: Ask) -> ObjectId:
    """The object whose job it is, which the caller may know of."""
    target, _ = parse_id(ask.params["id"])
    return await ask.gate.check_named(connection_of(ask), ask.who, *target)


async def _exact_jobs(ask: Ask, asked: Many, known: list[ObjectClass]) -> Iterable[dict[str, Any] | None]:
    """The jobs with their numbers as they were written, when a method of one takes a `Decimal`."""
    if not any(signature_of(cls, one.method).is_exact for cls, one in zip(known, asked.jobs, strict=True)):
        return repeat(None)
    jobs: list[dict[str, Any]] = (await ask.beside(ask.exact_value))["jobs"]
    return jobs


async def _spec(ask: Ask, asked: Asked, where: str, exact: Callable[[Ask], Any]) -> JobSpec:
    """`exact` finds it in the body, with its numbers as they were written."""
    known = await _known(ask, asked)
    is_exact = signature_of(known, asked.method).is_exact
    return await ask.beside(lambda: _make_spec(ask.deployment, asked, known, where, exact(ask) if is_exact else None))


async def _known(ask: Ask, asked: Asked) -> ObjectClass:
    """The class whose method it is, if the caller may have it called, and wait for what it depends on."""
    id = await ask.gate.check_exposed(connection_of(ask), ask.who, asked.cls, asked.key, asked.method)
    for other in asked.depends_on:
        await ask.gate.check_named(connection_of(ask), ask.who, *parse_id(other)[0])
    return ask.node.registry.by_name(id.cls)


def _make_spec(
    deployment: "Deployment", asked: Asked, known: ObjectClass, where: str, exact: dict[str, Any] | None
) -> JobSpec:
    signature = signature_of(known, asked.method)
    args, kwargs = asked.args, asked.kwargs
    if exact is not None and signature.is_exact:
        args, kwargs = exact.get("args", []), exact.get("kwargs", {})
    try:
        if weighs_more([asked.args, asked.kwargs], WEIGHT_MAX):
            raise too_heavy(WEIGHT_MAX)
        placed, named = signature.convert(args, kwargs)
    except BadValue as error:
        raise BadValue(f"{where}{error.message}", code=error.code) from None
    return JobSpec(
        getattr(make_stub(deployment, known, asked.key, None, None), asked.method),
        placed,
        named,
        asked.at,
        asked.after,
        asked.job_key,
        asked.metadata,
        asked.tags,
        None if asked.retry is None else asked.retry.policy(),
        asked.priority,
        asked.depends_on,
        queue_of(asked.queue),
    )
