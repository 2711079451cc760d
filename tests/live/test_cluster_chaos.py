"""Jobs without end, and every few seconds a random node is killed, frozen or restarted: none lost, none doubled, none late for nothing."""

import asyncio
import os
import random
from collections import Counter

from tests.live.cluster import Fleet, balanced, fleet, settled
from tests.live.harness import IS_LONG
from tests.live.jobbing import AHEAD_MS, Event, Load, check, explained, now_ms
from tests.live.programs.fleet import app
from tests.yardstick import Yardstick

RATE = int(os.environ.get("WAKEFUL_LIVE_RATE", "2000" if IS_LONG else "500"))
LOAD_S = int(os.environ.get("WAKEFUL_LIVE_S", "60" if IS_LONG else "10"))
FROZEN_S = 20.0 if IS_LONG else 7.0
PAUSE_S = (2.0, 5.0) if IS_LONG else (1.0, 2.0)


class Chaos:
    """Does something to a random node every few seconds."""

    def __init__(self, members: Fleet, seed: int) -> None:
        self._members = members
        self._dice = random.Random(seed)
        self._busy: set[int] = set()
        self.events: list[Event] = []
        self.is_over = False

    async def run(self) -> None:
        tasks = []
        kinds = ["kill", "restart", "freeze"]
        number = 0
        while not self.is_over:
            await asyncio.sleep(self._dice.uniform(*PAUSE_S))
            free = [n for n in range(len(self._members)) if n not in self._busy]
            if self.is_over or len(free) < 2:
                continue  # somebody must be there
            which, kind = self._dice.choice(free), kinds[number % 3] if number < 3 else self._dice.choice(kinds)
            number += 1
            self._busy.add(which)
            tasks.append(asyncio.create_task(self._do(kind, which)))
        await asyncio.gather(*tasks)

    async def _do(self, kind: str, which: int) -> None:
        member = self._members[which]
        at_ms = now_ms()
        if kind == "freeze":
            member.freeze()
            await asyncio.sleep(FROZEN_S)
            member.thaw()
        else:
            if kind == "kill":
                await asyncio.to_thread(member.kill)
            else:
                code = await asyncio.to_thread(member.stop)
                assert code == 0, member.tail()
            await asyncio.to_thread(self._members.replace(which).wait_for, "ready")
        self.events.append(Event(kind, at_ms, now_ms()))
        self._busy.discard(which)


def test_an_excuse_must_reach_back_to_when_the_job_was_due() -> None:
    events = [Event("kill", at_ms, at_ms) for at_ms in range(0, 60_000, 3_000)]
    assert explained(30_000, 36_000, events)
    assert explained(30_000, 36_000, [Event("freeze", 29_000, 49_000)])
    assert not explained(30_000, 60_000, events), "half a minute late, and only the last events are near"
    assert not explained(30_000, 36_000, [Event("kill", 35_500, 35_500)]), "it was late before"
    assert not explained(30_000, 45_000, [Event("freeze", 29_000, 49_000)]), "others had long taken over"


async def test_every_job_runs_once_while_nodes_are_killed_frozen_and_restarted(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    load = Load(RATE, url)
    with fleet(url, 3) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            chaos = Chaos(members, seed=int(os.environ.get("WAKEFUL_LIVE_SEED", "1")))
            hurting = asyncio.create_task(chaos.run())
            rate = await load.run(LOAD_S)
            chaos.is_over = True
            await hurting
            await settled(url, until_ms=now_ms() + AHEAD_MS)
            summary = await check(url, load, chaos.events, machine)
            await balanced(node, members)
    kinds = Counter(event.kind for event in chaos.events)
    print(f"{rate:.0f}/s for {LOAD_S} s, events {dict(kinds)}, refused {dict(load.refused)}; {summary}")
