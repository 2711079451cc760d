"""A store that is away when a program starts: waited for, and not for ever. In virtual time."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from wakeful import App
from wakeful.cli import program
from wakeful.lifecycle import SLOW_START_S
from wakeful.store.memory import MemoryStore
from wakeful.testing.timewarp import Timewarp
from wakeful.values.errors import StoreDown

WAIT_MS = 30_000


class Told:
    """Instead of a terminal."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def event(self, kind: str, text: str, **data: Any) -> None:
        self.events.append((kind, text))


class Start:
    """A program whose store is away until an instant."""

    def __init__(self, warp: Timewarp, *, until_ms: int, code: str = "store.down") -> None:
        self.warp, self.until_ms, self.code = warp, until_ms, code
        self.told, self.tries = Told(), 0

    @contextlib.asynccontextmanager
    async def _run(self) -> AsyncIterator[Any]:
        self.tries += 1
        if self.warp.now() < self.until_ms:
            raise StoreDown("postgresql://db/shop can't be reached", code=self.code)
        yield "the node"

    async def come_up(self) -> Any:
        say: Any = self.told
        async with contextlib.AsyncExitStack() as stack:
            return await program.come_up(stack, self._run, say, wait_ms=WAIT_MS)


@pytest.fixture
def start() -> Callable[..., contextlib.AbstractAsyncContextManager[Start]]:
    @contextlib.asynccontextmanager
    async def make(**options: Any) -> AsyncIterator[Start]:
        warp = Timewarp(0)
        warp.install()
        try:
            yield Start(warp, **options)
        finally:
            warp.remove()

    return make


async def test_a_store_that_comes_a_little_later_is_waited_for_with_one_line(start: Any) -> None:
    async with start(until_ms=20_000) as stage:
        assert await stage.come_up() == "the node"
        [(kind, text)] = stage.told.events
        assert kind == "waiting"
        assert "the store is away, and tried again for 30 s: postgresql://db/shop can't be reached" in text


async def test_a_store_that_stays_away_ends_the_start_with_its_own_error(start: Any) -> None:
    async with start(until_ms=10**9) as stage:
        with pytest.raises(StoreDown, match="can't be reached"):
            await stage.come_up()
        assert WAIT_MS <= stage.warp.now() <= WAIT_MS + 2_000


@pytest.mark.parametrize("code", ["store.auth", "store.database", "store.option", "store.rights"])
async def test_what_no_waiting_mends_ends_it_at_once(code: str, start: Any) -> None:
    async with start(until_ms=10**9, code=code) as stage:
        with pytest.raises(StoreDown):
            await stage.come_up()
        assert (stage.tries, stage.warp.now()) == (1, 0)


async def test_a_store_that_lets_nobody_in_is_said_while_it_does(caplog: pytest.LogCaptureFixture) -> None:
    warp = Timewarp(0)
    warp.install()

    class Slow(MemoryStore):
        async def open(self, *, now: int, readonly: bool = False) -> None:
            await warp.sleep(int(SLOW_START_S * 2_000))
            await super().open(now=now, readonly=readonly)

    try:
        async with App().run(Slow()):
            pass
    finally:
        warp.remove()
    [said] = [record for record in caplog.records if getattr(record, "code", "") == "store.start"]
    assert "has not let this node in for 5 s" in said.getMessage()
