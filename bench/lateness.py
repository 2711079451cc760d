"""At a steady rate beside many that wait, how late does each alarm start?"""

import asyncio
import time

from bench.measures import Measure, median, percentile
from bench.program import (
    DAY_MS,
    Countdown,
    check_fired,
    check_not_early,
    committed,
    fill_closed,
    make_app,
    now_ms,
    timers,
)
from bench.sizes import Sizes

LEAD_MS = 1_000  # the node must be up before the first is due


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`lateness.p50`, `.p99`, `.max`: the handler's start minus the due time, one object each.

    `lateness.timer.*` are as many bare timers of the event loop at the same rate, in the same process and right after.
    """
    count = sizes.lateness_rate * sizes.lateness_s
    tomorrow = now_ms() + DAY_MS
    await fill_closed(url, list(timers(sizes.lateness_pending, lambda number: tomorrow + number, prefix="p")))
    first = now_ms() + LEAD_MS + sizes.lateness_pending // 150
    some = list(timers(count, lambda number: first + number * 1000 // sizes.lateness_rate, prefix="l"))
    await fill_closed(url, some)
    countdown = Countdown(count)
    app, _ = make_app(countdown.heard)
    async with app.run(url) as node:
        if now_ms() > first:
            raise AssertionError("the node was not up before the first was due")
        await asyncio.sleep(first / 1000 - time.time())
        used = time.process_time()
        await countdown.all_started.wait()
        share = (time.process_time() - used) / sizes.lateness_s
        await committed(node)
        await check_fired(node, count)
        bare = await _ring(count, sizes.lateness_rate)
    late = countdown.late_ms
    check_not_early(node, late)
    note = f"{sizes.lateness_rate}/s beside {sizes.lateness_pending:,} pending, {share:.0%} of a core"
    return [*_parts("lateness", late, note), *_parts("lateness.timer", bare, f"{sizes.lateness_rate}/s, loop.call_at")]


async def _ring(count: int, rate: int) -> list[float]:
    """By how much each of so many timers of the loop itself is late, in milliseconds."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    done = loop.create_future()

    def ring(at: float) -> None:
        late.append((loop.time() - at) * 1000)
        if len(late) == count:
            done.set_result(None)

    first = loop.time() + 0.1
    for number in range(count):
        at = first + number / rate
        loop.call_at(at, ring, at)
    await done
    return late


def _parts(name: str, late: list[float], note: str) -> list[Measure]:
    parts = {"p50": median(late), "p99": percentile(late, 0.99), "max": max(late)}
    return [Measure(f"{name}.{part}", value, "ms", note) for part, value in parts.items()]
