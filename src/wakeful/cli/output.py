"""Layer 5. How do rows, times and values look to a person, and to a program?"""

import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from wakeful.cli.exit_codes import is_plain, json_text, one_screen
from wakeful.values.times import LATEST_MS, to_datetime
from wakeful.views.plain import iso as iso
from wakeful.views.words import length as length
from wakeful.views.words import many as many
from wakeful.views.words import size as size

if TYPE_CHECKING:
    from rich.console import Console

# Into a pipe there is no width to fit: what is cut off can't be searched.
PIPE_WIDTH = 240


_ahead_ms = 0


def own_ms() -> int:
    """This machine's wall clock."""
    return time.time_ns() // 1_000_000


def now_ms() -> int:
    """The time for the edge: by the clock that the deployment follows, once a store of it was opened."""
    return own_ms() + _ahead_ms


def follow(time_ms: int | None) -> None:
    """From now on the time is the store's, which says that it is this; None: this machine's."""
    global _ahead_ms
    _ahead_ms = 0 if time_ms is None else time_ms - own_ms()


def put_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json_text(value, indent=2 if sys.stdout.isatty() else None), flush=True)


def console() -> "Console":
    """Colours and the real width on a terminal, plain and wide elsewhere. User data is never markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    # rich leaves bold and dim with NO_COLOR, which are escape codes as well.
    system: Literal["auto"] | None = None if is_plain() else "auto"
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False, width=width, color_system=system)


def put_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, indent: int = 0) -> None:
    """A table that fits the terminal; see `tables` for what the marks of columns mean."""
    from wakeful.cli import tables

    tables.put_table(console(), columns, rows, indent=indent)


def put_line(text: str = "", style: str = "") -> None:
    """One line, or several; never wrapped in a pipe. Whatever is in it, a terminal only shows it."""
    from rich.text import Text

    console().print(Text(one_screen(text), style=style), soft_wrap=True)


def clock_time(ms: int) -> str:
    """For people: local time, with the day when it isn't today; `-` past all times, of what waits for something else."""
    if ms > LATEST_MS:
        return "-"
    local = to_datetime(ms).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"


def relative(ms: int, now: int) -> str:
    """`in 4 s`, `3 min ago`, `now`, `once others have run`."""
    if ms > LATEST_MS:
        return "once others have run"
    if abs(ms - now) < 500:
        return "now"
    return f"in {length(ms - now)}" if ms > now else f"{length(now - ms)} ago"
