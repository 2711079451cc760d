"""What does one schedule cost in an object that has ten of them, and ten thousand?"""

import asyncio
import gc
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import msgspec

from bench.measures import Measure, resident_bytes
from bench.places import ROOT, fresh_beside
from bench.program import committed
from bench.sizes import Sizes, short_number
from wakeful import App, DurableObject
from wakeful.runtime.node import Node

PROBES = 400
ROUNDS = 3


def make_app() -> tuple[App, type[DurableObject]]:
    app = App()

    @app.object
    class Tenant(DurableObject):
        async def fill(self, first: int, count: int) -> None:
            for number in range(first, first + count):
                await self.schedules.add("0 9 * * *", self.tick, number, name=f"s{number:07}")

        async def add(self, number: int) -> None:
            await self.schedules.add("0 9 1 1 *", self.tick, number, name=f"x{number:07}")

        async def fire(self, number: int) -> None:
            await self.schedules.trigger(f"x{number:07}")

        async def size(self) -> int:
            return len(await self.schedules.list())

        async def soon(self, at: datetime) -> None:
            await self.schedules.add(at, self.tick, 0, name="soon")

        async def tick(self, number: int) -> None:
            await self.storage.put("fired", number)

    return app, Tenant


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """Per count: `many.add.N`, `many.fire.N`, `many.list.N` in µs for each; and `many.start`, `many.resident`."""
    measures = []
    for count in sizes.many_counts:
        measures += await _one_object(fresh_beside(url, f"o{count}"), count)
    place = fresh_beside(url, "spread")
    await asyncio.to_thread(_in_process, "fill_schedules", place, sizes.many_total)
    told = await asyncio.to_thread(_in_process, "start_schedules", place, sizes.many_total)
    return [*measures, *msgspec.json.decode(told, type=list[Measure])]


async def _one_object(url: str, count: int) -> list[Measure]:
    app, cls = make_app()
    best = {"add": float("inf"), "fire": float("inf"), "list": float("inf")}
    async with app.run(url) as node:
        stub = app.get(cls, "one", deadline="10m")
        await stub.fill(0, count)  # type: ignore[attr-defined]
        for number in range(ROUNDS):
            probes = range(number * PROBES, (number + 1) * PROBES)
            best["add"] = min(best["add"], await _each(stub.add, probes))  # type: ignore[attr-defined]
            best["fire"] = min(best["fire"], await _fires(node, stub.fire, probes))  # type: ignore[attr-defined]
            began = time.process_time()
            found = await stub.size()  # type: ignore[attr-defined]
            best["list"] = min(best["list"], (time.process_time() - began) / found)
    label = short_number(count)
    return [
        Measure(f"many.{what}.{label}", value * 1e6, "µs", f"processor time, one among {count:,} in its object")
        for what, value in best.items()
    ]


async def _each(one, numbers) -> float:  # type: ignore[no-untyped-def]
    began = time.process_time()
    for number in numbers:
        await one(number)
    return (time.process_time() - began) / len(numbers)


async def _fires(node: Node, one, numbers) -> float:  # type: ignore[no-untyped-def]
    """Trigger and run each, to the last commit."""
    began = time.process_time()
    for number in numbers:
        await one(number)
    await asyncio.sleep(0.005)
    await committed(node)
    return (time.process_time() - began) / len(numbers)


def _in_process(role: str, url: str, count: int) -> str:
    command = [sys.executable, "-m", "bench.one", role, "--store", url, "--count", str(count)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


async def fill(url: str, count: int) -> None:
    """So many schedules, a hundred an object."""
    app, cls = make_app()
    async with app.run(url):
        for first in range(0, count, 6_400):
            objects = range(first // 100, min(count, first + 6_400) // 100)
            await asyncio.gather(*[app.get(cls, f"t{number}").fill(0, 100) for number in objects])  # type: ignore[attr-defined]
        await app.get(cls, "soon").soon(datetime.now(UTC) + timedelta(seconds=1))  # type: ignore[attr-defined]


async def start(url: str, count: int) -> None:
    """Start a node on what `fill` left, and print what that took."""
    app, _ = make_app()
    await asyncio.sleep(1)
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    async with app.run(url) as node:
        while await node.store.count("entries") == 0:  # noqa: ASYNC110 - the node owes benchmarks no event
            await asyncio.sleep(0.002)
        length = time.perf_counter() - began
        await asyncio.sleep(0.3)
        grown = resident_bytes() - before
    label = short_number(count)
    measures = [
        Measure(f"many.start.{label}", length * 1000, "ms", "open the store until the first overdue schedule has run"),
        Measure(f"many.resident.{label}", grown / 1e6, "MB", f"{count:,} schedules over {count // 100:,} objects"),
    ]
    print(msgspec.json.encode(measures).decode(), flush=True)
