"""At a steady rate of jobs, how late does each start?"""

import asyncio
import time
from datetime import UTC, datetime

from bench.jobs import lead_ms, schedule_all
from bench.measures import Measure, median, percentile
from bench.program import Countdown, check_fired, check_not_early, committed, make_app, now_ms
from bench.sizes import Sizes
from wakeful import JobSpec


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`jobs.lateness.p50`, `.p99`, `.max`: the handler's start minus the due time, one object each."""
    each_second, seconds = sizes.job_rate, sizes.job_s
    count = each_second * seconds
    countdown = Countdown(count)
    app, cls = make_app(countdown.heard)
    async with app.run(url) as node:
        lead = await lead_ms(app, cls, count)
        first = now_ms() + lead
        dues = [first + number * 1000 // each_second for number in range(count)]
        await schedule_all(
            app,
            [
                JobSpec(app.get(cls, f"l{number}").job, (at_ms,), at=datetime.fromtimestamp(at_ms / 1000, UTC))
                for number, at_ms in enumerate(dues)
            ],
        )
        if now_ms() > first:
            raise AssertionError("scheduling took longer than planned: the machine is too busy to measure this now")
        await asyncio.sleep(max(0.0, first / 1000 - time.time()))
        used = time.process_time()
        await countdown.all_started.wait()
        share = (time.process_time() - used) / seconds
        await committed(node)
        await check_fired(node, count)
    late = countdown.late_ms
    check_not_early(node, late)
    note = f"{each_second:,}/s for {seconds} s, {share:.0%} of a core"
    parts = {"p50": median(late), "p99": percentile(late, 0.99), "max": max(late)}
    return [Measure(f"jobs.lateness.{part}", value, "ms", note) for part, value in parts.items()]
