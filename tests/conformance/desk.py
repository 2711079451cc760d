"""A class whose jobs do what the test says, and what became of them."""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from wakeful import App, DurableObject, Job, internal
from wakeful.testing import World

START = datetime(2026, 1, 1, tzinfo=UTC)

Handler = Callable[[Any, Job], Awaitable[Any]]


def at(seconds: float) -> datetime:
    """So many seconds into the world."""
    return START + timedelta(seconds=seconds)


def since(when: datetime) -> float:
    """How many seconds into the world that was."""
    return (when - START).total_seconds()


class Seen(NamedTuple):
    """One start of a job."""

    label: Any
    at: float
    job: Job
    object: str


class Desk:
    """An app with one class, `Clerk`; what its jobs do is found by their first argument."""

    def __init__(self, stage: Any, **options: Any) -> None:
        self.url: str = stage.url
        self.app = App(**options)
        self.jobs = self.app.jobs
        self.handlers: dict[Any, Handler] = {}
        self.seen: list[Seen] = []
        made = _clerk(self)
        made.__module__ = sys._getframe(1).f_globals["__name__"]  # that of the test: its functions may be policies
        self.Clerk: Any = self.app.object(made)
        self._acts: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self._names = count()

    def world(self, **options: Any) -> World:
        options.setdefault("store", self.url)
        return self.app.world(**options)

    def at(self, key: str = "a") -> Any:
        return self.app.get(self.Clerk, key)

    def do(self, body: Callable[[Any], Awaitable[Any]], key: str = "a", **options: Any) -> Any:
        """Run the body as a turn of the object."""
        name = f"act-{next(self._names)}"
        self._acts[name] = body
        return self.app.get(self.Clerk, key, **options).do(name)

    async def act(self, name: str, clerk: Any) -> Any:
        return await self._acts[name](clerk)

    @property
    def labels(self) -> list[Any]:
        """What began, in order."""
        return [seen.label for seen in self.seen]

    @property
    def times(self) -> list[float]:
        return [seen.at for seen in self.seen]

    async def effects(self, world: World, key: str = "a") -> dict[Any, int]:
        """How often each job's effect is in the object's storage."""
        rows = await world.rows(self.Clerk, key)
        return {name.removeprefix("did:"): times for name, times in rows.items() if name.startswith("did:")}

    async def state(self, job: Job) -> str:
        return (await self.jobs.get(job.id)).state


def _clerk(desk: Desk) -> type:
    class Clerk(DurableObject):
        async def do(self, name: str) -> Any:
            return await desk.act(name, self)

        async def work(self, label: Any = "w", *rest: Any, **more: Any) -> Any:
            job = self.ctx.job
            desk.seen.append(Seen(label, since(self.ctx.now()), job, self.ctx.key))
            did = f"did:{label}"
            await self.storage.put(did, await self.storage.get(did, 0) + 1)
            handler = desk.handlers.get(label)
            return None if handler is None else await handler(self, job)

        async def other(self, label: Any = "o") -> Any:
            return await self.work(label)

        @internal
        async def hidden(self, label: Any = "h") -> Any:
            return await self.work(label)

        async def policy(self, job: Job, error: BaseException) -> datetime | None:
            return self.ctx.now() + timedelta(seconds=7) if job.attempt < 3 else None

        def sync(self) -> None: ...

    return Clerk


def failing(times: int = 10**9, error: type[BaseException] = ValueError) -> Handler:
    """A handler that raises at its first so many starts."""
    left = [times]

    async def handler(clerk: Any, job: Job) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error("on purpose")

    return handler
