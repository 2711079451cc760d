"""How many durable jobs a year ahead can be scheduled in a second, and how fast do many run that are due at one instant?"""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from bench import profiling
from bench.measures import Measure, rate
from bench.places import fresh_beside
from bench.program import Bench, Countdown, check_fired, check_not_early, committed, fall_asleep, make_app, now_ms
from bench.sizes import Sizes
from wakeful import App, JobSpec

AHEAD = "365d"
WARM_UP = 200
PIECE = 50_000  # jobs in one `schedule_many`, which takes up to 100,000


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`jobs.schedule.N` for N callers who each wait for theirs to be on disk, `jobs.keyed.64` the same with `key=`,
    `jobs.schedule.bulk`, `jobs.fire.rate`.
    """
    return [*await _schedule(url, sizes), await _fire(fresh_beside(url, "fire"), sizes.fire_count)]


async def _schedule(url: str, sizes: Sizes) -> list[Measure]:
    app, cls = make_app()
    measures = []
    async with app.run(url) as node:
        await _one_by_one(app, cls, "warm", min(WARM_UP, sizes.schedule_count), 16)
        for callers in sizes.schedule_callers:
            count = sizes.schedule_count if callers > 1 else max(1, sizes.schedule_count // 10)
            groups = node.inserter.groups
            measure = await _one_by_one(app, cls, f"jobs.schedule.{callers}", count, callers)
            note = f"{count / max(1, node.inserter.groups - groups):.0f} an insert"
            measures.append(replace(measure, note=note))
        callers = max(sizes.schedule_callers)
        measures.append(await _one_by_one(app, cls, f"jobs.keyed.{callers}", sizes.schedule_count, callers, keyed=True))
        specs = [JobSpec(app.get(cls, f"bulk-{n}").job, (0,), after=AHEAD) for n in range(sizes.bulk_count)]
        began, used = time.perf_counter(), time.process_time()
        with profiling.stretch():
            await schedule_all(app, specs)
        length, used = time.perf_counter() - began, time.process_time() - used
        note = f"schedule_many of {min(PIECE, len(specs)):,}"
        measures.append(Measure("jobs.schedule.bulk", len(specs) / length, "/s", note, used / len(specs) * 1e6))
    return measures


async def _one_by_one(
    app: App, cls: type[Bench], name: str, count: int, callers: int, *, keyed: bool = False
) -> Measure:
    async def one(number: int) -> None:
        key = f"order {number}" if keyed else None
        await app.jobs.schedule(app.get(cls, f"{name}-{number}").job, 0, after=AHEAD, key=key)

    return await rate(name, count, callers, one)


async def schedule_all(app: App, specs: Iterable[JobSpec]) -> None:
    """Schedule them in pieces, each of which is one transaction."""
    some = list(specs)
    for first in range(0, len(some), PIECE):
        await app.jobs.schedule_many(some[first : first + PIECE])


async def lead_ms(app: App, cls: type[Bench], count: int) -> int:
    """How far ahead so many must be due for scheduling to be over before, at the pace of some that wait a year."""
    some = max(1, count // 10)
    began = time.perf_counter()
    await schedule_all(app, [JobSpec(app.get(cls, f"pace{n}").job, (0,), after=AHEAD) for n in range(some)])
    return 800 + int((time.perf_counter() - began) * 2_500 * count / some)


def due(app: App, cls: type[Bench], count: int, at_ms: int, *, prefix: str) -> Iterable[JobSpec]:
    """A job on each of so many objects, all due at that instant."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return [JobSpec(app.get(cls, f"{prefix}{number}").job, (at_ms,), at=at) for number in range(count)]


async def _fire(url: str, count: int) -> Measure:
    """As `fire.rate` of alarms: the objects have state, and are asleep before."""
    countdown = Countdown(count)
    app, cls = make_app(countdown.heard)

    async def make(number: int) -> None:
        await app.get(cls, f"f{number}").add()

    async with app.run(url) as node:
        await rate("make", count, 256, make)
        lead = await lead_ms(app, cls, count)
        due_at = now_ms() + lead
        await schedule_all(app, due(app, cls, count, due_at, prefix="f"))
        await fall_asleep(node)
        if now_ms() > due_at - 100:
            raise AssertionError("scheduling took longer than planned: the machine is too busy to measure this now")
        await asyncio.sleep(max(0.0, due_at / 1000 - time.time() - 0.01))
        used = time.process_time()
        with profiling.stretch():
            await countdown.all_started.wait()
            await committed(node)
        length = time.time() - due_at / 1000
        used = time.process_time() - used
        await check_fired(node, count)
    check_not_early(node, countdown.late_ms)
    return Measure("jobs.fire.rate", count / length, "/s", f"{length:.2f} s in all", used / count * 1e6)
