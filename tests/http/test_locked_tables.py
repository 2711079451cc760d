"""Somebody holds a table: who looks is told so soon, operators with the session, and others no more than that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.http.http_stage import Stage, opened, problem
from wakeful.runtime.lock_watch import LONG_MS, LockWatch
from wakeful.security.patience import LOCKED_MS
from wakeful.store.protocol import TableLock
from wakeful.values.errors import StoreDown
from wakeful.views import objects, parked

LOCK = TableLock("objects", 4711, "3/17", is_readable=False)
LISTS = ["objects", "parked", "classes", "due", "ledger", "schedules", "jobs", "search?q=x", "objects/Shop/a/storage"]


@asynccontextmanager
async def locked(stage: Stage, lock: TableLock = LOCK) -> AsyncIterator[None]:
    """The watch of the node has seen this for long."""
    node = stage.app.deployment.node
    assert node is not None
    watch = node.lock_watch
    watch._since, watch._long = {("objects", "3/17"): node.clock.now() - LONG_MS}, {("objects", "3/17"): lock}
    try:
        yield
    finally:
        watch._forget()


def hang(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Every question to the store waits for the lock."""
    node = stage.app.deployment.node
    assert node is not None

    async def never(*args: Any, **kwargs: Any) -> Any:
        await asyncio.Event().wait()

    for name in ("find_objects", "find_parked", "find_timers", "find_entries", "count", "load"):
        monkeypatch.setattr(type(node.store), name, never)


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_that_waits_for_a_lock_ends_soon_and_says_so(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as stage, locked(stage):
        hang(monkeypatch, stage)
        before = stage.world.warp.now()
        found = problem(await stage.ask("GET", f"/v1/{path}"), 503, "store.locked")
        assert stage.world.warp.now() - before <= LOCKED_MS + 1_000
        assert "4711" in found["detail"]  # without a token everybody here is an operator


async def test_lists_that_wait_behind_one_that_waits_for_a_lock_end_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as stage, locked(stage):
        hang(monkeypatch, stage)
        before = stage.world.warp.now()
        for answer in await asyncio.gather(*(stage.ask("GET", "/v1/objects") for _ in range(5))):
            problem(answer, 503, "store.locked")
        assert stage.world.warp.now() - before <= LOCKED_MS + 1_000


@pytest.mark.parametrize(("scopes", "is_told"), [(("read",), False), (("read", "operate"), True)])
async def test_who_holds_it_is_for_operators(
    scopes: tuple[str, ...], is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*args: Any, **kwargs: Any) -> Any:
        raise StoreDown("canceling statement due to statement timeout at db.example.com")

    monkeypatch.setattr(objects, "page", down)
    async with opened() as stage:
        token = await stage.token("looker", *scopes)
        headers = {"authorization": f"Bearer {token}"}
        async with locked(stage):
            found = problem(await stage.ask("GET", "/v1/objects", headers=headers), 503, "store.locked")
            assert found["error"] == "StoreDown"
            assert "example.com" not in found["detail"]
            if is_told:
                assert "the table objects is locked by session 4711 of the database" in found["detail"]
                assert "pg_terminate_backend(4711)" in found["detail"]
            else:
                assert found["detail"] == "a table of the store is locked; try again"
        found = problem(await stage.ask("GET", "/v1/objects", headers=headers), 503, "store.down")
        assert found["detail"] == "the store can't be reached now; try again"


async def test_a_lock_in_whose_way_nobody_is_ends_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another table than the list needs is held, or one that can be read."""
    async with opened() as stage:
        async with locked(stage):
            assert (await stage.ask("GET", "/v1/parked")).status_code == 200
        page = parked.page

        async def slow(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(4 * LOCKED_MS / 1000)
            return await page(*args, **kwargs)

        monkeypatch.setattr(parked, "page", slow)
        async with locked(stage, TableLock("objects", 4711, "3/17", is_readable=True)):
            assert (await stage.ask("GET", "/v1/parked")).status_code == 200
        assert (await stage.ask("GET", "/v1/parked")).status_code == 200


async def test_a_lock_that_is_seen_while_a_list_waits_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as stage:
        hang(monkeypatch, stage)
        asked = asyncio.ensure_future(stage.ask("GET", "/v1/objects"))
        await asyncio.sleep(3 * LOCKED_MS / 1000)
        assert not asked.done()
        async with locked(stage):
            problem(await asked, 503, "store.locked")


def test_of_several_locks_one_that_keeps_from_reading_is_meant() -> None:
    watch = LockWatch(env=None)  # type: ignore[arg-type]
    writes = TableLock("ledger", 1, "1", is_readable=True)
    watch._long = {("ledger", "1"): writes}
    assert watch.unreadable is None
    watch._long = {("ledger", "1"): writes, ("objects", "3/17"): LOCK}
    assert watch.unreadable == LOCK
