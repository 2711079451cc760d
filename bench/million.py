"""When a million jobs over a hundred thousand objects are due at one instant: how much memory, are all run, and in order?"""

import asyncio
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime

import msgspec

from bench.jobs import AHEAD, PIECE
from bench.measures import Measure, resident_bytes
from bench.places import ROOT
from bench.program import check_fired, committed, now_ms
from bench.sizes import Sizes, short_number
from wakeful import App, DurableObject, JobSpec

EACH = 10  # jobs of one object, to be run in the order in which they were scheduled
START_S = 8  # that the process that runs them needs at most to be up
PACE = 20_000  # jobs that tell how fast this machine schedules


class Strict(DurableObject):
    """Takes its jobs in order and each once, or counts a fault."""

    ran = 0
    faults = 0

    async def step(self, number: int) -> None:
        before: int = await self.storage.get("last", -1)
        if before != number - 1:
            Strict.faults += 1
        await self.storage.put("last", number)
        Strict.ran += 1


def make_app() -> App:
    app = App()
    app.object(Strict)
    return app


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`million.rate`, `million.resident` (the high-water mark above the start) and `million.peak` (of the process)."""
    # Each in a process of its own: what scheduling took would hide what running takes.
    count = str(sizes.million_count)
    for role in ("fill_million", "run_million"):
        command = [sys.executable, "-m", "bench.one", role, "--store", url, "--count", count]
        done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Measure])


async def fill(url: str, count: int) -> None:
    """Schedule them, `EACH` for an object in rounds, due when this is over and the next process is up."""
    app = make_app()
    objects = count // EACH
    async with app.run(url):
        pace = min(PACE, count)
        began = time.perf_counter()
        await app.jobs.schedule_many(
            [JobSpec(app.get(Strict, f"pace{n}").step, (0,), after=AHEAD) for n in range(pace)]
        )
        each_s = (time.perf_counter() - began) / pace
        at = datetime.fromtimestamp(time.time() + START_S + 2.5 * count * each_s, UTC)
        for number in range(EACH):
            for first in range(0, objects, PIECE):
                keys = range(first, min(objects, first + PIECE))
                await app.jobs.schedule_many([JobSpec(app.get(Strict, f"m{n}").step, (number,), at=at) for n in keys])
        if time.time() > at.timestamp() - START_S / 2:
            raise AssertionError("scheduling took longer than planned: the machine is too busy to measure this now")


async def run_filled(url: str, count: int) -> None:
    """Run what `fill` left, and print what that took."""
    app = make_app()
    before = resident_bytes()
    async with app.run(url) as node:
        [first] = (await app.jobs.list(cls="Strict", key="m0", limit=1))[:1]
        due_at = first.due_at.timestamp()
        if time.time() > due_at:
            raise AssertionError("this process was not up before they were due")
        await asyncio.sleep(due_at - time.time())
        used = time.process_time()
        seen, since = 0, time.monotonic()
        while Strict.ran < count:
            await asyncio.sleep(0.05)
            if Strict.ran != seen:
                seen, since = Strict.ran, time.monotonic()
            elif time.monotonic() - since > 30:
                raise AssertionError(f"only {seen:,} of {count:,} ran, and nothing more for 30 s")
        await committed(node)
        length, used = now_ms() / 1000 - due_at, time.process_time() - used
        await check_fired(node, count)
        if (Strict.ran, Strict.faults) != (count, 0):
            raise AssertionError(f"{Strict.ran:,} runs of {count:,}, {Strict.faults:,} out of order")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    note = (
        f"{short_number(count)} jobs over {short_number(count // EACH)} objects due at one instant, in order, none lost"
    )
    measures = [
        Measure("million.rate", count / length, "/s", note, used / count * 1e6),
        Measure("million.resident", (peak - before) / 1e6, "MB", "high-water mark above what the process had before"),
        Measure("million.peak", peak / 1e6, "MB", "high-water mark of the process"),
    ]
    print(msgspec.json.encode(measures).decode(), flush=True)
