"""Nodes on a bucket that is slow, refuses and loses answers, with links that can be cut."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.live.cluster import Fleet, Member
from tests.live.harness import looking
from tests.live.programs.fleet import Cell, app
from tests.live.proxy import Proxy
from tests.yardstick import PATIENCE_S
from wakeful import ObjectId
from wakeful.runtime.node import Node
from wakeful.store.protocol import Range
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import DeadlineExceeded, Unavailable

OBJECTS = 12
JOBS_AHEAD_S = 1.5


class RoughFleet(Fleet):
    """Members that reach each other through proxies only: member n is cut off from the others with `links[n]`."""

    def __init__(self, folder: Path, links: list[Proxy], lease_s: float) -> None:
        self.weather, self.cache, self.links = folder / "weather", folder / "cache", links
        self.weather.mkdir()
        self._numbers = list(range(len(links)))
        url, env = f"bucket:{folder / 'bucket'}?cache={self.cache}", {"WAKEFUL_WEATHER": str(self.weather)}

        def make() -> Member:
            link = links[self._numbers.pop(0)]
            address = ("--listen", f"127.0.0.1:{link.there}", "--advertise", f"127.0.0.1:{link.port}")
            options = ("--lease", f"{lease_s:.0f}s", *address)
            return Member(url, *options, program="rough_fleet.py", env=env)

        super().__init__("", (), {})
        self._make = make

    def replace(self, number: int) -> Member:
        self._numbers.append(number)
        return super().replace(number)

    def say(self, weather: str, is_so: bool) -> None:
        """`slow` or `down`."""
        file = self.weather / weather
        file.touch() if is_so else file.unlink()


@asynccontextmanager
async def rough_fleet(folder: Path, count: int, lease_s: float) -> AsyncIterator[tuple[RoughFleet, Node]]:
    """So many members that are ready, and a client whose way to the bucket is smooth."""
    links = [Proxy(0) for _ in range(count)]
    for link in links:
        await link.start()
    members = RoughFleet(folder, links, lease_s)
    try:
        # They dial each other through this process, which has to go on meanwhile.
        members += [members._make() for _ in range(count)]
        for member in list(members):
            await asyncio.to_thread(member.wait_for, "ready")
        async with app.connect(f"bucket:{folder / 'bucket'}?cache={folder}/client") as node:
            yield members, node
    finally:
        await asyncio.to_thread(members.close)
        for link in links:
            await link.close()


class Load:
    """Calls without end, each repeated under its key until it is answered, and jobs beside them."""

    def __init__(self, callers: int) -> None:
        self._callers = callers
        self.acked: dict[str, str] = {}  # id → key
        self.refused: Counter[str] = Counter()
        self.longest_s = 0.0
        self.is_over = False

    async def run(self) -> None:
        await asyncio.gather(*(self._call(number) for number in range(self._callers)))

    async def _call(self, number: int) -> None:
        count = 0
        dice = random.Random(number)
        while not self.is_over:
            key, id, began = f"c{(number + count) % OBJECTS}", f"{number}-{count}", time.monotonic()
            is_job = count % 8 == 7
            while True:
                try:
                    if is_job:  # under a key, so that it is one however often it is scheduled
                        after = f"{dice.uniform(0, JOBS_AHEAD_S):.3f}s"
                        await app.jobs.schedule(app.get(Cell, key).mark, id, after=after, key=id)
                    else:
                        await app.get(Cell, key, request_key=id, deadline="60s").add(id)
                    break
                except (Unavailable, DeadlineExceeded) as error:
                    self.refused[error.code] += 1
                    await asyncio.sleep(0.05)
            self.acked[id] = key
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            count += 1

    async def check(self, url: str) -> None:
        """What was acknowledged happened once, as the bucket has it."""
        counted: Counter[tuple[str, str]] = Counter()
        async with looking(url) as store:
            for number in range(OBJECTS):
                rows = dict(await store.scan(ObjectId("Cell", f"c{number}"), USER, Range()))
                times = {name[3:]: decode(value) for name, value in rows.items() if name.startswith("id:")}
                assert sum(times.values()) == decode(rows["count"])
                counted.update({(id, f"c{number}"): count for id, count in times.items()})
        print(f"{len(self.acked)} acknowledged, {dict(self.refused)} refused, the longest took {self.longest_s:.1f} s")
        assert {found: count for found, count in counted.items() if count != 1} == {}, "doubled"
        assert self.acked.items() - counted.keys() == set(), "lost"


async def settled(node: Node) -> None:
    """Until no job is owed any more."""
    end = time.monotonic() + PATIENCE_S
    while left := await node.store.count("timers", cls="Cell"):
        assert time.monotonic() < end, f"{left} jobs are owed still"
        await asyncio.sleep(0.2)
