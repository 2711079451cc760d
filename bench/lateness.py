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
    """`lateness.p50`, `.p99`, `.max`: the handler's start minus the due time, one object each."""
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
    late = countdown.late_ms
    check_not_early(node, late)
    note = f"{sizes.lateness_rate}/s beside {sizes.lateness_pending:,} pending, {share:.0%} of a core"
    parts = {"p50": median(late), "p99": percentile(late, 0.99), "max": max(late)}
    return [Measure(f"lateness.{part}", value, "ms", note) for part, value in parts.items()]
