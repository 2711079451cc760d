"""What do a hundred thousand and a million that wait cost: at start-up, in memory, on disk?"""

import asyncio
import gc
import subprocess
import sys
import time

import msgspec

from bench.disk import stored_bytes
from bench.measures import Measure, rate, resident_bytes
from bench.places import ROOT, fresh_beside
from bench.program import DAY_MS, Countdown, committed, fill_closed, make_app, now_ms, timers
from bench.sizes import Sizes, short_number
from wakeful import Limits


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """Per count: `scale.start.N`, `scale.resident.N`, `scale.disk.N`; and `scale.awake`."""
    measures = [await _awake(fresh_beside(url, "awake"), sizes.awake_objects)]
    for count in sizes.scale_pending:
        place = fresh_beside(url, f"n{count}")
        # Each in a process of its own: memory that was used and freed before would hide what the node takes.
        await asyncio.to_thread(_in_process, "fill", place, count)
        told = await asyncio.to_thread(_in_process, "start", place, count)
        measures += msgspec.json.decode(told, type=list[Measure])
    return measures


def _in_process(role: str, url: str, count: int) -> str:
    command = [sys.executable, "-m", "bench.one", role, "--store", url, "--count", str(count)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


async def fill(url: str, count: int) -> None:
    """So many a day ahead, on as many objects, and one that is overdue."""
    tomorrow = now_ms() + DAY_MS
    await fill_closed(url, list(timers(count, lambda number: tomorrow + number, prefix="p")))
    await fill_closed(url, list(timers(1, lambda number: now_ms() - 1, prefix="overdue")))


async def start(url: str, count: int) -> None:
    """Start a node on what `fill` left, and print what that took."""
    label = short_number(count)
    countdown = Countdown(1)
    app, _ = make_app(countdown.heard)
    disk = await stored_bytes(url)
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    async with app.run(url) as node:
        await countdown.all_started.wait()
        start = time.perf_counter() - began
        await committed(node)
        await asyncio.sleep(0.2)
        grown = resident_bytes() - before
    measures = [
        Measure(f"scale.start.{label}", start * 1000, "ms", "open the store until the first overdue alarm starts"),
        Measure(f"scale.resident.{label}", grown / 1e6, "MB"),
        Measure(f"scale.disk.{label}", disk.timers / count, "bytes", "timer row and its indexes"),
        Measure(f"scale.disk_all.{label}", disk.all / count, "bytes", "with the object's own row"),
    ]
    print(msgspec.json.encode(measures).decode(), flush=True)


async def _awake(url: str, count: int) -> Measure:
    """Memory of one more object that is awake and idle; its own data is one small number."""
    app, cls = make_app(limits=Limits(awake_objects=count + 1_000))

    async def touch(number: int) -> None:
        await app.get(cls, f"a{number}").add()

    async with app.run(url) as node:
        await asyncio.gather(*[touch(-1 - number) for number in range(64)])
        gc.collect()
        before, awake = resident_bytes(), len(node.awake)
        await rate("touch", count, 64, touch)
        gc.collect()
        each = (resident_bytes() - before) / (len(node.awake) - awake)
    return Measure("scale.awake", each, "bytes", f"resident growth over {count:,} objects, store's cache included")
