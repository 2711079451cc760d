"""The deadline of a call holds while a store that hangs is asked who calls."""

import asyncio
from typing import Any

import pytest

from tests.security.stage_security import Door, program
from wakeful.values.errors import StoreDown

CALL = "/v1/objects/Box/eu%2F1/put"


@pytest.mark.parametrize(("path", "headers"), [(CALL, {"Wakeful-Deadline": "2s"}), (f"{CALL}?deadline=2s", {})])
async def test_a_store_that_hangs_is_a_504_at_the_deadline(path: str, headers: dict[str, str]) -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("call")
        world.faults.gate = gate = asyncio.Event()
        task = asyncio.ensure_future(door.ask("POST", path, token=token, headers=headers, body=b'["x"]'))
        await world.advance(milliseconds=1_900)
        assert not task.done()
        await world.advance(milliseconds=200)
        try:
            assert task.done()
        finally:
            world.faults.gate = None
            gate.set()
        found = await task
        assert (found.status, found.code) == (504, "call.deadline")
        assert "nothing was done" in found.json["detail"]
        await world.advance(seconds=5)
        assert await world.info(app.box, "eu/1") is None  # type: ignore[attr-defined]


async def test_within_its_deadline_it_is_answered_and_refused_as_without() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token, other = await door.token("call"), await door.token("read")
        headers = {"Wakeful-Deadline": "2s"}
        assert (await door.ask("POST", CALL, token=token, headers=headers, body=b'["x"]')).status == 200
        assert (await door.ask("POST", CALL, token=other, headers=headers, body=b'["x"]')).status == 403
        assert (await door.ask("POST", CALL, headers=headers, body=b'["x"]')).status == 401
        odd = await door.ask("POST", CALL, token=token, headers={"Wakeful-Deadline": "soon"}, body=b'["x"]')
        assert (odd.status, odd.code) == (400, "deadline.form")


async def test_those_who_wait_no_longer_are_not_left_behind_without_bound() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world, requests_max=20)
        await door.token("call")
        await world.advance(seconds=2)
        world.faults.gate = gate = asyncio.Event()
        seen = set()
        before = len(asyncio.all_tasks())
        for _ in range(10):
            headers = {"Wakeful-Deadline": "1ms"}
            some = [door.ask("POST", CALL, token=f"wk_abcdefgh_{'a' * 43}", headers=headers) for _ in range(10)]
            asked = asyncio.gather(*some)
            await world.advance(milliseconds=10)
            seen |= {(found.status, found.code) for found in await asked}
        assert len(asyncio.all_tasks()) - before <= 20 + 10
        assert seen == {(504, "call.deadline"), (429, "server.share")}
        world.faults.gate = None
        gate.set()
        await world.advance(seconds=1)
        assert len(asyncio.all_tasks()) <= before


async def test_a_node_that_ends_meanwhile_is_a_503() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("admin")
        assert (await door.ask("GET", "/metrics", token=token)).status == 200
        await world.advance(seconds=2)
        world.faults.gate = gate = asyncio.Event()
        headers = {"Wakeful-Deadline": "60s"}
        asked = [
            asyncio.ensure_future(door.ask("POST", CALL, token=token, headers=headers, body=b'["x"]')),
            asyncio.ensure_future(door.ask("GET", "/metrics", token=token)),
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        world.kill()
        world.faults.gate = None
        gate.set()
        assert {found.status for found in await asyncio.gather(*asked)} <= {503, 200}
        await world.restart()


@pytest.mark.parametrize("headers", [{}, {"Wakeful-Deadline": "50s"}])
async def test_who_calls_is_waited_for_as_long_as_the_store_is(headers: dict[str, str]) -> None:
    """And not as long as its own patience lasts, with every other question before this one in line."""
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("call")
        world.faults.gate = gate = asyncio.Event()
        task = asyncio.ensure_future(door.ask("POST", CALL, token=token, headers=headers, body=b'["x"]'))
        await world.advance(milliseconds=app.deployment.limits.store_wait_ms - 100)
        assert not task.done()
        await world.advance(milliseconds=200)
        is_told = task.done()
        world.faults.gate = None
        gate.set()
        found = await task
        assert (is_told, found.status, found.code) == (True, 503, "store.down")
        await world.advance(seconds=5)
        assert await world.info(app.box, "eu/1") is None  # type: ignore[attr-defined]


async def test_a_call_waits_for_the_store_once_and_not_again_behind_the_question_who_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("call")
        admit = door.gate.admit

        async def slow(*args: Any, **options: Any) -> Any:
            caller = await admit(*args, **options)
            await world.warp.sleep(20_000)
            world.faults.is_down = True
            world.node.store_failed(StoreDown("away"))
            return caller

        monkeypatch.setattr(door.gate, "admit", slow)
        task = asyncio.ensure_future(door.ask("POST", CALL, token=token, body=b'["x"]'))
        await world.advance(milliseconds=app.deployment.limits.store_wait_ms - 100)
        assert not task.done()
        await world.advance(milliseconds=200)
        is_told = task.done()
        world.faults.is_down = False
        found = await task
        assert (is_told, found.status, found.code) == (True, 503, "store.down")
