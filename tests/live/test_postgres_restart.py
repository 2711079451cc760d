"""PostgreSQL goes away under load and comes back: callers hear only that we are unavailable, and nothing is lost."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.harness import IS_LONG, check_async, settle
from tests.live.postgres import FAST, IMMEDIATE, Server, cut_writer, kill_writer, server
from tests.live.programs.tally import Load
from tests.live.stage import Stage
from tests.yardstick import PATIENCE_S
from wakeful.store.protocol import Query

STOPS = 12 if IS_LONG else 4
CUTS = 200 if IS_LONG else 25
CRASHES = 12 if IS_LONG else 3
CALLERS = 8


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    with server() as made:
        yield made


async def test_node_survives_restarts_of_the_server(own_server: Server) -> None:
    stage = Stage(f"{own_server.url}&schema=restarts")
    in_thread = asyncio.to_thread
    async with stage.app.run(stage.url) as node:
        load = Load(stage.app, stage.tally, stage.note, run="r")
        load.start(CALLERS)
        await stage.acked_since(0, 50)
        for number in range(STOPS):
            how = IMMEDIATE if number % 2 else FAST
            fired = len(stage.book.fired)
            await in_thread(own_server.stop, how)
            down_at = time.monotonic()
            await asyncio.sleep(0.3)
            before = len(stage.acks)
            assert not [at for at in stage.acks if at > down_at + 0.1], "acknowledged by a server that is down"
            due_ms = int(time.time() * 1000)  # the alarms that fell due while it was away are due before this
            own_server.start()
            await in_thread(own_server.wait)
            await stage.acked_since(time.monotonic(), 50)
            assert len(stage.acks) > before
            assert node.state == "up"
            await _all_fired(node, due_ms)
            assert len(stage.book.fired) > fired, f"restart {number}: no alarm fired afterwards"
        await load.stop()
    assert not stage.book.refused, "a restart is waited for"
    await in_thread(settle, stage.url, stage.book)
    sums = await check_async(stage.url, stage.book, allow_platform_failures=True)
    print(f"{STOPS} restarts, {len(stage.book.acked)} acknowledged, refused {stage.book.refused}; {sums}")


async def test_writer_session_is_terminated_in_mid_commit(own_server: Server) -> None:
    stage = Stage(f"{own_server.url}&schema=cuts")
    async with stage.app.run(stage.url) as node:
        load = Load(stage.app, stage.tally, stage.note, run="c", pause_s=0)
        load.start(CALLERS)
        await stage.acked_since(0, 50)
        hit = 0
        until = time.monotonic() + PATIENCE_S
        while hit < CUTS and time.monotonic() < until:
            hit += await cut_writer(own_server.url, 20, pause_s=0.15)
        await stage.acked_since(time.monotonic(), 50)
        assert node.state == "up"
        await load.stop()
    assert hit >= CUTS
    assert not stage.book.refused, "a group whose answer was lost is sent again under its number"
    await asyncio.to_thread(settle, stage.url, stage.book)
    sums = await check_async(stage.url, stage.book, allow_platform_failures=True)
    print(f"{hit} sessions cut, {len(stage.book.acked)} acknowledged, refused {stage.book.refused}; {sums}")


async def test_server_crashes_in_mid_commit(own_server: Server) -> None:
    stage = Stage(f"{own_server.url}&schema=crashes")
    async with stage.app.run(stage.url) as node:
        load = Load(stage.app, stage.tally, stage.note, run="x", pause_s=0)
        load.start(CALLERS)
        for number in range(CRASHES):
            await stage.acked_since(time.monotonic(), 50)
            await kill_writer(own_server.url, number)
        await stage.acked_since(time.monotonic(), 50)
        assert node.state == "up"
        await load.stop()
    assert not stage.book.refused, "a group whose answer was lost is sent again under its number"
    await asyncio.to_thread(settle, stage.url, stage.book)
    sums = await check_async(stage.url, stage.book, allow_platform_failures=True)
    print(f"{CRASHES} crashes, {len(stage.book.acked)} acknowledged, refused {stage.book.refused}; {sums}")


async def _all_fired(node: Any, due_ms: int, timeout_s: float = PATIENCE_S) -> None:
    """Wait until no timer is left that was due by then."""
    until = time.monotonic() + timeout_s
    while True:
        first = await node.store.find_timers(Query(limit=1))
        if not first or first[0].due_at > due_ms:
            return
        assert time.monotonic() < until, f"due since {int(time.time() * 1000) - first[0].due_at} ms: {first[0]}"
        await asyncio.sleep(0.02)
