"""cronsim: a cron library that follows Debian's rules; nothing is stored."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bench import next_run
from bench.measures import Measure
from bench.sizes import Sizes

DURABILITY = {"sqlite": "none: only times are computed"}


def run(url: str, sizes: Sizes) -> list[Measure]:
    return next_run.peer(_next_after, sizes)


def _next_after(text: str, zone: ZoneInfo) -> Callable[[datetime], Any]:
    from cronsim import CronSim

    return lambda start: next(CronSim(text, start.astimezone(zone)))
