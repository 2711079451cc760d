"""Layer 5. How do rows, times, values and the progress of long work look to a person, and to a program?"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wakeful.cli.exit_codes import USAGE, CommandError, is_plain, json_text, one_line, one_screen
from wakeful.values.times import LATEST_MS, to_datetime
from wakeful.views.plain import iso as iso
from wakeful.views.plain import length as length
from wakeful.views.plain import many as many
from wakeful.views.plain import size as size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text


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
    """A table that fits the terminal; see below for what the marks of columns mean."""
    print_table(console(), columns, rows, indent=indent)


def confirm(what: str, *, can_ask: bool) -> None:
    """What can't be brought back: somebody says yes, here or by --yes."""
    import click

    if not can_ask or not (sys.stdin.isatty() and sys.stdout.isatty()):
        words = f"this would {what} for good; say --yes, or --dry-run to see what that is"
        raise CommandError(words, code="confirm.missing", exit_code=USAGE)
    if not click.confirm(f"{what} for good?"):
        raise CommandError("nothing was done", code="confirm.declined")


def put_line(text: str = "", style: str = "") -> None:
    """One line, or several; never wrapped in a pipe. Whatever is in it, a terminal only shows it."""
    from rich.text import Text

    console().print(Text(one_screen(text), style=style), soft_wrap=True)


def put_text(text: str, output: Path | None, name: str, done: str, *, code: str, as_json: bool) -> None:
    """What was made: in its file, or on stdout, where a program finds it under that name."""
    if output is None:
        if as_json:
            put_json({name: text})
        else:
            print(text, end="", flush=True)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{output} can't be written: {error.strerror}", code=code) from None
    if as_json:
        put_json({"output": str(output), "bytes": len(text.encode())})
    else:
        put_line(done, "green")


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


# How does a table fit a terminal: which column gives way, and what when none can any more?
#
# A column named `…x` may be cut, `>x` stands to the right and never breaks, `~x` wraps at words; others fold when they are
# long. When the narrowest form of all columns is still too wide, those named `?x` go, if there are any, and a last one that
# may be cut gets a line of its own below the others; else each row becomes a block of lines.

GAP = 3  # between two columns
CUT_MIN = 12
FOLD_MIN = 12
WRAP_MIN = 20
MARKS = "?>…~"


def print_table(out: "Console", columns: Sequence[str], rows: Sequence[Sequence[object]], *, indent: int = 0) -> None:
    """Print it in whatever form fits; columns that say nothing go first."""
    from rich.text import Text

    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    room = out.width - indent
    widths = fit(columns, cells, room)
    if widths is None and not all(map(any, zip(*cells, strict=True))):
        used = [place for place in range(len(columns)) if any(row[place] for row in cells)]
        columns, cells = [columns[place] for place in used], [[row[place] for place in used] for row in cells]
        widths = fit(columns, cells, room)
    if widths is not None:
        lines = _table(out, columns, cells, widths)
    else:
        lines = _narrow_table(out, room, columns, cells) or _blocks(out, room, columns, cells)
    for line in lines:
        out.print(Text.assemble(" " * indent, line) if line else "", soft_wrap=True)


def fit(columns: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of each column so that all fit with the gaps between them; None when they can't."""
    from rich.cells import cell_len

    widths = [
        max([len(column.lstrip(MARKS)), *(cell_len(row[place]) for row in cells)])
        for place, column in enumerate(columns)
    ]
    least = [_least(column, width) for column, width in zip(columns, widths, strict=True)]
    spare = room - sum(least) - GAP * (len(columns) - 1)
    if spare < 0:
        return None
    # What reads badly in pieces is given its room first, then what wraps, then what may be cut.
    for mark in ("", "~", "…"):
        chosen = [place for place, column in enumerate(columns) if (column[0:1] if column[0:1] in "~…" else "") == mark]
        wanted = sum(widths[place] - least[place] for place in chosen)
        given = min(spare, wanted)
        spare -= given
        for place in chosen:
            more = widths[place] - least[place]
            share = given * more // wanted if wanted else 0
            least[place] += share
            given, wanted = given - share, wanted - more
    return least


def _least(column: str, width: int) -> int:
    """As narrow as it can become; never narrower than its own name."""
    name = len(column.lstrip(MARKS))
    if column.startswith(">"):
        return width
    floor = CUT_MIN if column.startswith("…") else WRAP_MIN if column.startswith("~") else FOLD_MIN
    return min(width, max(name, floor))


def _table(
    out: "Console",
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    widths: list[int],
    below: Sequence[str] = (),
) -> list["Text"]:
    from rich.text import Text

    names = [column.lstrip(MARKS) for column in columns]
    lines: list[Text] = [Text(_row(columns, names, widths), style="bold")]
    lines.append(Text("─" * (sum(widths) + GAP * (len(widths) - 1)), style="dim"))
    for number, row in enumerate(cells):
        parts = [_parts(out, column, cell, width) for column, cell, width in zip(columns, row, widths, strict=True)]
        for place in range(max(map(len, parts))):
            lines.append(Text(_row(columns, [part[place] if place < len(part) else "" for part in parts], widths)))
        if below and below[number].strip():
            lines.append(Text(below[number], style="dim"))
    return lines


def _narrow_table(
    out: "Console", room: int, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> list["Text"] | None:
    """Without what can be done without, and with what may be cut below the rest; None when nothing of that helps."""
    kept = [place for place, column in enumerate(columns) if column[0:1] != "?"]
    if len(kept) == len(columns):
        return None
    columns, cells = [columns[place] for place in kept], [[row[place] for place in kept] for row in cells]
    if columns[-1].startswith("…") and len(columns) > 1:
        widths = fit(columns[:-1], [row[:-1] for row in cells], room)
        width = max(CUT_MIN, room - GAP)
        below = [f"{' ' * GAP}{_parts(out, columns[-1], row[-1], width)[0]}" for row in cells]
        return None if widths is None else _table(out, columns[:-1], [row[:-1] for row in cells], widths, below)
    widths = fit(columns, cells, room)
    return None if widths is None else _table(out, columns, cells, widths)


def _row(columns: Sequence[str], texts: Sequence[str], widths: Sequence[int]) -> str:
    from rich.cells import cell_len

    padded = []
    for column, text, width in zip(columns, texts, widths, strict=True):
        room = " " * (width - cell_len(text))
        padded.append(f"{room}{text}" if column.startswith(">") else f"{text}{room}")
    return (" " * GAP).join(padded).rstrip()


def _parts(out: "Console", column: str, cell: str, width: int) -> list[str]:
    """The lines of a cell."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    if cell_len(cell) <= width:
        return [cell]
    if column.startswith("…"):
        return [f"{set_cell_size(cell, width - 1).rstrip()}…"]
    return [line.plain.rstrip() for line in Text(cell).wrap(out, width, overflow="fold")] or [""]


def _blocks(out: "Console", room: int, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list["Text"]:
    """Each row as lines of `name  value`; empty cells are left out, and one without a name belongs to the one before."""
    from rich.text import Text

    names = [column.lstrip(MARKS) for column in columns]
    left = max(map(len, names)) + 2
    width = max(CUT_MIN, room - left)
    lines: list[Text] = []
    for row in cells:
        named: dict[str, str] = {}
        for name, cell in zip(names, row, strict=True):
            last = name or next(reversed(named), "")
            named[last] = ", ".join(filter(None, (named.get(last, ""), cell)))
        for name, cell in named.items():
            for place, part in enumerate(Text(cell).wrap(out, width, overflow="fold") if cell else []):
                head = "" if place else name
                lines.append(Text.assemble((f"{head:<{left}}", "dim"), part.plain.rstrip()))
        lines.append(Text())
    return lines[:-1]


# How far is long work? A bar on a terminal; nothing where nobody watches.

Step = Callable[[int], None]
Note = Callable[[str], None]


def is_watched() -> bool:
    """Whether somebody sees what goes to stderr, which is where bars go, and may be drawn to: stdout is for the answer."""
    return sys.stderr.isatty() and not is_plain()


@contextmanager
def progress(*, is_shown: bool) -> Iterator["Progress | None"]:
    """Bars of rich, or None where nobody watches."""
    if not is_shown or not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), expand=False) as found:
        yield found


@contextmanager
def bar(what: str, total: int, *, is_shown: bool = True) -> Iterator[Step]:
    """One bar: the function that is given says by how much it went on."""
    with progress(is_shown=is_shown) as shown:
        if shown is None:
            yield lambda steps: None
            return
        line = shown.add_task(what, total=total)
        yield lambda steps: shown.update(line, advance=steps)


@contextmanager
def pulse(what: str, *, is_shown: bool = True) -> Iterator[Note]:
    """A bar for work of which nobody knows how much it is: that it goes on, and for how long; gone at its end.

    The function that is given says what there is to say meanwhile.
    """
    if not is_shown or not is_watched():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<14}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        line = shown.add_task(what, total=None)
        yield lambda text: shown.update(line, description=text)
