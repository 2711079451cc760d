"""What is a number of a run, and how are several of them one?"""

import asyncio
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from msgspec import Struct

from bench import profiling


class Measure(Struct, frozen=True):
    """One number. The same name under another subject (`raw`, a peer) is the same work done by it."""

    name: str  # work.part, as in `schedule.64`
    value: float
    unit: str  # "/s" is better when more; everything else when less
    note: str = ""
    cpu_us: float = 0.0  # of this process for each, where that means something: steadier than time on a busy machine


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` of them don't exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, math.ceil(part * len(ranked)) - 1))]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def is_better_when_more(unit: str) -> bool:
    return unit.endswith("/s")


async def rate(name: str, count: int, callers: int, one: Callable[[int], Awaitable[Any]], *, note: str = "") -> Measure:
    """How many a second, when `callers` at once each do the next one as soon as theirs is answered."""
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await one(number)

    began, used = time.perf_counter(), time.process_time()
    with profiling.stretch() if "." in name else nullcontext():  # a name without a part is a preparation
        await asyncio.gather(*[caller() for _ in range(callers)])
    length, used = time.perf_counter() - began, time.process_time() - used
    return Measure(name, count / length, "/s", note, used / count * 1e6)


def timed(name: str, count: int, work: Callable[[], Any], *, note: str = "") -> Measure:
    """How many a second, for something that does all of them in one plain call."""
    began, used = time.perf_counter(), time.process_time()
    work()
    length, used = time.perf_counter() - began, time.process_time() - used
    return Measure(name, count / length, "/s", note, used / count * 1e6)


def resident_bytes() -> int:
    """What this process has in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)
