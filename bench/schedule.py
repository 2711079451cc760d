"""How many durable alarms a day ahead can be set in a second, each on a new object?"""

import time

from msgspec.structs import replace

from bench.measures import Measure, rate
from bench.program import DAY_MS, Bench, fill, make_app, now_ms, timers
from bench.sizes import Sizes
from wakeful import App

WARM_UP = 200


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`schedule.N` for N callers who each wait for their alarm to be on disk, and `schedule.bulk`."""
    app, cls = make_app()
    measures = []
    async with app.run(url) as node:
        await _arm(app, cls, "warm", min(WARM_UP, sizes.schedule_count), 16)
        for callers in sizes.schedule_callers:
            count = sizes.schedule_count if callers > 1 else max(1, sizes.schedule_count // 10)
            groups = node.committer.groups
            measure = await _arm(app, cls, f"schedule.{callers}", count, callers)
            note = f"{count / max(1, node.committer.groups - groups):.0f} a commit"
            measures.append(replace(measure, note=note))
        due_at = now_ms() + DAY_MS
        some = list(timers(sizes.bulk_count, lambda number: due_at + number, prefix="bulk"))
        began, used = time.perf_counter(), time.process_time()
        await fill(node.store, some)
        length, used = time.perf_counter() - began, time.process_time() - used
        cpu_us = used / len(some) * 1e6
        measures.append(Measure("schedule.bulk", len(some) / length, "/s", "store.insert", cpu_us))
    return measures


async def _arm(app: App, cls: type[Bench], name: str, count: int, callers: int) -> Measure:
    due_at = now_ms() + DAY_MS

    async def one(number: int) -> None:
        await app.get(cls, f"{name}-{number}").arm(due_at)

    return await rate(name, count, callers, one)
