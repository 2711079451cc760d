"""When many alarms are due at one instant, how long until the last of them is committed?"""

import asyncio
import time

from bench import profiling
from bench.measures import Measure, rate
from bench.program import Bench, Countdown, check_fired, committed, fall_asleep, make_app, now_ms
from bench.sizes import Sizes
from wakeful import App

CALLERS = 256


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`fire.rate`: alarms committed a second, from the instant on. The objects have state, and are asleep before."""
    count = sizes.fire_count
    countdown = Countdown(count)
    app, cls = make_app(countdown.heard)
    async with app.run(url) as node:
        due_at = await _arm_all(app, cls, count)
        await fall_asleep(node)
        await asyncio.sleep(max(0.0, due_at / 1000 - time.time() - 0.01))
        used = time.process_time()
        with profiling.stretch():
            await countdown.all_started.wait()
            await committed(node)
        length = time.time() - due_at / 1000
        used = time.process_time() - used
        await check_fired(node, count)
    return [Measure("fire.rate", count / length, "/s", f"{length:.2f} s in all", used / count * 1e6)]


async def _arm_all(app: App, cls: type[Bench], count: int) -> int:
    """Give every object state and the same alarm, far enough ahead that arming is over before; the instant."""

    async def make(number: int) -> None:
        await app.get(cls, f"f{number}").add()

    pace = (await rate("make", count, CALLERS, make)).value
    due_at = now_ms() + 800 + int(count / pace * 1_800)

    async def arm(number: int) -> None:
        await app.get(cls, f"f{number}").arm(due_at)

    await rate("arm", count, CALLERS, arm)
    if now_ms() > due_at - 200:
        raise AssertionError("arming took longer than planned: the machine is too busy to measure this now")
    return due_at
