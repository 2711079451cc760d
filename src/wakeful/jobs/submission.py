"""Layer 4. How does a job that is asked for get to disk: with the turn that asks, or by itself?"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from wakeful.jobs.ids import ASK, TOLD, ask_prefix, job_id, parse_id
from wakeful.jobs.job import Batch, Job
from wakeful.jobs.job_owner import place, same
from wakeful.jobs.job_request import JobRequest, ask, errand, errands, is_spec, newest, with_timer
from wakeful.jobs.node_jobs import NodeJobs
from wakeful.jobs.payload import BATCH, decode_kept, job_of_timer
from wakeful.jobs.queries import READS_MAX, Standing, asked_timer, guard_of, in_the_way, standing
from wakeful.runtime.calls import Method
from wakeful.runtime.tracer import within
from wakeful.runtime.turn import Turn, breathe
from wakeful.store.protocol import Obstacle
from wakeful.values.errors import BadOption, KeyTaken, Unavailable, UnknownJob, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

T = TypeVar("T")
TRIES_MAX = 5  # a key that comes and goes between looking and inserting
# Of many, after so many others go on: a hundred thousand take seconds, and the node has a lease to keep.
BREATH = 200


class Scheduling:
    """One asking: of a node, from inside a turn or from outside all of them."""

    def __init__(self, node: "NodeRuntime", feature: NodeJobs, turn: Turn | None) -> None:
        self._node = node
        self._feature = feature
        self._turn = turn
        if turn is not None:
            turn.check_writable()
        elif node.state not in ("up", "down"):  # whether it is still down, the store itself says
            raise node.refusal()  # before it is up it knows no time but its machine's

    def trace(self, specs: Sequence[Any], way: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The same, as a span of its own; inside a turn it is part of that one."""
        tracer, method = self._node.tracer, getattr(specs[0], "method", None) if specs else None
        if tracer is None or self._turn is not None or not isinstance(method, Method):
            return way
        span = tracer.enter("schedule", method.target, method.name, parent=None)
        if span is not None:
            span.set("wakeful.jobs", len(specs))
            return within(span, way)
        return way

    async def one(self, spec: Any, *, is_newest: bool) -> Job:
        if is_newest and spec.key is None:
            raise BadOption(
                "replace=True is for a job with a key; there is nothing else to be replaced", code="job.replace"
            )
        asked = await self._settle_links(ask(self._node, self._feature.order, spec, self._turn))
        await self._admit(asked, is_newest=is_newest)
        job = await self._bring(newest(asked) if is_newest else asked, is_newest=is_newest)
        self._feature.counts.scheduled += 1
        return job

    async def _admit(self, asked: JobRequest, *, is_newest: bool) -> None:
        """Quotas are for more jobs: to ask again under a key, or to replace one that is owed, makes no more."""
        if self._feature.tenants is None or not await self._stands(asked, is_newest=is_newest):
            await self._feature.admit([asked.timer])

    async def _stands(self, asked: JobRequest, *, is_newest: bool) -> bool:
        if asked.kept.key is None:
            return False
        there = await standing(self._node, asked.timer.id, asked.timer.name)
        return there is not None and there.kept is not None and (there.timer is not None or not is_newest)

    async def _admit_all(self, asked: list[JobRequest]) -> None:
        more = asked
        if self._feature.tenants is not None:
            stands: list[bool] = []
            for start in range(0, len(asked), READS_MAX):
                some = asked[start : start + READS_MAX]
                stands += await asyncio.gather(*(self._stands(one, is_newest=False) for one in some))
            fresh = {one.id: one for one, is_there in zip(asked, stands, strict=True) if not is_there}
            more = list(fresh.values())  # under one key there is one, however often it is in the list
        await self._feature.admit([one.timer for one in more])

    async def many(self, specs: Sequence[Any], *, batch: tuple[str, int] | None = None) -> list[JobRequest]:
        """All of them checked; the first that is wrong is named by its place."""
        requests = []
        for index, spec in enumerate(specs):
            if index % BREATH == BREATH - 1:
                await self._node.clock.sleep(0)
            try:
                if not is_spec(spec):
                    raise BadOption(f"{spec!r} is not a JobSpec", code="job.spec")
                if batch is not None and spec.key is not None:
                    raise BadOption(
                        f"key={spec.key!r}: a job of a batch can't have a key, which may belong to one outside it",
                        code="job.batch",
                    )
                asked = ask(self._node, self._feature.order, spec, self._turn, batch=batch)
                requests.append(await self._settle_links(asked) if asked.kept.waits else asked)
            except WakefulError as error:
                raise _at(index, error) from None
        return requests

    async def all(self, specs: Sequence[Any]) -> list[Job]:
        """Every one of them or none."""
        asked = await self.many(specs)
        await self._admit_all(asked)
        jobs = await self._all_inside(asked) if self._turn is not None else await self._all_outside(asked)
        self._feature.counts.scheduled += len(jobs)
        return jobs

    async def batch(self, specs: Sequence[Any], then: Any) -> Batch:
        """Jobs and the one that runs when all of them have ended, all or none."""
        if not is_spec(then) or then.key is not None:
            raise BadOption("then must be a JobSpec without a key", code="job.batch")
        last = await self._settle_links(ask(self._node, self._feature.order, then, self._turn))
        kept = last.kept
        kept = replace(kept, waits=(BATCH, *kept.waits)) if specs else replace(kept, ended=(0, 0, 0))
        last = with_timer(kept, last.timer.id, last.timer.seq, last.timer.priority)
        members = await self.many(specs, batch=(last.id, len(specs)))
        everyone = [last, *members]
        await self._feature.admit([one.timer for one in everyone])
        timers = [timer for one in everyone for timer in self._with_errands(one)]
        if self._turn is not None:
            self._turn.send(timers)
        elif await self._node.add_timers(timers):
            raise Unavailable("names of this batch were taken; try again", code="job.batch")
        self._feature.counts.scheduled += len(everyone)
        return Batch(_new(last), await self._new_ones(members))

    # inside a turn

    async def _bring(self, asked: JobRequest, *, is_newest: bool) -> Job:
        if self._turn is not None:
            return await self._inside(self._turn, asked, is_newest=is_newest)
        if is_newest:
            timer = asked.timer
            given = (timer.name, timer.due_at, timer.nominal_at, timer.seq, timer.priority, timer.payload)
            return await self._node.send(timer.id, "jobs.replace", given, {})  # type: ignore[no-any-return]
        if asked.kept.key is not None:
            return await self._keyed(asked)
        if asked.kept.waits:
            await self._node.add_timers(self._with_errands(asked))
        else:
            await self._node.add_timer(asked.timer)
        return _new(asked)

    async def _inside(self, turn: Turn, asked: JobRequest, *, is_newest: bool) -> Job:
        await breathe(turn)
        timer = asked.timer
        if timer.id == turn.activation.id:
            there = await place(self._feature, turn, asked, is_newest=is_newest)
            return _new(asked) if there is None else there.job
        if asked.kept.key is None:
            turn.send(self._with_errands(asked))
            return _new(asked)
        # Whether the key is free, its owner says when this turn is on disk; what can be said before is said here.
        there = sent_by_turn(turn, timer.id, timer.name) or await standing(self._node, timer.id, timer.name)
        existing = None if is_newest or there is None or there.kept is None else same(asked, there)
        if existing is not None:
            return existing.job
        payload = [timer.name, timer.due_at, timer.nominal_at, timer.seq, timer.priority, timer.payload, is_newest]
        prefix = ask_prefix(timer.name)
        turn.send([errand(self._node, self._feature.order, ASK, timer.id, payload, name=prefix)])
        return _new(asked)

    async def _all_inside(self, asked: list[JobRequest]) -> list[Job]:
        assert self._turn is not None
        jobs = []
        for index, one in enumerate(asked):
            try:
                jobs.append(await self._inside(self._turn, one, is_newest=False))
            except KeyTaken as error:
                raise _at(index, error) from None
        return jobs

    # outside

    async def _keyed(self, asked: JobRequest) -> Job:
        """Insert it, unless the key is in use."""
        id, name = asked.timer.id, asked.timer.name
        for _ in range(TRIES_MAX):
            obstacle = await self._insert_keyed(asked)
            if obstacle is None:
                return _new(asked)
            there = await in_the_way(self._node.home(id), id, name, obstacle)
            if there is None or there.kept is None:
                continue  # what was in the way is gone
            if there.kept.token == asked.kept.token:
                return _new(asked)  # it is this very one: the answer to a first try was lost
            if obstacle.is_in:
                await self._withdraw(asked)
            return same(asked, there).job
        raise Unavailable(f"{id}: job key {asked.kept.key!r} is being changed by others; try again")

    async def _insert_keyed(self, asked: JobRequest) -> Obstacle | None:
        guard = guard_of(asked.timer.name)
        if not asked.kept.waits:
            return await self._node.add_timer(asked.timer, guard)
        obstacles = await self._node.add_timers(self._with_errands(asked), {0: guard})
        return obstacles[0] if obstacles else None

    async def _withdraw(self, asked: JobRequest) -> None:
        """It slipped in behind the end of the job that has its key, and must not run."""
        await self._node.send(asked.timer.id, "jobs.withdraw", (asked.timer.name, asked.kept.token), {})

    async def _all_outside(self, asked: list[JobRequest]) -> list[Job]:
        twins = self._twins(asked)
        # What the caller gets is made while the disk takes them: a quarter of the time of many.
        jobs, known = await asyncio.gather(self._new_ones(asked), self._bring_all(asked, twins))
        return [known.get(place, jobs[place]) for place in (twins.get(n, n) for n in range(len(asked)))]

    async def _bring_all(self, asked: list[JobRequest], twins: dict[int, int]) -> dict[int, Job]:
        """Insert all but the twins, of each store all or none; by their places the jobs that were there already."""
        by_home: dict[NodeRuntime, list[int]] = {}
        for n, one in enumerate(asked):
            if n not in twins:
                by_home.setdefault(self._node.home(one.timer.id), []).append(n)
        known: dict[int, Job] = {}
        for fresh in by_home.values():
            for _ in range(TRIES_MAX):
                if await self._bring_some(asked, [n for n in fresh if n not in known], known):
                    break
            else:
                raise Unavailable("keys of these jobs are being changed by others; try again")
        return known

    async def _bring_some(self, asked: list[JobRequest], fresh: list[int], known: dict[int, Job]) -> bool:
        """Insert these; False when something was in the way."""
        timers: list[Timer] = []
        places: dict[int, int] = {}  # of the jobs themselves among the timers
        for n in fresh:
            places[len(timers)] = n
            timers += self._with_errands(asked[n])
        guards = {at: guard_of(timers[at].name) for at, n in places.items() if asked[n].kept.key is not None}
        obstacles = await self._node.add_timers(timers, guards) if timers else []
        for obstacle in obstacles:
            await self._meet(asked, fresh, known, places[obstacle.index], obstacle)
        return all(one.is_in for one in obstacles)

    def _twins(self, asked: list[JobRequest]) -> dict[int, int]:
        """Where one has the key of another before it, which must ask for the same: the place of that."""
        twins: dict[int, int] = {}
        first: dict[str, int] = {}
        for index, one in enumerate(asked):
            if one.kept.key is None or (twin := first.setdefault(one.id, index)) == index:
                continue
            try:
                same(one, Standing(_new(asked[twin]), asked[twin].kept))
            except KeyTaken as error:
                raise _at(index, error) from None
            twins[index] = twin
        return twins

    async def _meet(
        self, asked: list[JobRequest], fresh: list[int], known: dict[int, Job], place: int, obstacle: Obstacle
    ) -> None:
        """Note the job that is there already; when it is another's, none of the fresh ones stays."""
        request = asked[place]
        there = await in_the_way(self._node.home(request.timer.id), request.timer.id, request.timer.name, obstacle)
        if there is None or there.kept is None:
            return
        taken: WakefulError | None = None
        try:
            known[place] = same(request, there).job
        except KeyTaken as error:
            taken = _at(place, error)
        if taken is not None:
            for other in fresh if obstacle.is_in else ():
                await self._withdraw(asked[other])
            raise taken
        if obstacle.is_in:
            await self._withdraw(request)

    # both

    async def _settle_links(self, asked: JobRequest) -> JobRequest:
        """Those it waits for must be known; the ones that are done already are left out."""
        if not asked.kept.waits:
            return asked
        waits = []
        for id in asked.kept.waits:
            target, name = parse_id(id)
            there = None if self._turn is None else sent_by_turn(self._turn, target, name)
            there = there or await standing(self._node, target, name)
            if there is None:
                raise UnknownJob(f"job {asked.timer.id}.{asked.kept.method} depends on {id}, which is not known")
            if there.job.state != "done":
                waits.append(id)
        if len(waits) == len(asked.kept.waits):
            return asked
        kept = replace(asked.kept, waits=tuple(waits))
        return with_timer(kept, asked.timer.id, asked.timer.seq, asked.timer.priority)

    async def _new_ones(self, asked: Sequence[JobRequest]) -> list[Job]:
        jobs = []
        for index, one in enumerate(asked):
            if index % BREATH == BREATH - 1:
                await self._node.clock.sleep(0)
            jobs.append(_new(one))
        return jobs

    def _with_errands(self, asked: JobRequest) -> list[Timer]:
        if not asked.kept.waits:
            return [asked.timer]
        return [asked.timer, *errands(self._node, self._feature.order, asked)]


def _new(asked: JobRequest) -> Job:
    return job_of_timer(asked.timer, asked.kept, is_running=False)


def sent_by_turn(turn: Turn, target: ObjectId, name: str) -> Standing | None:
    """A job that this very turn scheduled."""
    prefix = ask_prefix(name)
    for timer in reversed(turn.sends):
        if timer.id == target and (timer.name == name or timer.name.startswith(prefix)):
            found = timer if timer.name == name else asked_timer(timer)
            return Standing(job_of_timer(found, is_running=False), decode_kept(found), found)
    if target == turn.activation.id:
        own = turn.timers.get(name)
        if own is not None:
            return Standing(job_of_timer(own, is_running=False), decode_kept(own), own)
    return None


def unsend(feature: NodeJobs, turn: Turn, target: ObjectId, name: str) -> bool:
    """Take back a job that this very turn sent to an object; its batch counts it as cancelled."""
    prefix = ask_prefix(name)
    gone = [one for one in turn.sends if one.id == target and (one.name == name or one.name.startswith(prefix))]
    if not gone:
        return False
    turn.sends = [one for one in turn.sends if one not in gone]
    batch = decode_kept(gone[0]).batch if gone[0].name == name else None
    if batch is not None:
        completion, total = batch
        home, waiting = parse_id(completion)
        payload = [waiting, job_id(target, name), "cancelled", total]
        turn.send([errand(turn.activation.node, feature.order, TOLD, home, payload)])
    return True


def _at(index: int, error: WakefulError) -> WakefulError:
    """The same error, with the place of the job that it is about."""
    try:
        return type(error)(f"jobs[{index}]: {error.message}", code=error.code)
    except TypeError:
        return error
