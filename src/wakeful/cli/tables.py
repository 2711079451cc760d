"""Layer 5. How does a table fit a terminal: which column gives way, and what when none can any more?

A column named `…x` may be cut, `>x` stands to the right and never breaks, `~x` wraps at words; others fold when they are
long. When the narrowest form of all columns is still too wide, each row becomes a block of lines.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.cli.exit_codes import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = 3  # between two columns
CUT_MIN = 12
FOLD_MIN = 12
WRAP_MIN = 20
MARKS = ">…~"


def put_table(out: "Console", columns: Sequence[str], rows: Sequence[Sequence[object]], *, indent: int = 0) -> None:
    """Print it in whatever form fits; columns that say nothing go first."""
    from rich.text import Text

    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    room = out.width - indent
    widths = fitted(columns, cells, room)
    if widths is None and not all(map(any, zip(*cells, strict=True))):
        used = [place for place in range(len(columns)) if any(row[place] for row in cells)]
        columns, cells = [columns[place] for place in used], [[row[place] for place in used] for row in cells]
        widths = fitted(columns, cells, room)
    lines = _blocks(out, room, columns, cells) if widths is None else _table(out, columns, cells, widths)
    for line in lines:
        out.print(Text.assemble(" " * indent, line) if line else "", soft_wrap=True)


def fitted(columns: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[int] | None:
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


def _table(out: "Console", columns: Sequence[str], cells: Sequence[Sequence[str]], widths: list[int]) -> list["Text"]:
    from rich.text import Text

    names = [column.lstrip(MARKS) for column in columns]
    lines: list[Text] = [Text(_row(columns, names, widths), style="bold")]
    lines.append(Text("─" * (sum(widths) + GAP * (len(widths) - 1)), style="dim"))
    for row in cells:
        parts = [_parts(out, column, cell, width) for column, cell, width in zip(columns, row, widths, strict=True)]
        for place in range(max(map(len, parts))):
            lines.append(Text(_row(columns, [part[place] if place < len(part) else "" for part in parts], widths)))
    return lines


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
