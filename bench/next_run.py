"""What does the next time of a cron expression cost, the worst ones included?"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from bench.measures import Measure
from bench.sizes import Sizes
from wakeful import cron

TYPICAL = ("*/5 * * * *", "0 9 * * 1-5", "30 2 * * *", "0 0 1 * *", "15 10 * * mon#1", "0 12 L * *")
WORST = ("0 0 29 2 *", "0 0 29 2 1#5", "59 23 31 12 *", "0 0 31 * *", "30 2 29 2 sun#5", "0 0 L 2 6#5")
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York")
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
STEP = timedelta(days=11, hours=5, minutes=7, seconds=13)


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`next-run.typical`, `next-run.worst`: microseconds of the slowest expression and zone, fastest of five rounds."""
    starts = [BEGIN + STEP * number for number in range(sizes.next_run_count)]
    found = []
    for name, expressions in (("typical", TYPICAL), ("worst", WORST)):
        slowest = max(
            (_fastest(cron(text, zone=zone).next_after, starts), text, zone) for text in expressions for zone in ZONES
        )
        found.append(Measure(f"next-run.{name}", slowest[0], "µs", f"{slowest[1]} in {slowest[2]}"))
    return found


def peer(make: Callable[[str, ZoneInfo], Callable[[datetime], Any]], sizes: Sizes, *, rounds: int = 2) -> list[Measure]:
    """The same of another library; expressions that it does not know are left out and named."""
    starts = [BEGIN + STEP * number for number in range(max(5, sizes.next_run_count // 20))]
    found = []
    for name, expressions in (("typical", TYPICAL), ("worst", WORST)):
        times, refused = [], []
        for text in expressions:
            for zone in ("UTC", "Europe/Berlin"):
                try:
                    times.append((_fastest(make(text, ZoneInfo(zone)), starts, rounds), text, zone))
                except Exception:
                    refused.append(text)
        if times:
            slowest = max(times)
            note = f"{slowest[1]} in {slowest[2]}" + (f"; not {', '.join(dict.fromkeys(refused))}" if refused else "")
            found.append(Measure(f"next-run.{name}", slowest[0], "µs", note))
    return found


def _fastest(next_after: Callable[[datetime], Any], starts: list[datetime], rounds: int = 5) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for start in starts:
            next_after(start)
        best = min(best, time.perf_counter() - began)
    return best / len(starts) * 1e6
