"""Layer 4. What can be done with jobs, from inside an object and from outside?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar, cast

from wakeful.jobs import job_owner, queries
from wakeful.jobs.ids import job_id, parse_id
from wakeful.jobs.job import ENDED, Batch, Job, JobSpec, Page, R
from wakeful.jobs.node_jobs import feature_of
from wakeful.jobs.queries import JobFilter
from wakeful.jobs.signatures import type_schedule
from wakeful.jobs.submission import Scheduling, sent_by_turn, unsend
from wakeful.policy.limits import check_count
from wakeful.policy.queue_terms import Queue
from wakeful.runtime.calls import check_loop, resolve, within
from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.runtime.turn import CURRENT, Turn, running_turn
from wakeful.values.errors import (
    BadOption,
    DeadlineExceeded,
    JobCancelled,
    JobFailed,
    NotRunning,
    Reentrancy,
    StoreDown,
    UnknownJob,
)
from wakeful.values.times import Duration, duration_ms

CANCELS_AT_ONCE = 64
LOOK_FIRST_MS, LOOK_MOST_MS = 20, 1_000  # how often `wait` looks at the store

T = TypeVar("T")
Jobs_ = list[Job]
Specs = list[JobSpec]


class Home(Protocol):
    """The program whose jobs these are."""

    @property
    def node(self) -> NodeRuntime | None: ...


class Jobs:
    """One call, once, at a time: `self.jobs` in an object, `app.jobs` outside.

    What is scheduled in a turn commits with it, and does not happen if the turn fails. Outside, it is on disk when
    the call returns.
    """

    __slots__ = ("_activation", "_home")

    def __init__(self, home: Home | Context) -> None:
        self._home = None if isinstance(home, Context) else home
        self._activation = runtime_of(home) if isinstance(home, Context) else None

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
        retry: Any = None,
        priority: int = 0,
        depends_on: Sequence[Job | str] = (),
        replace: bool = False,
        queue: Queue | None = None,
        **kwargs: Any,
    ) -> Job:
        """Call the method of a stub (or of self) then; now when no time is given, or it is past.

        The same `key` again gives the job that has it, `KeyTaken` when it is another; `replace` puts this one in its place.
        With a `queue` it waits, when it is due, until that lets it go (docs/queues.md).
        """
        spec = JobSpec(method, args, kwargs, at, after, key, metadata, tags, retry, priority, depends_on, queue)
        scheduling = self._scheduling("schedule")
        return await scheduling.trace([spec], scheduling.one(spec, is_newest=replace))

    async def schedule_many(self, specs: Sequence[JobSpec]) -> Jobs_:
        """Every one of them or none, in one commit; an error says which is wrong (`jobs[3]: …`)."""
        node, _ = self._here("schedule_many")
        given = _check_specs(node, "schedule_many", specs)
        scheduling = self._scheduling("schedule_many")
        return await scheduling.trace(given, scheduling.all(given))

    async def batch(self, specs: Sequence[JobSpec], *, then: JobSpec) -> Batch:
        """Schedule them all, and one more that runs when all of them have ended, well or not (see `ctx.job.batch`)."""
        node, _ = self._here("batch")
        given = _check_specs(node, "batch", specs)
        scheduling = self._scheduling("batch")
        return await scheduling.trace([*given, then], scheduling.batch(given, then))

    async def get(self, id: str | Job) -> Job:
        """How the job stands on disk, or will when this turn is there; `UnknownJob` when there is none."""
        node, turn = self._here("get")
        own = None if turn is None else sent_by_turn(turn, *parse_id(id))
        return await _read(node, turn, lambda: queries.get(node, id)) if own is None else own.job

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
        """Jobs by target (`cls`, `key`), method, state, beginning of their own key, and tag.

        Owed ones in firing order, then failed ones, then ended ones. `after=page.next` gives the following page.
        """
        node, turn = self._here("list")
        wanted = _filter(node, cls, key, name, state, key_prefix, tag)
        return await _read(node, turn, lambda: queries.list_jobs(node, wanted, limit=limit, after=after))

    async def cancel(self, id: str | Job) -> bool:
        """True: it has not run and never will. False: it is over, or there is none.

        A running job is asked to stop (`CancelledError`); if it ends well all the same, the answer is False.
        In a turn, a job of the object itself is cancelled with the turn; that of another object at once.
        """
        node, turn = self._here("cancel")
        try:
            target, name = parse_id(id)
        except UnknownJob:
            return False
        if turn is not None:
            turn.check_writable()
            if unsend(feature_of(node), turn, target, name):
                return True
            if target == turn.activation.id:
                return await job_owner.cancel(feature_of(node), turn, name)
        return await node.send(target, "jobs.cancel", (name,), {})  # type: ignore[no-any-return]

    async def cancel_many(
        self,
        *,
        cls: type | str | None = None,
        key: str | None = None,
        name: str | None = None,
        key_prefix: str | None = None,
        tag: str | None = None,
    ) -> int:
        """Cancel every owed job that fits; how many were. Each on its own, not all or none."""
        node, turn = self._here("cancel_many")
        if all(one is None for one in (cls, key, name, key_prefix, tag)):
            raise BadOption("cancel_many of what? give cls, key, name, key_prefix or tag", code="job.cancel")
        wanted = _filter(node, cls, key, name, None, key_prefix, tag)
        ids = await _read(node, turn, lambda: queries.owed_ids(node, wanted))
        if turn is not None:
            return sum([await self.cancel(id) for id in ids])
        count = 0
        for start in range(0, len(ids), CANCELS_AT_ONCE):
            count += sum(await asyncio.gather(*(self.cancel(id) for id in ids[start : start + CANCELS_AT_ONCE])))
        return count

    async def redrive(self, id: str | Job) -> Job:
        """A failed job is owed again, at once and with a fresh count of attempts; `Conflict` when it is not failed."""
        node, turn = self._here("redrive")
        target, name = parse_id(id)
        if turn is not None and target == turn.activation.id:
            turn.check_writable()
            return (await job_owner.redrive(feature_of(node), turn, name)).job
        return await node.send(target, "jobs.redrive", (name,), {})  # type: ignore[no-any-return]

    async def wait(self, id: str | Job[R], timeout: Duration | None = None) -> R:
        """The result, once the job is done; `JobFailed`, `JobCancelled`, or `DeadlineExceeded` after the timeout.

        A result is kept for a day (the limit `job_keep_ms`): past that it is `UnknownJob [job.expired]`, not None.
        """
        node, turn = self._here("wait")
        target, name = parse_id(id)
        if turn is not None and target in turn.chain:
            raise Reentrancy(f"{turn.activation.id} can't wait for {job_id(target, name)}, which waits for this turn")
        if turn is not None and sent_by_turn(turn, target, name) is not None:
            raise Reentrancy(
                f"{turn.activation.id} can't wait for {job_id(target, name)}: it is on disk, and runs, only once this "
                "turn has ended; wait for it in a later one, or outside"
            )
        until = None if timeout is None else node.clock.now() + duration_ms(timeout, what="timeout")
        waits, pause = feature_of(node.home(target)).waits, LOOK_FIRST_MS
        while True:
            future = waits.add(target, name)
            try:
                there = await _read(node, turn, lambda: queries.known(node, target, name))
                job, now = there.job, node.clock.now()
                if job.state in ENDED:
                    # Of one that returned None nothing else may be kept from the beginning.
                    is_kept = there.kept is not None or there.ended_at + node.limits.job_keep_ms > now
                    return cast("R", _result(job, is_kept=is_kept))
                if until is not None and now >= until:
                    raise DeadlineExceeded(f"job {job.id} is still {job.state}", code="job.wait")
                look_at = now + pause if until is None else min(now + pause, until)
                handle = node.clock.call_at(look_at, partial(resolve, future, None))
                try:
                    await future
                finally:
                    handle.cancel()
            finally:
                waits.remove(target, name, future)
            pause = min(2 * pause, LOOK_MOST_MS)

    def counters(self) -> dict[str, Any]:
        """What this node has counted since it began: scheduled, run, retried, …, lateness and duration."""
        return feature_of(self._node("counters")).counters()

    # where we are

    def _scheduling(self, what: str) -> Scheduling:
        node, turn = self._here(what)
        return Scheduling(node, feature_of(node), turn)

    def _here(self, what: str) -> tuple[NodeRuntime, Turn | None]:
        """The node, and the turn whose code is asking."""
        node = self._node(what)
        if self._activation is not None:
            return node, running_turn(self._activation, f"self.jobs.{what}")
        check_loop(node.loop)
        turn = CURRENT.get()
        if turn is None or turn.is_over or turn.activation.node not in node.all_homes:
            return node, None
        return turn.activation.node, turn

    def _node(self, what: str) -> NodeRuntime:
        if self._activation is not None:
            return self._activation.node
        node = None if self._home is None else self._home.node
        if node is None:
            raise NotRunning(f"app.jobs.{what}: the app is not running; call it inside `async with app.run(…)`")
        return node


async def _read(node: NodeRuntime, turn: Turn | None, read: Callable[[], Awaitable[T]]) -> T:
    """Outside a turn, a store that is away is waited for, no longer than a call may take."""
    if turn is not None:
        return await read()
    until = node.clock.now() + node.limits.call_deadline_ms
    late = DeadlineExceeded("the store did not say in time how the jobs stand; try again", code="job.deadline")
    with within(node.clock, until, lambda: late):
        while True:
            if node.state == "down":
                await node.until_store(until)
            try:
                return await read()
            except StoreDown:
                if node.state != "down":
                    raise  # it is about this read alone


def _check_specs(node: NodeRuntime, what: str, specs: Iterable[JobSpec]) -> Specs:
    if not isinstance(specs, Iterable) or isinstance(specs, str | Mapping):
        raise BadOption(f"{what} takes a list of JobSpec, not {specs!r}", code="job.spec")
    given = list(islice(specs, node.limits.jobs_per_call + 1))
    check_count("jobs", len(given), node.limits.jobs_per_call)
    return given


def _filter(
    node: NodeRuntime,
    cls: type | str | None,
    key: str | None,
    name: str | None,
    state: str | None,
    key_prefix: str | None,
    tag: str | None,
) -> JobFilter:
    known = node.registry.of_class(cls).name if isinstance(cls, type) else cls
    wanted = JobFilter(known, key, name, state, key_prefix, tag)
    wanted.check()
    return wanted


def _result(job: Job, *, is_kept: bool) -> Any:
    if job.state == "failed":
        after = f" after {job.attempt} attempts" if job.attempt else ""  # none is counted that ended with the process
        raise JobFailed(f"job {job.id} failed{after} and is parked: {job.error}")
    if job.state == "cancelled":
        raise JobCancelled(f"job {job.id}: {job.error or 'cancelled'}")
    if job.state == "done" and not is_kept:
        raise UnknownJob(
            f"job {job.id} is done, so long ago that its result is not kept; ask sooner, or raise the limit job_keep_ms",
            code="job.expired",
        )
    return job.result
