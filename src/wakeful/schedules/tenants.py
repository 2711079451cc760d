"""Layer 4. What may one tenant have, who of all objects does a thing this time, and how is much spread over many?

A tenant is the part of an object's key before the first `/`. What is counted or claimed across objects is kept by a
reserved object, so that it is exact without locks or a leader.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec.structs import replace

from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import Turn
from wakeful.store.protocol import Query
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import BadOption, QuotaExceeded
from wakeful.values.ids import RESERVED, ObjectId, check_key, tenant_of
from wakeful.values.times import Duration, duration_ms, to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

TENANTS = "wakeful.Tenant"
CLAIMS = "wakeful.Claim"
SHARDS_MAX = 1_000
MINUTE_MS = 60_000
PAGE = 100


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one tenant may have at most; `tenants` says otherwise for single ones.

    >>> from wakeful import App, DurableObject, Quotas, errors
    >>> app = App(quotas=Quotas(schedules=100, tenants={"free": Quotas(schedules=1)}))
    >>> @app.object
    ... class Cron(DurableObject):
    ...     async def ring(self) -> None: ...
    >>> async with app.world() as world:
    ...     free = app.schedules(Cron, "free/a")
    ...     await free.add("@daily", "ring", name="one")
    ...     try:
    ...         await free.add("@daily", "ring", name="two")
    ...     except errors.QuotaExceeded as error:
    ...         print(error.code)
    quota.schedules
    """

    schedules: int | None = None
    rate: int | None = None  # schedules made a minute
    jobs: int | None = None  # pending ones; may be passed by what other nodes schedule within a second
    job_rate: int | None = None  # jobs scheduled a minute, at each node
    tenants: Mapping[str, "Quotas"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("schedules", "rate", "jobs", "job_rate"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise BadOption(f"quota {name} must be a whole number from 0, not {value!r}", code="quota.option")

    def of_jobs(self, tenant: str) -> tuple[int | None, int | None]:
        """How many jobs the tenant may have pending, and schedule a minute."""
        mine = self.tenants.get(tenant, self)
        return mine.jobs, mine.job_rate

    async def admit_schedule(self, turn: Turn, count: int) -> None:
        """The object wants to have so many schedules: `QuotaExceeded` when its tenant may not."""
        await self._tell(turn, count, is_new=True)

    async def release_schedule(self, turn: Turn, count: int) -> None:
        """The object has so many left."""
        await self._tell(turn, count, is_new=False)

    async def _tell(self, turn: Turn, count: int, *, is_new: bool) -> None:
        id = turn.activation.id
        tenant = tenant_of(id.key)
        mine = self.tenants.get(tenant, self)
        rate = mine.rate if is_new else None
        if id.cls.startswith(RESERVED) or (mine.schedules is None and rate is None):
            return
        await turn.activation.node.send(
            ObjectId(TENANTS, tenant), "admit", (str(id), count, mine.schedules, rate, is_new), {}
        )


class Tenant:
    """Knows how many schedules each object of a tenant has. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def admit(self, who: str, count: int, schedules: int | None, rate: int | None, is_asked: bool) -> None:
        """Each object says how many it will have in all, so a turn that fails after asking is put right by the next."""
        storage = self._ctx.storage
        tenant = self._ctx.key
        now = runtime_of(self._ctx).node.clock.now()
        if rate is not None:
            minute, made = await storage.get("rate", (0, 0))
            made = made if minute == now // MINUTE_MS else 0
            if made >= rate:
                raise QuotaExceeded(
                    f"tenant {tenant!r} made {made} schedules this minute, its quota `rate`; wait, or raise it",
                    code="quota.rate",
                )
            await storage.put("rate", (now // MINUTE_MS, made + 1))
        if schedules is None:
            return
        before, total = await storage.get(f"object:{who}", 0), await storage.get("total", 0)
        after = total - before + count
        if is_asked and after > schedules and count > before:
            raise QuotaExceeded(
                f"tenant {tenant!r} would have {after} schedules, its quota `schedules` is {schedules}; cancel some, or raise it",
                code="quota.schedules",
            )
        await (storage.put(f"object:{who}", count) if count else storage.delete(f"object:{who}"))
        await storage.put("total", after)


@dataclass(frozen=True, slots=True)
class Claim:
    """Who does it this time; true for the one who does."""

    is_won: bool
    winner: str
    claimed_at: datetime
    until: datetime

    def __bool__(self) -> bool:
        return self.is_won


class Claims:
    """Keeps who claimed a name last, and until when. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def take(self, who: str, run: str | None, window_ms: int) -> Claim:
        now = runtime_of(self._ctx).node.clock.now()
        held = await self._ctx.storage.get("held")
        if held is not None and now < held["until"]:
            # The very run that won may ask again: its turn failed after the claim and is tried once more.
            is_won = run is not None and (held["who"], held["run"]) == (who, run)
        else:
            is_won = True
            held = {"who": who, "run": run, "at": now, "until": now + window_ms}
            await self._ctx.storage.put("held", held)
        return Claim(is_won, held["who"], to_datetime(held["at"]), to_datetime(held["until"]))

    async def forget(self, who: str) -> None:
        """What that object claimed stays claimed, and nobody knows by whom."""
        held = await self._ctx.storage.get("held")
        if held is not None and held["who"] == who:
            await self._ctx.storage.put("held", held | {"who": "", "run": None})


async def claim(turn: Turn, name: str, window: Duration) -> Claim:
    """Ask for the sole right to do the named thing until the window is over."""
    window_ms = duration_ms(window, what="window")
    if window_ms < 1:
        raise BadOption("window must be longer than nothing", code="claim.window")
    run = turn.run
    arguments = (str(turn.activation.id), None if run is None else run.id, window_ms)
    answer: Claim = await turn.activation.node.send(ObjectId(CLAIMS, check_key(CLAIMS, name)), "take", arguments, {})
    return answer


async def erase(turn: Turn) -> None:
    """The object of this turn is forgotten: it is counted nowhere any more, and no claim says that it was its own."""
    node, id = turn.activation.node, turn.activation.id
    tenant = ObjectId(TENANTS, tenant_of(id.key))
    home = node.home(tenant)
    if await home.reading(home.store.read(tenant, USER, [f"object:{id}"])):
        await node.send(tenant, "admit", (str(id), 0, 0, None, False), {})
    query = Query(cls=CLAIMS, limit=PAGE)
    while claims := await home.reading(home.store.find_objects(query)):
        for info in claims:
            held = await home.reading(home.store.read(info.id, USER, ["held"]))
            if held and decode(held["held"])["who"] == str(id):
                await node.send(info.id, "forget", (str(id),), {})
            await node.clock.sleep(0)
        query = replace(query, after=tuple(claims[-1].id))


@dataclass(frozen=True, slots=True)
class Sharded:
    """A tenant's objects, so many of them, each with a part of its schedules. Make it with `sharded(…)`."""

    key: str
    count: int

    @property
    def keys(self) -> list[str]:
        return [f"{self.key}/shard-{index}" for index in range(self.count)]

    def key_for(self, name: str) -> str:
        """The object that has the schedule of this name; the same for ever."""
        return f"{self.key}/shard-{crc32(name.encode()) % self.count}"


def sharded(key: str, count: int) -> Sharded:
    """Spread one tenant's schedules over that many objects by name: for more than about 10,000 of them.

    >>> from wakeful import App, DurableObject, sharded
    >>> app = App()
    >>> @app.object
    ... class Cron(DurableObject):
    ...     async def ring(self) -> None: ...
    >>> async with app.world() as world:
    ...     acme = app.schedules(Cron, sharded("acme", 10))  # ten objects, one view
    ...     for n in range(30):
    ...         await acme.add("@daily", Cron.ring, name=f"job-{n}")
    ...     print(len(await acme.list()))
    30
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= SHARDS_MAX:
        raise BadOption(
            f"sharded: count must be a whole number from 1 to {SHARDS_MAX}, not {count!r}", code="sharded.count"
        )
    return Sharded(check_key("tenant", key), count)
