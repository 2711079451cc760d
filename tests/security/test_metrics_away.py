"""While the store does not answer, the page of metrics is for those whom it was for a few minutes ago, and nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.security.stage_security import Door, program


@asynccontextmanager
async def doors() -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        yield Door(app, world)


def take(door: Door, way: str) -> None:
    """The store refuses, or it hangs."""
    if way == "down":
        door.world.faults.is_down = True
    else:
        door.world.faults.gate = asyncio.Event()


def give(door: Door) -> None:
    door.world.faults.is_down = False
    gate, door.world.faults.gate = door.world.faults.gate, None
    if gate is not None:
        gate.set()


async def asked(door: Door, token: str | None = None, path: str = "/metrics") -> tuple[int, int]:
    """The status, and after how many seconds it came."""
    task = asyncio.ensure_future(door.ask("GET", path, token=token))
    seconds = 0
    await asyncio.sleep(0)
    while not task.done() and seconds < 60:
        await door.world.advance(milliseconds=500)
        seconds += 1
    return (await task).status, seconds // 2


@pytest.mark.parametrize("way", ["down", "hangs"])
async def test_who_was_let_in_reads_on_while_the_store_is_away(way: str) -> None:
    async with doors() as door:
        reader, other = await door.token("read"), await door.token("read")
        assert (await door.ask("GET", "/metrics", token=reader)).status == 200
        await door.world.advance(seconds=30)
        take(door, way)
        for _ in range(3):
            status, seconds = await asked(door, reader)
            assert (status, seconds < 3) == (200, True), seconds
            await door.world.advance(seconds=15)
        if way == "down":  # nobody else, and nothing else
            assert (await asked(door, other))[0] == 503
            assert (await asked(door))[0] == 401
            assert (await asked(door, reader[:-1] + ("a" if reader[-1] != "a" else "b")))[0] == 401
            assert (await asked(door, reader, "/v1/objects"))[0] == 503
            await door.world.advance(minutes=16)
            assert (await asked(door, reader))[0] == 503
        give(door)


async def test_this_machine_reads_on_without_tokens() -> None:
    async with doors() as door:
        assert (await door.ask("GET", "/metrics")).status == 200
        await door.world.advance(seconds=30)
        take(door, "down")
        assert (await asked(door))[0] == 200
        found = await door.ask("GET", "/metrics", client=("10.0.0.7", 1))
        assert found.status == 401
        give(door)


async def test_one_that_was_refused_or_has_expired_stays_refused() -> None:
    async with doors() as door:
        short, gone = await door.token("read", expires_ms=60_000), await door.token("read")
        await door.revoke(gone)
        await door.world.advance(seconds=2)
        assert (await door.ask("GET", "/metrics", token=short)).status == 200
        assert (await door.ask("GET", "/metrics", token=gone)).status == 401
        take(door, "down")
        await door.world.advance(seconds=30)
        assert (await door.ask("GET", "/metrics", token=short)).status == 200
        await door.world.advance(seconds=31)
        assert (await door.ask("GET", "/metrics", token=short)).code == "denied.expired"
        assert (await door.ask("GET", "/metrics", token=gone)).status == 401
        give(door)
