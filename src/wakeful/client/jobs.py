"""Layer 5. One call, once, at a time, of an object of a server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from wakeful.client.looks import Looks
from wakeful.client.wire import segment
from wakeful.jobs.ids import parse_id
from wakeful.jobs.job import Batch, Job, JobSpec, Page, R
from wakeful.jobs.signatures import type_schedule
from wakeful.policy.queue_terms import NO_TERMS, Queue
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime.calls import Method
from wakeful.runtime.registry import name_of
from wakeful.values.errors import BadHandler, BadOption, DeadlineExceeded
from wakeful.values.times import Duration, duration_ms

POLL_S = 25  # of one request that waits: less than proxies bear
GRACE_MS = 15_000
LAST_GRACE_MS = 1_000  # for the server's own word, when the caller has no more time than that

Jobs_ = list[Job]


class ClientJobs:
    """`client.jobs`: the same as `app.jobs`. A job without a key gets one, so that it is there once, however often it is sent."""

    def __init__(self, client: Looks, new_key: Callable[[], str]) -> None:
        self._client = client
        self._new_key = new_key

    @type_schedule
    async def schedule(
        self,
        method: Any,
        /,
        *args: Any,
        at: datetime | None = None,
        after: Duration | None = None,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        retry: RetryPolicy | None = None,
        priority: int = 0,
        depends_on: Sequence[Job | str] = (),
        replace: bool = False,
        queue: Queue | None = None,
        **kwargs: Any,
    ) -> Job:
        """Call the method of a stub then; now when no time is given, or it is past. It is on disk when this returns."""
        if replace and key is None:
            raise BadOption(
                "replace=True is for a job with a key; there is nothing else to be replaced", code="job.replace"
            )
        spec = JobSpec(method, args, kwargs, at, after, key, metadata, tags, retry, priority, depends_on, queue)
        body = self._job_body(spec, has_key=True) | {"replace": replace}
        # A job that takes the place of another may have run when it is sent again, and would do so a second time.
        return _job(await self._client._do("POST", "/v1/jobs", body, is_repeatable=not replace))

    async def schedule_many(self, specs: Sequence[JobSpec]) -> Jobs_:
        """Every one of them or none, in one commit; an error says which is wrong (`jobs[3]: …`)."""
        body = {"jobs": [self._job_body(one, f"jobs[{at}]: ", has_key=True) for at, one in enumerate(specs)]}
        found = await self._client._do("POST", "/v1/jobs/batch", body)
        return [_job(row) for row in found["rows"]]

    async def batch(self, specs: Sequence[JobSpec], *, then: JobSpec) -> Batch:
        """Schedule them all, and one more that runs when all of them have ended. Not sent again when the answer is lost."""
        members = [self._job_body(one, f"jobs[{at}]: ") for at, one in enumerate(specs)]
        body = {"jobs": members, "then": self._job_body(then, "then: ")}
        found = await self._client._do("POST", "/v1/jobs/batch", body, is_repeatable=False)
        return Batch(_job(found["then"]), [_job(row) for row in found["rows"]])

    async def get(self, id: str | Job) -> Job:
        """How the job stands on disk; `UnknownJob` when there is none."""
        found = await self._client._look(_path(id), has_types=True)
        answer = found["result"]
        return answer if isinstance(answer, Job) else _loose(answer)

    async def list(
        self,
        *,
        cls: type | str | None = None,
        key: str | None = None,
        name: str | None = None,
        state: str | None = None,
        key_prefix: str | None = None,
        tag: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """Jobs by target, method, state, beginning of their own key, and tag; results are as JSON has them."""
        given = {
            "class": None if cls is None else name_of(cls),
            "key": key,
            "method": name,
            "state": state,
            "job_key_prefix": key_prefix,
            "tag": tag,
            "limit": limit,
            "cursor": after,
        }
        found = await self._client._rows("/v1/jobs", given)
        return Page([_job(row) for row in found], found.next)

    async def cancel(self, id: str | Job) -> bool:
        """True: it has not run and never will. Not sent again when the answer is lost: the second one would be False."""
        found = await self._client._do("POST", f"{_path(id)}/cancel", is_repeatable=False)
        return bool(found["cancelled"])

    async def wait(self, id: str | Job[R], timeout: Duration | None = None) -> R:
        """The result, once the job is done; `JobFailed`, `JobCancelled`, or `DeadlineExceeded` after the timeout."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + duration_ms(timeout, what="timeout") / 1000
        while True:
            left_s = POLL_S if until is None else min(POLL_S, max(0.001, until - loop.time()))
            grace_ms = GRACE_MS if until is None or left_s == POLL_S else LAST_GRACE_MS
            try:
                job = await self._client._wire.ask(
                    "GET",
                    f"{_path(id)}/wait",
                    query={"timeout": f"{max(1, int(left_s * 1000))}ms"},
                    limit_ms=int(left_s * 1000) + grace_ms,
                    is_repeatable=True,
                    has_types=True,
                )
                return cast("R", job["result"])
            except DeadlineExceeded:
                if until is not None and loop.time() >= until:
                    raise

    def _job_body(self, spec: JobSpec, where: str = "", *, has_key: bool = False) -> dict[str, Any]:
        """A job as the server reads it."""
        if not isinstance(spec, JobSpec):
            raise BadOption(f"{where}{spec!r} is not a JobSpec", code="job.spec")
        try:
            spec.check_given()
        except BadOption as error:
            raise BadOption(f"{where}{error.message}", code=error.code) from None
        if not isinstance(spec.method, Method):
            raise BadHandler(
                f"{where}{spec.method!r} is no method of a stub; write client.get(Class, key).method",
                code="handler.type",
            )
        if spec.queue is not None and (not isinstance(spec.queue, Queue) or spec.queue.terms != NO_TERMS):
            raise BadOption(
                f"{where}queue: over HTTP it is a Queue(name), with a key if there is one; its limits are for the program "
                "to say",
                code="queue.outside",
            )
        target = spec.method.target
        body = {
            "class": target.cls,
            "key": target.key,
            "method": spec.method.name,
            "args": list(spec.args),
            "kwargs": dict(spec.kwargs),
            "at": spec.at,
            "after": None if spec.after is None else duration_ms(spec.after, what="after") / 1000,
            "job_key": spec.key or (self._new_key() if has_key else None),
            "metadata": None if spec.metadata is None else dict(spec.metadata),
            "tags": list(spec.tags),
            "priority": spec.priority,
            "depends_on": [getattr(one, "id", one) for one in spec.depends_on],
        }
        if spec.queue is not None:
            body["queue"] = {"name": spec.queue.name, "key": spec.queue.key}
        return body if spec.retry is None else body | {"retry": waits(spec.retry)}


def waits(policy: Any) -> dict[str, Any]:
    """How often a failing run is tried, when, and for which errors, as the server reads it."""
    if not isinstance(policy, RetryPolicy):
        raise BadOption(f"retry must be a RetryPolicy(…), not {policy!r}", code="schedule.retry")
    backoff = policy.backoff
    return {
        "max_attempts": policy.max_attempts,
        "first": backoff.first_ms / 1000,
        "factor": backoff.factor,
        "most": backoff.most_ms / 1000,
        "on": list(policy.on),
    }


def _path(id: str | Job) -> str:
    text = id.id if isinstance(id, Job) else id
    parse_id(text)  # says what is wrong with it
    return f"/v1/jobs/{segment(text)}"


def _job(row: Mapping[str, Any]) -> Job:
    """A job of its row."""
    return _loose({**row, "key": row["job_key"], "name": row["method"]})


def _loose(fields: Mapping[str, Any]) -> Job:
    return msgspec.convert({name: fields[name] for name in Job.__struct_fields__ if name in fields}, Job)
