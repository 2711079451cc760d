"""Nodes on a bucket that is slow, refuses and loses answers, with links that can be cut."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager
from datetime import datetime
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
LONG_S = 5.0
WIDTH = 200  # of a line of the timeline


class Timeline:
    """What happened when, to be printed: what was done to whom, what nodes said, who owned how much, what callers met."""

    def __init__(self) -> None:
        self._began = time.time()
        self._notes: list[tuple[float, str]] = []
        self._seconds: Counter[str] = Counter()
        self._acked: Counter[str] = Counter()

    def note(self, what: str) -> None:
        self._notes.append((time.time(), what))

    async def watch(self, node: Node, acked: Sized, weather: Callable[[], str]) -> None:
        """Each second how many were acknowledged, in which weather, and who owns how much by what the client has read."""
        last, before = "", 0
        while True:
            counts = Counter(row.owner or "nobody" for row in node.membership.owners)
            owned = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            if owned != last:
                self.note(f"owned by {owned}")
            last, before, was = owned, len(acked), weather()
            await asyncio.sleep(1)
            self.note(f"{len(acked) - before} acknowledged in a second")
            self._seconds[was] += 1
            self._acked[was] += len(acked) - before

    def print(self, members: "RoughFleet") -> None:
        notes = self._notes + members.said_by_all()
        for at_s, what in sorted(notes):
            print(f"{at_s - self._began:7.1f}  {what[:WIDTH]}")
        for weather, seconds in sorted(self._seconds.items()):
            print(f"{weather}: {self._acked[weather]} acknowledged in {seconds} s")


class RoughFleet(Fleet):
    """Members that reach each other through proxies only: member n is cut off from the others with `links[n]`."""

    def __init__(self, folder: Path, links: list[Proxy], lease_s: float) -> None:
        self.weather, self.cache, self.links = folder / "weather", folder / "cache", links
        self._late = self.weather / "late"
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

    def said_by_all(self) -> list[tuple[float, str]]:
        """What the nodes said, those that are gone as well, and which answers of the bucket came late; with the time."""
        notes = [
            (datetime.fromisoformat(what["at"]).timestamp(), f"{member.pid} {event}: {what['text']}")
            for member in (*self._gone, *self)
            for event, what in (one for one in member.events if len(one) > 1)
            if event in ("ready", "warning", "error") and "at" in what
        ]
        for line in self._late.read_text(encoding="utf-8").splitlines() if self._late.exists() else ():
            at_s, pid, what = line.split(maxsplit=2)
            notes.append((float(at_s), f"{pid} waits long for the answer to {what}"))
        return notes

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
        self.timeline = Timeline()
        self.acked: dict[str, str] = {}  # id → key
        self.refused: Counter[str] = Counter()
        self.longest_s = 0.0
        self.took: list[float] = []
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
                    self.timeline.note(f"{id} of {key} refused after {time.monotonic() - began:.1f} s: {error}")
                    await asyncio.sleep(0.05)
            self.acked[id] = key
            took_s = time.monotonic() - began
            self.longest_s = max(self.longest_s, took_s)
            self.took.append(took_s)
            if took_s > LONG_S:
                self.timeline.note(f"{id} of {key} acknowledged after {took_s:.1f} s")
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
        took = sorted(self.took)
        print(
            f"{len(took)} acknowledged, {dict(self.refused)} refused; half of them took {took[len(took) // 2]:.2f} s at most, nine "
            f"in ten {took[len(took) * 9 // 10]:.1f} s, the longest {self.longest_s:.1f} s"
        )
        assert {found: count for found, count in counted.items() if count != 1} == {}, "doubled"
        assert self.acked.items() - counted.keys() == set(), "lost"


async def settled(node: Node) -> None:
    """Until no job is owed any more."""
    end = time.monotonic() + PATIENCE_S
    while left := await node.store.count("timers", cls="Cell"):
        assert time.monotonic() < end, f"{left} jobs are owed still"
        await asyncio.sleep(0.2)
