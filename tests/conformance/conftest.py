"""Which stores the conformance suites run on, and the stage that the suites of objects play on."""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from wakeful import AlarmInfo, App, Context, DurableObject, reader
from wakeful.sql import feature
from wakeful.sql.connection import ImageConnection
from wakeful.sql.paged_connection import PagedConnection
from wakeful.store import Store
from wakeful.testing import World
from wakeful.testing.buckets import EmulatedBucket

# Those of `make test`. The bucket has the tables and most of the code of the SQLite store: of it only the suite of stores
# runs there (`test_stores.py`), and everything in `make bucket`.
STORES = os.environ.get("WAKEFUL_TEST_STORES", "memory,sqlite,postgres").split(",")


@pytest.fixture(params=STORES)
def new_store(request: pytest.FixtureRequest, store_of: Callable[[str], Store]) -> Callable[[], Store]:
    """Makes a new and empty store of one kind at every call."""
    kind: str = request.param
    return lambda: store_of(kind)


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind."""
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/objects.db"
    if request.param == "bucket":
        return EmulatedBucket().url(cache=tmp_path / "cache")
    url: str = request.getfixturevalue("postgres_schema_url")
    return url


ENGINES: dict[str, Any] = {"stdlib": ImageConnection, "apsw": PagedConnection}


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Databases of objects with the standard library, and with apsw."""
    monkeypatch.setattr(feature, "connection_type", lambda: ENGINES[request.param])
    name: str = request.param
    return name


Act = Callable[[Any], Awaitable[Any]]


class Stage:
    """An app with one scripted class: what its turns and handlers do is written in the test itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = App()
        self.Bell = self.app.object(Bell)
        self.Mute = self.app.object(Mute)
        self.acts: dict[str, Act] = {}
        self.handlers: dict[str, Callable[[Any, AlarmInfo], Awaitable[Any]]] = {}
        self.on_new: Callable[[Any], Any] | None = None
        self.on_wake: Act | None = None
        self.news: list[str] = []  # keys, one per constructor
        self.fired: list[tuple[str, AlarmInfo, datetime]] = []  # key, info, when: one per start of a handler
        self._names = count()

    def world(self, **options: Any) -> World:
        options.setdefault("store", self.url)
        return self.app.world(**options)

    def restock(self, **options: Any) -> None:
        """The same classes in an app with other options."""
        self.app = App(**options)
        self.app.object(Bell)
        self.app.object(Mute)

    def act(self, body: Act) -> str:
        """A name under which `do` and `peek` run the body."""
        name = f"act-{next(self._names)}"
        self.acts[name] = body
        return name

    def do(self, body: Act, key: str = "a", *, cls: type[Any] | None = None, **options: Any) -> Any:
        """Run the body as a turn of the object."""
        return self.app.get(cls or Bell, key, **options).do(self.act(body))

    def peek(self, body: Act, key: str = "a", **options: Any) -> Any:
        """Run the body as a @reader of the object."""
        return self.app.get(Bell, key, **options).peek(self.act(body))

    def times(self, key: str = "a") -> list[datetime]:
        return [at for name, _, at in self.fired if name == key]

    def infos(self, key: str = "a") -> list[AlarmInfo]:
        return [info for name, info, _ in self.fired if name == key]

    async def set_alarm(self, when: Any, key: str = "a") -> None:
        async def body(self: Any) -> None:
            await self.storage.set_alarm(when)

        await self.do(body, key)

    async def get_alarm(self, key: str = "a") -> datetime | None:
        async def body(self: Any) -> Any:
            return await self.storage.get_alarm()

        found: datetime | None = await self.do(body, key)
        return found

    async def delete_alarm(self, key: str = "a") -> None:
        async def body(self: Any) -> None:
            await self.storage.delete_alarm()

        await self.do(body, key)


class Bell(DurableObject):
    """An object whose constructor, wake, turns and alarm are scripted by the stage."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.memory: list[Any] = []
        stage = _stage()
        stage.news.append(ctx.key)
        if stage.on_new is not None:
            stage.on_new(self)

    async def on_wake(self) -> None:
        wake = _stage().on_wake
        if wake is not None:
            await wake(self)

    async def do(self, name: str) -> Any:
        return await _stage().acts[name](self)

    @reader
    async def peek(self, name: str) -> Any:
        return await _stage().acts[name](self)

    async def alarm(self, info: AlarmInfo) -> None:
        stage = _stage()
        stage.fired.append((self.ctx.key, info, self.ctx.now()))
        handler = stage.handlers.get(self.ctx.key)
        if handler is not None:
            await handler(self, info)


class Mute(DurableObject):
    """A class without an alarm."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        stage = _stage()
        stage.news.append(ctx.key)
        if stage.on_new is not None:
            stage.on_new(self)

    async def do(self, name: str) -> Any:
        return await _stage().acts[name](self)


_stages: list[Stage] = []


def _stage() -> Stage:
    return _stages[-1]


@contextmanager
def staging(url: str) -> Iterator[Stage]:
    """A stage on which its classes act, for as long as the block lasts."""
    _stages.append(Stage(url))
    yield _stages[-1]
    _stages.pop()


@pytest.fixture
def stage(store_url: str) -> Iterator[Stage]:
    """A fresh stage on each store in turn."""
    with staging(store_url) as stage:
        yield stage


@pytest.fixture(params=["told", "untold", "postgres", "bucket"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Makes a troupe and its world of three nodes, on every kind of store that several can share.

    "told" tells of changes and of dead nodes; "untold" leaves both to scans and leases.
    """
    from tests.conformance.cluster_stage import Troupe

    def make(nodes: int = 3, **options: Any) -> Any:
        troupe = Troupe()
        if request.param == "postgres":
            options["store"] = request.getfixturevalue("postgres_schema_url")
        elif request.param == "bucket":
            options["store"] = EmulatedBucket().url(cache=tmp_path / "cache")
        else:
            options["listens"] = options["sees"] = request.param == "told"
        troupe.world = troupe.app.world(nodes=nodes, **options)
        return troupe, troupe.world

    return make
