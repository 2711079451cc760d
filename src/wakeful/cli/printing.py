"""Layer 5. How do rows, times and values look to a person, and to a program?"""

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.looking.plain import iso as iso
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from rich.console import Console

# Into a pipe there is no width to fit: what is cut off can't be searched.
PIPE_WIDTH = 240


def now_ms() -> int:
    """The wall clock, for the edge."""
    return time.time_ns() // 1_000_000


def put_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None), flush=True)


def console() -> "Console":
    """Colours and the real width on a terminal, plain and wide elsewhere. User data is never markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def put_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, indent: int = 0) -> None:
    """A table that fits the terminal; see `tables` for what the marks of columns mean."""
    from wakeful.cli import tables

    tables.put_table(console(), columns, rows, indent=indent)


def put_line(text: str = "", style: str = "") -> None:
    """One line; never wrapped in a pipe."""
    from rich.text import Text

    console().print(Text(text, style=style), soft_wrap=True)


def clock_time(ms: int) -> str:
    """For people: local time, with the day when it isn't today."""
    local = to_datetime(ms).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"


def relative(ms: int, now: int) -> str:
    """`in 4 s`, `3 min ago`, `now`."""
    if abs(ms - now) < 500:
        return "now"
    return f"in {length(ms - now)}" if ms > now else f"{length(now - ms)} ago"


def length(ms: int) -> str:
    """A length of time in the two digits that matter."""
    for unit, size, up_to in (
        ("ms", 1, 1_000),
        ("s", 1_000, 90_000),
        ("min", 60_000, 5_400_000),
        ("h", 3_600_000, 172_800_000),
    ):
        if ms < up_to:
            value = ms / size
            return f"{value:.1f} {unit}" if unit == "s" and value < 10 else f"{value:.0f} {unit}"
    return f"{ms / 86_400_000:.0f} days"


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def many(count: int, noun: str) -> str:
    """`1 timer`, `2,000 timers`."""
    plural = (
        noun
        if count == 1
        else f"{noun[:-1]}ies"
        if noun.endswith("y")
        else f"{noun}es"
        if noun.endswith("s")
        else f"{noun}s"
    )
    return f"{count:,} {plural}"
