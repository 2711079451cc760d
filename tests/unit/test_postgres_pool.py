"""A server with room for fewer connections than a store may have: it works with those, and gives nothing up."""

import asyncio
import logging

import pytest

from wakeful.store.postgres import pool
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.url import Target, parse_url
from wakeful.values.errors import StoreDown

TARGET = parse_url("postgresql://db/shop")


class Server:
    """Has room for so many connections, and counts who asks for one."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked = 0


class Line:
    """One connection to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.is_closed = False

    def drop(self) -> None:
        self.is_closed = True
        self._server.room += 1

    async def close(self) -> None:
        self.drop()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(2)

    async def connect(target: Target, *, packed: bool = False, readonly: bool = False) -> Line:
        await asyncio.sleep(0)
        made.asked += 1
        if not made.room:
            raise StoreDown("db has no connection left", code="store.connections")
        made.room -= 1
        return Line(made)

    monkeypatch.setattr("wakeful.store.postgres.pool.ServerWire.connect", connect)
    return made


async def use(of: Pool, times: int) -> int:
    """So many at once, each for a while; how many had one at the same time."""
    now = most = 0

    async def one() -> None:
        nonlocal now, most
        async with of.take():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

    await asyncio.gather(*(one() for _ in range(times)))
    return most


async def test_where_the_server_has_no_room_for_more_those_that_there_are_do(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The node gave the store up, with every object it had, whenever it was busy."""
    caplog.set_level(logging.WARNING)
    made = Pool(TARGET, 4)
    await made.warm()
    assert await asyncio.wait_for(use(made, 50), 20) == 2
    assert [record.code for record in caplog.records] == ["store.connections"]  # type: ignore[attr-defined]
    asked = server.asked
    assert await use(made, 50) == 2
    assert server.asked == asked, "it is not asked again with every statement"
    await made.close()


async def test_one_that_was_given_back_while_another_was_refused_does_too(server: Server) -> None:
    server.room = 1
    made = Pool(TARGET, 4)
    await made.warm()

    async def briefly() -> None:
        async with made.take():
            pass

    await asyncio.gather(briefly(), briefly(), briefly())
    await made.close()


async def test_when_there_is_room_again_it_is_used_by_and_by(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "REGROW_TAKES", 10)
    made = Pool(TARGET, 4)
    assert await use(made, 8) == 2
    server.room = 5
    await use(made, 40)
    assert await use(made, 8) == 4
    await made.close()


async def test_one_that_is_lost_is_made_again_and_without_any_the_refusal_is_told(server: Server) -> None:
    made = Pool(TARGET, 4)
    assert await use(made, 8) == 2
    async with made.take() as wire:
        wire.drop()
    assert await use(made, 8) == 2
    async with made.take() as one, made.take() as other:
        one.drop()
        other.drop()
        server.room = 0
    with pytest.raises(StoreDown, match="no connection left"):
        async with made.take():
            pass
    server.room = 1
    assert await use(made, 3) == 1
    await made.close()


async def test_who_is_refused_while_another_is_still_connecting_waits_for_that_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal comes sooner than a connection that is ready, so most of those who came after a loss failed."""
    connect = pool.ServerWire.connect

    async def slow(target: Target, *, packed: bool = False, readonly: bool = False) -> object:
        made = await connect(target, packed=packed, readonly=readonly)
        await asyncio.sleep(0.005)
        return made

    monkeypatch.setattr("wakeful.store.postgres.pool.ServerWire.connect", slow)
    server.room = 1
    made = Pool(TARGET, 4)
    async with made.take() as wire:
        wire.drop()
    assert await use(made, 8) == 1
    await made.close()
