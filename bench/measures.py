"""What is a number of a run, and how are several of them one?"""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct


class Measure(Struct, frozen=True):
    """One number. The same name under another subject (`raw`, a peer) is the same work done by it."""

    name: str  # work.part, as in `schedule.64`
    value: float
    unit: str  # "/s" is better when more; everything else when less
    note: str = ""


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
    import asyncio

    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await one(number)

    began = time.perf_counter()
    await asyncio.gather(*[caller() for _ in range(callers)])
    return Measure(name, count / (time.perf_counter() - began), "/s", note)


def timed(name: str, count: int, work: Callable[[], Any], *, note: str = "") -> Measure:
    """How many a second, for something that does all of them in one plain call."""
    began = time.perf_counter()
    work()
    return Measure(name, count / (time.perf_counter() - began), "/s", note)


def resident_bytes() -> int:
    """What this process has in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)
