"""The database goes away under a whole cluster and comes back: nothing lost, nothing doubled, and nobody has to do anything."""

import asyncio
import os
import random
import time

from tests.live.cluster import balanced, fleet, settled, until
from tests.live.harness import IS_LONG
from tests.live.jobbing import AHEAD_MS, Event, Load, check, now_ms
from tests.live.postgres import FAST, IMMEDIATE, Server, server
from tests.live.programs.fleet import Cell, app
from tests.yardstick import PATIENCE_S, Yardstick
from wakeful import Unavailable

RATE = 100
RESTARTS = 2
LONG_S = int(os.environ.get("WAKEFUL_LIVE_S", "600"))
PAUSE_S = (5.0, 40.0) if IS_LONG else (1.0, 2.0)
AWAY_S = (0.1, 3.0) if IS_LONG else (0.3, 0.6)
CALLERS = 4


class Calls:
    """Calls with request keys, each made until it is answered."""

    def __init__(self) -> None:
        self.acked: dict[str, int] = {}
        self.refused = 0
        self.wrong: list[str] = []
        self.is_over = False

    async def run(self, caller: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            id = f"call{caller}.{number}"
            await self._one(f"c{(number * 11 + caller) % 100}", id)
            await asyncio.sleep(0.01)

    async def _one(self, key: str, id: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                self.acked[id] = await app.get(Cell, key, request_key=id, deadline="20s").add(id)
                return
            except (Unavailable, TimeoutError):
                self.refused += 1
                await asyncio.sleep(0.05)
            except Exception as error:
                self.wrong.append(f"{id}: {type(error).__name__}: {error}")
                return
        self.wrong.append(f"{id}: never answered")


async def restarts(own: Server, calls: Calls, load: Load, events: list[Event]) -> list[float]:
    """Restart it as often as asked for; how long after it was back each time calls and jobs were taken again."""
    took_s: list[float] = []
    dice = random.Random(7)
    number = 0
    end = time.monotonic() + LONG_S
    while time.monotonic() < end if IS_LONG else number < RESTARTS:
        await asyncio.sleep(dice.uniform(*PAUSE_S))
        at_ms = now_ms()
        await asyncio.to_thread(own.stop, IMMEDIATE if number % 2 else FAST)
        await asyncio.sleep(dice.uniform(*AWAY_S))
        own.start()
        await asyncio.to_thread(own.wait)
        events.append(Event("restart of the database", at_ms, now_ms(), now_ms() - at_ms))
        number += 1
        back_at, answered, scheduled = time.monotonic(), len(calls.acked), len(load.acked)
        await until(lambda: len(calls.acked) > answered + 20 and len(load.acked) > scheduled + 20, "it goes on")  # noqa: B023
        took_s.append(time.monotonic() - back_at)
    return took_s


async def test_a_cluster_survives_restarts_of_the_database() -> None:
    events: list[Event] = []
    with server() as own, fleet(own.url, 3) as members, Yardstick() as machine:
        url = own.url
        async with app.connect(url) as node:
            await balanced(node, members)
            is_over = asyncio.Event()
            load, calls = Load(RATE), Calls()
            callers = [asyncio.create_task(calls.run(number)) for number in range(CALLERS)]
            scheduling = asyncio.create_task(load.run(3_600, is_over))
            took_s = await restarts(own, calls, load, events)
            back_at = time.monotonic()
            is_over.set()
            calls.is_over = True
            await asyncio.gather(*callers)
            await scheduling
            await balanced(node, members)
            balanced_s = time.monotonic() - back_at
            await settled(url, until_ms=now_ms() + AHEAD_MS)
            assert not calls.wrong, calls.wrong[:5]
            summary = await check(url, load, events, machine, calls=set(calls.acked), allow="not counted:")
            for member in members:
                # A short one it rides out unnoticed; whoever said that the store is away says that it is back.
                assert member.said("store.up") or not member.said("store.down"), "it never noticed"
    away_s = [event.lasts_ms / 1000 for event in events]
    print(
        f"{len(events)} restarts, away for up to {max(away_s):.1f} s, going again {max(took_s):.1f} s later; {len(calls.acked)} calls ({calls.refused} refused and asked again), "
        f"balanced {balanced_s:.1f} s after the last; refused schedules {dict(load.refused)}; {summary}"
    )
