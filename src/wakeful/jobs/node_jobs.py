"""Layer 4. What do the jobs of one node share?"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wakeful.jobs.ids import PREFIX
from wakeful.policy.order import Order
from wakeful.runtime.calls import resolve
from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.store.protocol import Query
from wakeful.values.errors import NotRunning, QuotaExceeded, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.metrics import Histogram
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime


# How have the jobs of this node been doing?

# 0, 1, 2–3, 4–7 … ms; past the last, everything from 12 days up.
DOUBLING_MS = tuple((1 << bits) - 1 for bits in range(31))


class JobCounters:
    """Since the process began; what a crash or a lost commit undid may have been counted."""

    __slots__ = (
        "cancelled",
        "duplicates",
        "duration",
        "lateness",
        "parked",
        "rescheduled",
        "retried",
        "run",
        "scheduled",
    )

    def __init__(self) -> None:
        self.scheduled = 0
        self.run = 0  # ended well
        self.retried = 0  # attempts that failed and will be tried again
        self.rescheduled = 0  # returned `Again`
        self.parked = 0
        self.cancelled = 0  # by somebody, by `Stop`, or with a job that they waited for
        self.duplicates = 0  # keys that came twice at once
        self.lateness = Histogram(DOUBLING_MS)
        self.duration = Histogram(DOUBLING_MS)

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[name] = _lengths(value) if isinstance(value, Histogram) else value
        return found


def _lengths(found: Histogram) -> dict[str, Any]:
    return {
        "count": found.count,
        "sum_ms": found.sum,
        "p50_ms": found.percentile(50),
        "p99_ms": found.percentile(99),
        "buckets": list(found.counts),
    }


FEATURE = "jobs"
COUNT_KEEP_MS = 1_000  # how long a count of a tenant's jobs is believed
FULL_KEEP_MS = 100  # and one that fills its quota: some may have run since, but each look reads all of them
COUNT_PAGE = 2_000
TENANTS_MAX = 10_000  # counts held at once; more are counted anew
MINUTE_MS = 60_000

# Of a tenant: how many jobs it may have pending, and schedule a minute; None: any number.
Quota = Callable[[str], tuple[int | None, int | None]]


class NodeJobs:
    """What the jobs of one node share."""

    def __init__(self, node: NodeRuntime, quota: Quota | None) -> None:
        self.order = Order(node.name)
        self.counts = JobCounters()
        self.waits = JobWaiters()
        self.tenants = Tenants(node, quota) if quota is not None else None

    def counters(self) -> dict[str, Any]:
        """What was counted since the node began, as plain values."""
        return self.counts.plain()

    async def admit(self, timers: list[Timer]) -> None:
        """`QuotaExceeded` when a tenant may not have so many more."""
        if self.tenants is not None:
            await self.tenants.admit(timers)


def feature_of(node: NodeRuntime) -> NodeJobs:
    """The jobs of this node."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeJobs):
        raise NotRunning("this node runs without jobs; start it with app.run(…)", code="job.feature")
    return found


class JobWaiters:
    """Who waits here for a job to end, so that they need not look at the store all the time."""

    def __init__(self) -> None:
        self._futures: dict[tuple[ObjectId, str], list[asyncio.Future[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, id: ObjectId, name: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.setdefault((id, name), []).append(future)
        return future

    def remove(self, id: ObjectId, name: str, future: asyncio.Future[None]) -> None:
        left = [one for one in self._futures.pop((id, name), ()) if one is not future]
        if left:
            self._futures[id, name] = left

    def on_end(self, activation: "ObjectRuntime", name: str) -> None:
        """It ends in the turn that runs now: wake those who wait once that is on disk."""
        if self._futures and (activation.id, name) in self._futures:
            asyncio.get_running_loop().call_soon(self._follow, activation, name)

    def _follow(self, activation: "ObjectRuntime", name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._wake(activation, name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self, activation: "ObjectRuntime", name: str) -> None:
        try:
            await activation.settle()
        except Unavailable:
            return  # they look again by themselves
        for future in self._futures.get((activation.id, name), ()):
            resolve(future, None)


class Tenants:
    """How many jobs each tenant has pending: counted in the store now and then, and by what is scheduled here between.

    So a tenant can pass its quota by what other nodes schedule within a second, and no more.
    """

    def __init__(self, node: NodeRuntime, quota: Quota) -> None:
        self._node = node
        self._quota = quota
        self._counts: dict[str, tuple[int, int]] = {}  # when counted, how many
        self._made: dict[str, tuple[int, int]] = {}  # the minute, how many
        self._counting = asyncio.Lock()

    async def admit(self, timers: list[Timer]) -> None:
        """Take them all in, or raise and take none."""
        wanted: dict[str, int] = {}
        for timer in timers:
            tenant = timer.id.key.partition("/")[0]
            wanted[tenant] = wanted.get(tenant, 0) + 1
        if len(self._counts) > TENANTS_MAX:
            minute = self._node.clock.now() // MINUTE_MS
            self._counts.clear()
            self._made = {tenant: made for tenant, made in self._made.items() if made[0] == minute}
        for tenant in wanted:
            most = self._quota(tenant)[0]
            if most is not None:
                await self._count(tenant, most)
        # From here on nothing waits, or callers at the same moment would all be let in.
        now = self._node.clock.now()
        minute = now // MINUTE_MS
        for tenant, more in wanted.items():
            jobs, rate = self._quota(tenant)
            made = self._made_in(minute, tenant)
            if rate is not None and made + more > rate:
                raise QuotaExceeded(
                    f"tenant {tenant!r} scheduled {made} jobs this minute and wants {more} more, "
                    f"its quota `job_rate` is {rate}; wait, or raise it",
                    code="quota.job_rate",
                )
            if jobs is not None:
                _, there = self._counts.get(tenant, (now, 0))
                if there + more > jobs:
                    raise QuotaExceeded(
                        f"tenant {tenant!r} would have {there + more} pending jobs, its quota `jobs` is {jobs}; "
                        "let some run, cancel some, or raise it",
                        code="quota.jobs",
                    )
        for tenant, more in wanted.items():
            self._made[tenant] = (minute, self._made_in(minute, tenant) + more)
            at, there = self._counts.get(tenant, (now, 0))
            self._counts[tenant] = (at, there + more)

    def _made_in(self, minute: int, tenant: str) -> int:
        at, made = self._made.get(tenant, (minute, 0))
        return made if at == minute else 0

    def _is_known(self, tenant: str, most: int) -> bool:
        counted_at, count = self._counts.get(tenant, (-COUNT_KEEP_MS, 0))
        return self._node.clock.now() - counted_at < (COUNT_KEEP_MS if count < most else FULL_KEEP_MS)

    async def _count(self, tenant: str, most: int) -> None:
        if self._is_known(tenant, most):
            return
        async with self._counting:
            if not self._is_known(tenant, most):
                found = 0
                for home in self._node.all_homes:
                    found += await _pending(home, most, key=tenant)
                    found += await _pending(home, most, key_prefix=f"{tenant}/")
                self._counts[tenant] = (self._node.clock.now(), found)


async def _pending(node: NodeRuntime, most: int, **where: Any) -> int:
    count, after = 0, None
    while count <= most:
        query = Query(name_prefix=f"{PREFIX}:", limit=COUNT_PAGE, after=after, **where)
        page = await node.reading(node.store.find_timers(query))
        count += len(page)
        if len(page) < COUNT_PAGE:
            break
        after = page[-1].sort_key
    return count
