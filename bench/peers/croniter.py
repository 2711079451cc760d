"""croniter: the cron library that most others use; nothing is stored."""

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
    from croniter import croniter

    return lambda start: croniter(text, start.astimezone(zone)).get_next(datetime)
