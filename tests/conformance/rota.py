"""A class whose scheduled handlers are written in the test itself, and what became of its occurrences."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from wakeful import App, DurableObject, Run
from wakeful.store.protocol import Query
from wakeful.testing import World

START = datetime(2026, 1, 1, tzinfo=UTC)
MISSED = ("skipped", "too_late", "coalesced")

Handler = Callable[[Any, Run], Awaitable[Any]]


def after(seconds: float) -> datetime:
    """So many seconds into the world."""
    return START + timedelta(seconds=seconds)


def since(when: datetime) -> float:
    """How many seconds into the world that was."""
    found = (when - START).total_seconds()
    return int(found) if found == int(found) else found


class Rota:
    """An app with one class, `Clock`; what its handlers do is found by the name of the schedule."""

    def __init__(self, stage: Any, **options: Any) -> None:
        self.url: str = stage.url
        self.app = App(**options)
        self.handlers: dict[str, Handler] = {}
        self.on_wake: Callable[[Any], Awaitable[Any]] | None = None
        self.on_missed: Callable[[Any, Any], Awaitable[Any]] | None = None
        self.began: list[Run] = []  # one per start of a handler
        self.given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []  # its arguments
        self.told: list[Any] = []  # what `on_missed` was given
        self.Clock: Any = self.app.object(_clock(self))
        self._acts: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self._names = count()

    def world(self, **options: Any) -> World:
        options.setdefault("store", self.url)
        return self.app.world(**options)

    def on(self, key: str = "a") -> Any:
        """The object's schedules, from outside."""
        return self.app.schedules(self.Clock, key)

    def do(self, body: Callable[[Any], Awaitable[Any]], key: str = "a") -> Any:
        """Run the body as a turn of the object."""
        return self.app.get(self.Clock, key).do(self.name(body))

    def name(self, body: Callable[[Any], Awaitable[Any]]) -> str:
        """A name under which `Clock.do` runs the body."""
        name = f"act-{next(self._names)}"
        self._acts[name] = body
        return name

    async def act(self, name: str, clock: Any) -> Any:
        return await self._acts[name](clock)

    @property
    def times(self) -> list[float]:
        """When handlers began."""
        return [since(run.fired_at) for run in self.began]

    @property
    def nominal(self) -> list[float]:
        """For which times they began."""
        return [since(run.nominal_at) for run in self.began]


def _clock(rota: Rota) -> type:
    class Clock(DurableObject):
        async def on_wake(self) -> None:
            if rota.on_wake is not None:
                await rota.on_wake(self)

        async def do(self, name: str) -> Any:
            return await rota.act(name, self)

        async def tick(self, *args: Any, run: Run, **kwargs: Any) -> Any:
            rota.began.append(run)
            rota.given.append((args, kwargs))
            effect = f"effect:{run.id}"
            await self.storage.put(effect, await self.storage.get(effect, 0) + 1)
            handler = rota.handlers.get(run.name.partition(":")[2])
            return None if handler is None else await handler(self, run)

        async def missed(self, about: Any) -> None:
            rota.told.append(about)
            await self.storage.put("told", await self.storage.get("told", 0) + about.count)
            if rota.on_missed is not None:
                await rota.on_missed(self, about)

        def sync(self) -> None: ...

    return Clock


async def verdicts(world: World, rota: Rota, name: str = "s", key: str = "a") -> list[tuple[float, str]]:
    """The ledger of a schedule in the order of writing: nominal seconds, verdict."""
    return [
        (since(run.nominal_at), str(run.verdict)) for run in await world.ledger(rota.Clock, key, f"schedule:{name}")
    ]


async def fates(world: World, rota: Rota, name: str = "s", key: str = "a") -> dict[float, str]:
    """The final verdict of every occurrence, after checking that there is one of each.

    Attempts that were tried again are rows too, but nothing may follow a verdict that is not `failed`.
    """
    by_run: dict[tuple[float, str], list[str]] = {}
    for run in await world.ledger(rota.Clock, key, f"schedule:{name}", limit=10_000):
        by_run.setdefault((since(run.nominal_at), run.id), []).append(str(run.verdict))
    found: dict[float, str] = {}
    for (nominal, _), rows in by_run.items():
        assert all(verdict == "failed" for verdict in rows[:-1]), f"{nominal}: {rows}"
        assert nominal not in found, f"{nominal}: {found[nominal]} and {rows}"
        found[nominal] = rows[-1]
    return dict(sorted(found.items()))


async def effects(world: World, rota: Rota, key: str = "a") -> dict[str, int]:
    """How often each run's effect is in the object's storage."""
    rows = await world.rows(rota.Clock, key)
    return {name.removeprefix("effect:"): times for name, times in rows.items() if name.startswith("effect:")}


async def timers(world: World, rota: Rota, key: str = "a") -> dict[str, float]:
    """What the object's timers are set for."""
    found = await world.store.find_timers(Query(cls=rota.Clock.__name__, key=key, limit=1000))
    return {timer.name: since(datetime.fromtimestamp(timer.due_at / 1000, UTC)) for timer in found}


def failing(times: int = 10**9, error: type[Exception] = ValueError) -> Handler:
    """A handler that raises at its first so many starts."""
    left = [times]

    async def handler(clock: Any, run: Run) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error("on purpose")

    return handler
