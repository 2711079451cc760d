"""A database that answers seconds late: callers wait, nobody sees an error, nothing is doubled, timers go on with it."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.live.harness import IS_LONG
from tests.live.proxy import proxy
from tests.live.test_cluster_frozen import socket_of, through
from wakeful import App, DurableObject, JobSpec, reader
from wakeful.runtime.node import Node

STALL_S = 7.0
STALLS = 4 if IS_LONG else 2
CALM_S = 9.0 if IS_LONG else 3.0
CALLERS = 10
BULK = 5_000


def make_app(ran: list[tuple[str, float]]) -> tuple[App, type[Any]]:
    app = App()

    @app.object
    class Till(DurableObject):
        async def add(self, id: str) -> int:
            count: int = await self.storage.get("count", 0) + 1
            self.storage.put(f"id:{id}", await self.storage.get(f"id:{id}", 0) + 1)
            self.storage.put("count", count)
            return count

        @reader
        async def count(self) -> int:
            found: int = await self.storage.get("count", 0)
            return found

        async def tick(self, every_ms: int) -> None:
            self.storage.put("every", every_ms)
            self.storage.set_alarm(timedelta(milliseconds=every_ms))

        async def alarm(self) -> None:
            ran.append((self.ctx.key, time.monotonic()))
            self.storage.set_alarm(timedelta(milliseconds=await self.storage.get("every")))

        async def work(self, number: int) -> None:
            self.storage.put("done", await self.storage.get("done", 0) + 1)

    return app, Till


async def one_caller(app: App, till: type[Any], name: str, told: dict[str, int], errors: list[str], end: float) -> None:
    """Adds and reads until that moment; what it was told, and what it should not have been."""
    number = 0
    while time.monotonic() < end:
        number += 1
        try:
            count = await app.get(till, name).add(f"{number}")
            if count != number:
                errors.append(f"{name}: {count} after {number}")
            told[name] = count
            if (seen := await app.get(till, name).count()) != count:
                errors.append(f"{name}: read {seen} after {count}")
        except Exception as error:
            errors.append(f"{name} {number}: {error!r}")
            return
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("nodes", [1, 2])
async def test_a_database_that_stalls_for_seconds_is_only_slow(postgres_schema_url: str, nodes: int) -> None:
    """Half of the calls failed, of a single node with nobody to take its objects."""
    ran: list[tuple[str, float]] = []
    errors: list[str] = []
    told: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(proxy(socket_of(postgres_schema_url)))
        url = through(postgres_schema_url, relay.port)
        made = [make_app(ran) for _ in range(nodes)]
        running: list[Node] = [await stack.enter_async_context(app.run(url)) for app, _ in made]
        app, till = made[0]
        await asyncio.sleep(2 if nodes > 1 else 0.1)  # the second has its share by then
        await app.get(till, "clock").tick(100)
        end = time.monotonic() + STALLS * (STALL_S + CALM_S)
        callers = [
            asyncio.create_task(one_caller(*made[n % nodes], f"c{n}", told, errors, end)) for n in range(CALLERS)
        ]
        healed = []
        for number in range(STALLS):
            await asyncio.sleep(CALM_S)
            relay.cut()
            specs = [JobSpec(app.get(till, f"b{n % 50}").work, [n]) for n in range(0 if number else BULK)]
            bulk = asyncio.create_task(app.jobs.schedule_many(specs)) if specs else None
            await asyncio.sleep(STALL_S)
            relay.heal()
            healed.append(time.monotonic())
            if bulk is not None:
                assert len(await asyncio.wait_for(bulk, 30)) == BULK
        await asyncio.wait_for(asyncio.gather(*callers), 60)
        assert errors == []
        outages = [node.outage.count for node in running]
        assert outages == [0] * nodes
        for at in healed[:-1]:
            late = min((when for key, when in ran if when > at), default=at + 60) - at
            assert late < 2.5, f"the clock went on {late:.1f} s after the store did"
        counts = {name: await app.get(till, name).count() for name in told}
        assert counts == told
    print(f"{sum(told.values())} calls answered, lapses {[node.membership.lapses for node in running]}")
