"""Layer 5. How large are boxes and labels, before anything has a place?"""

from collections.abc import Iterable

from wakeful.diagrams.chart_scene import BOLD
from wakeful.diagrams.scene import LINE_HEIGHT, TEXT_SIZE, TITLE_HEIGHT, TITLE_SIZE, ArrowRow, Box
from wakeful.diagrams.texts import line_width

PAD = 16.0  # from the border of a box to what is inside
DOT = 12.0
HISTORY = 28.0
CLOCK = 16.0  # the room of the clock before a delay
LABEL_PAD = 8.0
ROW_GAP = 5.0  # between the rows of one label
LOOP = 24.0  # from a box to the label of its loops
_WIDTH_MIN = 76.0
_TITLE_PAD = 9.0

Size = tuple[float, float]


def label_size(rows: Iterable[ArrowRow]) -> Size:
    """The room of a label with these rows."""
    given = list(rows)
    wide = max(_row_width(row) for row in given)
    high = sum(len(row.lines) for row in given) * LINE_HEIGHT + ROW_GAP * (len(given) - 1)
    return wide + 2 * LABEL_PAD, high + 6


def header_size(box: Box) -> Size:
    """The room of what stands in a box: its title, then its rows."""
    wide = max((line_width(line, TITLE_SIZE, BOLD) for line in box.title), default=0.0)
    high = len(box.title) * TITLE_HEIGHT + 2 * _TITLE_PAD if box.title else 0.0
    if box.rows:
        wide = max([wide, *(_row_width(row) for row in box.rows)])
        high += sum(len(row.lines) for row in box.rows) * LINE_HEIGHT + _TITLE_PAD
        high += 0.0 if box.title else _TITLE_PAD
    return wide + 2 * PAD, high


def leaf_size(box: Box) -> Size:
    """The room of a box with nothing but text inside."""
    if box.kind == "dot":
        return DOT, DOT
    if box.kind == "history":
        return HISTORY, HISTORY
    wide, high = header_size(box)
    return max(wide + (8 if box.kind == "final" else 0), _WIDTH_MIN), max(high, 40.0)


def _row_width(row: ArrowRow) -> float:
    wide = max(line_width(line, TEXT_SIZE, BOLD) for line in row.lines)
    return wide + (CLOCK if row.has_clock else 0.0)
