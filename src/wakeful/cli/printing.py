"""Layer 5. How do rows, times and values look to a person, and to a program?"""

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.cli.failing import one_line
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from rich.console import Console

# Into a pipe there is no width to fit: what is cut off can't be searched.
PIPE_WIDTH = 240
CUT_WIDTH_MIN = 12


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
    """A table that fits the terminal. A column named `…x` may be cut, `>x` stands to the right; with a `~x` only that wraps."""
    from rich import box
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(len(column.lstrip(">…~")), *(cell_len(row[n]) for row in cells)) for n, column in enumerate(columns)]
    over = indent + sum(widths) + 3 * len(widths) - out.width
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    has_wrap = any(column.startswith("~") for column in columns)
    for column, width in zip(columns, widths, strict=True):
        is_cut = column.startswith("…")
        table.add_column(
            column.lstrip(">…~"),
            overflow="ellipsis" if is_cut else "fold",
            no_wrap=is_cut or (has_wrap and not column.startswith("~")),
            max_width=max(CUT_WIDTH_MIN, width - over) if is_cut and over > 0 else None,
            justify="right" if column.startswith(">") else "left",
        )
    for row in cells:
        table.add_row(*map(Text, row))
    shown = Padding(table, (0, 0, 0, indent), expand=False)
    if out.is_terminal:
        out.print(shown)
        return
    with out.capture() as capture:
        out.print(shown)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()), flush=True)


def put_line(text: str = "", style: str = "") -> None:
    """One line; never wrapped in a pipe."""
    from rich.text import Text

    console().print(Text(text, style=style), soft_wrap=True)


def iso(ms: int | None) -> str | None:
    """For programs: ISO 8601, UTC."""
    return None if ms is None else to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
