"""What do a hundred thousand sleeping machines cost that each wait for a delay: at start-up, in memory, on disk?"""

import asyncio
import gc
import subprocess
import sys
import time

import msgspec

from bench.disk import stored_bytes
from bench.measures import Measure, rate, resident_bytes
from bench.places import ROOT, fresh_beside
from bench.sizes import Sizes, short_number
from wakeful import App, Limits, Machine

MOST = 100_000
AWAKE = 2_000  # while they are made; the rest sleep


class Order(Machine):
    """Expires after a day, unless somebody pays."""

    chart = {
        "initial": "placed",
        "context": {"total": 40},
        "states": {"placed": {"on": {"PAY": "paid"}, "after": {"24h": "expired"}}, "paid": {}, "expired": {}},
    }


def make_app() -> App:
    app = App(limits=Limits(awake_objects=AWAKE))
    app.object(Order)
    return app


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`machines.begin` (starts a second), and per count `machines.start.N`, `machines.resident.N`, `machines.disk.N`."""
    count = min(MOST, max(sizes.scale_pending))
    place = fresh_beside(url, f"machines{count}")
    measures: list[Measure] = []
    # Each in a process of its own: memory that was used and freed before would hide what the node takes.
    for role in ("fill_machines", "start_machines"):
        told = await asyncio.to_thread(_in_process, role, place, count)
        measures += msgspec.json.decode(told, type=list[Measure])
    return measures


def _in_process(role: str, url: str, count: int) -> str:
    command = [sys.executable, "-m", "bench.one", role, "--store", url, "--count", str(count)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


async def fill(url: str, count: int) -> None:
    """Start so many machines, each with its delay pending, and print how fast that was."""
    app = make_app()

    async def begin(number: int) -> None:
        await app.get(Order, f"o{number}").start()

    async with app.run(url):
        measure = await rate("machines.begin", count, 64, begin)
    print(msgspec.json.encode([measure]).decode(), flush=True)


async def start(url: str, count: int) -> None:
    """Start a node on what `fill` left, ask one machine, and print what that took."""
    label = short_number(count)
    app = make_app()
    disk = await stored_bytes(url)
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    async with app.run(url) as node:
        snapshot = await app.get(Order, f"o{count // 2}").snapshot()
        elapsed = time.perf_counter() - began
        if list(snapshot.due) != ["xstate.after.24h.Order.placed"]:
            raise AssertionError(f"the delay of a machine is not pending: {snapshot}")
        await asyncio.sleep(0.5)  # the near future has been read
        grown, awake = resident_bytes() - before, len(node.awake)
    measures = [
        Measure(f"machines.start.{label}", elapsed * 1000, "ms", "open the store until a machine has answered"),
        Measure(f"machines.resident.{label}", grown / 1e6, "MB", f"{awake} awake"),
        Measure(f"machines.disk.{label}", disk.all / count, "bytes", "snapshot, timer, ledger row and indexes"),
    ]
    print(msgspec.json.encode(measures).decode(), flush=True)
