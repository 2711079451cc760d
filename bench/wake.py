"""What does the first call of a sleeping object cost?"""

import time

from bench.measures import Measure, median, percentile, rate
from bench.program import Bench, fall_asleep, make_app
from bench.sizes import Sizes
from wakeful import App


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`wake.p50` and `.p99` of one caller's read, and `wake.64`: wakes a second with 64 callers."""
    app, cls = make_app()
    count = sizes.wake_count

    async def look(number: int) -> None:
        if await app.get(cls, f"w{number}").look() != 1:
            raise AssertionError(f"w{number} woke without its state")

    async with app.run(url) as node:
        await _make(app, cls, count)
        await fall_asleep(node)
        measures = [await rate("wake.64", count, 64, look)]
        await fall_asleep(node)
        lengths = []
        for number in range(count):
            began = time.perf_counter()
            await look(number)
            lengths.append((time.perf_counter() - began) * 1e6)
    measures.append(Measure("wake.p50", median(lengths), "µs"))
    measures.append(Measure("wake.p99", percentile(lengths, 0.99), "µs"))
    return measures


async def _make(app: App, cls: type[Bench], count: int) -> None:
    async def make(number: int) -> None:
        await app.get(cls, f"w{number}").add()

    await rate("make", count, 256, make)
