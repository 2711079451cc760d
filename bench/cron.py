"""When many cron schedules are due at one instant, and again every second: are they kept up with?"""

import asyncio
import time
from datetime import UTC, datetime

from bench import profiling
from bench.measures import Measure, percentile
from bench.places import fresh_beside
from bench.program import committed, now_ms
from bench.sizes import Sizes
from wakeful import App, DurableObject, Run, cron
from wakeful.runtime.node import Node

PER_OBJECT = 100


class Ticks:
    """Hears every run."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.expected = 0
        self.all_started = asyncio.Event()

    def heard(self, run: Run) -> None:
        self.late_ms.append(run.lateness.total_seconds() * 1000)
        if len(self.late_ms) >= self.expected:
            self.all_started.set()


def make_app(ticks: Ticks) -> tuple[App, type[DurableObject]]:
    app = App()

    @app.object
    class Tenant(DurableObject):
        async def fill(self, first: int, count: int, text: str) -> None:
            for number in range(first, first + count):
                await self.schedules.add(cron(text, zone="Europe/Berlin"), self.tick, name=f"s{number}")

        async def tick(self, run: Run) -> None:
            ticks.heard(run)
            await self.storage.put("fired", 1)

    return app, Tenant


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`cron.spread`, `cron.object`: seconds until all are committed, in many objects and in one; `cron.second.*`."""
    spread = await _burst(fresh_beside(url, "spread"), "cron.spread", sizes.cron_count, PER_OBJECT)
    return [
        spread,
        Measure("cron.rate", sizes.cron_count / spread.value, "/s", "the same, as a rate", spread.cpu_us),
        await _burst(fresh_beside(url, "object"), "cron.object", sizes.cron_count, sizes.cron_count),
        *await _steady(fresh_beside(url, "steady"), sizes.cron_rate, sizes.cron_s),
    ]


async def _burst(url: str, name: str, count: int, per_object: int) -> Measure:
    ticks = Ticks()
    app, cls = make_app(ticks)
    ticks.expected = count
    async with app.run(url) as node:
        # A cron that names a second an hour ahead tells the pace of adding; then the real one, just after it is over.
        pace = await _fill(app, cls, count // 10, per_object, _at(now_ms() + 3_000_000), "pace")
        due_at = (now_ms() + 1_500 + int(1.5 * count * pace)) // 1000 * 1000 + 1000
        await _fill(app, cls, count, per_object, _at(due_at), "o")
        if now_ms() > due_at - 100:
            raise AssertionError("adding took longer than planned: the machine is too busy to measure this now")
        await asyncio.sleep(max(0.0, due_at / 1000 - time.time() - 0.01))
        used = time.process_time()
        with profiling.stretch():
            await ticks.all_started.wait()
            await committed(node)
        length = time.time() - due_at / 1000
        used = time.process_time() - used
        await _check(node, count)
    return Measure(name, length, "s", f"{count:,} due at one second, {per_object:,} an object", used / count * 1e6)


async def _steady(url: str, each_second: int, seconds: int) -> list[Measure]:
    ticks = Ticks()
    app, cls = make_app(ticks)
    async with app.run(url) as node:
        await _fill(app, cls, each_second, PER_OBJECT, "* * * * * *", "o")
        await asyncio.sleep(1.5)
        ticks.late_ms.clear()
        used, began = time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        used, length = time.process_time() - used, time.monotonic() - began
        late = list(ticks.late_ms)
        await committed(node)
    expected = each_second * length
    note = f"{each_second:,} a second for {seconds} s beside themselves"
    return [
        Measure("cron.second.kept", 100 * len(late) / expected, "% of runs", note),
        Measure("cron.second.p50", percentile(late, 0.5), "ms", note),
        Measure("cron.second.p99", percentile(late, 0.99), "ms", note),
        Measure("cron.second.cpu", 100 * used / length, "% of a core", note, used / max(1, len(late)) * 1e6),
    ]


async def _fill(app: App, cls: type[DurableObject], count: int, per_object: int, text: str, prefix: str) -> float:
    """Milliseconds that adding one took."""
    began = time.perf_counter()
    objects = max(1, count // per_object)
    filling = [app.get(cls, f"{prefix}{n}").fill(0, count // objects, text) for n in range(objects)]  # type: ignore[attr-defined]
    await asyncio.gather(*filling)
    return (time.perf_counter() - began) * 1000 / count


def _at(at_ms: int) -> str:
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{when.second} {when.minute} * * * *"


async def _check(node: Node, count: int) -> None:
    entries, parked = await node.store.count("entries"), await node.store.count("parked")
    if (entries, parked) != (count, 0):
        raise AssertionError(f"{count} schedules were due, {entries} runs are in the ledger, {parked} are parked")
