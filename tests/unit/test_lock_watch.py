"""When a lock on a table of ours is worth telling: in virtual time, with a store that says what it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from wakeful import App
from wakeful.http.health import why_not
from wakeful.runtime.lock_watch import LONG_MS, LOOK_MS, LockWatch
from wakeful.store.protocol import TableLock
from wakeful.telemetry.catalogue import CATALOGUE
from wakeful.testing.timewarp import Timewarp
from wakeful.values.errors import StoreDown

LOCK = TableLock("objects", 4711, "3/17", is_readable=False)


class Shown:
    """A store that shows these locks, or fails."""

    shows_locks = True

    def __init__(self) -> None:
        self.now: list[TableLock] | Exception = []
        self.looks = 0

    async def locks(self) -> list[TableLock]:
        self.looks += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


class Stage:
    """A watch on such a store."""

    def __init__(self, warp: Timewarp) -> None:
        self.warp, self.store = warp, Shown()
        self.node: Any = SimpleNamespace(store=self.store, clock=warp, is_clustered=True)
        self.watch = LockWatch(self.node)

    async def seen(self, length_ms: int, *locks: TableLock) -> TableLock | None:
        """What it tells after these were held for so long."""
        self.store.now = list(locks)
        await self.warp.sleep(length_ms)
        return self.watch.held_lock


@asynccontextmanager
async def watching() -> AsyncIterator[Stage]:
    warp = Timewarp(0)
    warp.install()
    try:
        stage = Stage(warp)
        stage.watch.start()
        yield stage
        stage.watch.stop()
    finally:
        warp.remove()


async def test_a_lock_is_told_once_it_is_no_hiccup_and_until_it_is_gone() -> None:
    async with watching() as stage:
        assert await stage.seen(LONG_MS + LOOK_MS // 2, LOCK) is None
        assert await stage.seen(LOOK_MS, LOCK) == LOCK
        assert await stage.seen(60_000, LOCK) == LOCK
        assert await stage.seen(LOOK_MS) is None


async def test_locks_that_come_and_go_are_a_server_that_works() -> None:
    """A program takes one for a second, again and again: each is another transaction, on one session."""
    async with watching() as stage:
        for number in range(60):
            held = TableLock("timers", 4711, f"3/{number}", is_readable=True)
            assert await stage.seen(LOOK_MS, held) is None


async def test_the_first_that_was_taken_is_named() -> None:
    async with watching() as stage:
        later = TableLock("timers", 4712, "4/1", is_readable=False)
        await stage.seen(LOOK_MS * 2, LOCK)
        assert await stage.seen(LONG_MS * 2, LOCK, later) == LOCK
        assert await stage.seen(LOOK_MS, later) == later


async def test_nothing_is_told_of_locks_while_the_store_does_not_answer() -> None:
    async with watching() as stage:
        assert await stage.seen(LONG_MS * 2, LOCK) == LOCK
        stage.store.now = StoreDown("away")
        await stage.warp.sleep(LOOK_MS)
        assert stage.watch.held_lock is None
        assert await stage.seen(LONG_MS * 2, LOCK) == LOCK


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "store.locked"]


async def test_a_lock_is_said_once_and_its_end_once_though_the_store_is_away_in_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every look that failed said that no table was locked any more, and the next that one was."""
    async with watching() as stage:
        await stage.seen(LONG_MS * 2, LOCK)
        for _ in range(3):
            stage.store.now = StoreDown("away")
            await stage.warp.sleep(LOOK_MS * 2)
            await stage.seen(LONG_MS * 2, LOCK)
        await stage.seen(LOOK_MS * 2)
    [locked, over] = said(caplog)
    assert "the table objects is locked by session 4711" in locked
    assert "no table is locked any more" in over


async def test_that_it_is_over_is_said_by_the_first_look_that_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with watching() as stage:
        await stage.seen(LONG_MS * 2, LOCK)
        stage.store.now = StoreDown("away")
        await stage.warp.sleep(LOOK_MS * 2)
        assert len(said(caplog)) == 1
        await stage.seen(LOOK_MS * 2)
        assert "no table is locked any more" in said(caplog)[-1]


async def test_an_outage_that_a_lock_makes_is_not_said_beside_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held: list[TableLock] = [LOCK]
    monkeypatch.setattr(LockWatch, "held_lock", property(lambda self: next(iter(held), None)))
    async with App().world() as world:
        outage = world.node.outage
        for expected in (set[str](), {"store.down", "store.up"}):
            outage.begin(StoreDown("no answer in time"))
            assert world.node.state == "down"
            await world.advance(seconds=10)
            assert world.node.state == "up"
            assert {getattr(record, "code", "") for record in caplog.records} == expected
            held.clear()


async def test_how_long_it_has_been_held_is_a_metric() -> None:
    async with watching() as stage:
        await stage.seen(LOOK_MS * 2, LOCK)
        assert stage.watch.held_ms == 0  # no hiccup yet
        await stage.seen(60_000, LOCK)
        assert 60_000 <= stage.watch.held_ms <= 62_000
        [metric] = [one for one in CATALOGUE if one.prometheus == "wakeful_store_locked_seconds"]
        [(_, value)] = metric.read(SimpleNamespace(lock_watch=stage.watch))  # type: ignore[arg-type]
        assert value * metric.scale == stage.watch.held_ms / 1000
        await stage.seen(LOOK_MS * 2)
        assert stage.watch.held_ms == 0


async def test_the_store_is_asked_once_a_second_at_most() -> None:
    async with watching() as stage:
        await stage.seen(60_000, LOCK)
        assert 55 <= stage.store.looks <= 60


async def test_a_server_that_shows_no_locks_is_not_asked_again() -> None:
    async with watching() as stage:
        await stage.seen(LOOK_MS * 2)
        stage.store.shows_locks = False
        looks = stage.store.looks
        await stage.seen(60_000)
        assert stage.store.looks <= looks + 1


@pytest.mark.parametrize(
    ("lock", "reason"),
    [
        (LOCK, "the table objects is locked by session 4711 of the database, and can't be read"),
        (
            TableLock("ledger", None, "-1/99", is_readable=True),
            "the table ledger is locked by a prepared transaction, and can't be written",
        ),
    ],
)
async def test_what_readyz_says_of_it(lock: TableLock, reason: str) -> None:
    async with watching() as stage:
        assert await stage.seen(LONG_MS * 2, lock) == lock
        home: Any = SimpleNamespace(state="down", lock_watch=stage.watch)
        ask: Any = SimpleNamespace(deployment=SimpleNamespace(node=SimpleNamespace(all_homes=[home])), is_full=False)
        assert why_not(ask) == reason
