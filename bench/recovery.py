"""After kill -9 with many overdue, how long until a new process has run the last of them?"""

import asyncio
import json
import time

from bench.children import spawn, told_by
from bench.measures import Measure, rate
from bench.program import Countdown, check_fired, committed, make_app, now_ms
from bench.sizes import Sizes

WAIT_S = 60


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`recovery.process` from the start of the process, `recovery.node` from the start of the node in it."""
    return await asyncio.to_thread(_run, url, sizes.recovery_count)


def _run(url: str, count: int) -> list[Measure]:
    with spawn("victim", url, count) as victim:
        due_at = told_by(victim)["due_at"]
        victim.kill()
        victim.wait()
    time.sleep(max(0.0, due_at / 1000 - time.time()) + 0.1)
    began = time.time()
    with spawn("heir", url, count) as heir:
        told = told_by(heir)
        heir.wait(WAIT_S)
    note = f"{count:,} overdue"
    return [
        Measure("recovery.process", told["done_at"] - began, "s", note + ", Python's own start included"),
        Measure("recovery.node", told["done_at"] - told["began_at"], "s", note),
    ]


async def victim(url: str, count: int) -> None:
    """Arm them all, say so, and wait to be killed."""
    app, cls = make_app()
    async with app.run(url):
        due_at = now_ms() + 1_000 + count // 2

        async def arm(number: int) -> None:
            await app.get(cls, f"r{number}").arm(due_at)

        await rate("arm", count, 256, arm)
        if now_ms() > due_at:
            raise AssertionError("arming took longer than planned: the machine is too busy to measure this now")
        print(json.dumps({"due_at": due_at}), flush=True)
        await asyncio.sleep(WAIT_S)


async def heir(url: str, count: int) -> None:
    """Run what the victim left."""
    countdown = Countdown(count)
    app, _ = make_app(countdown.heard)
    began_at = time.time()
    async with app.run(url) as node:
        await countdown.all_started.wait()
        await committed(node)
        done_at = time.time()
        await check_fired(node, count)
    print(json.dumps({"began_at": began_at, "done_at": done_at}), flush=True)
