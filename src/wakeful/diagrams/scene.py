"""Layer 5. What is to be seen of a chart, boxes inside boxes and arrows with labels between them, and how large is each?

Nothing has a place yet; `layout` gives it one.
"""

from collections.abc import Iterable

from msgspec import Struct

from wakeful.diagrams.texts import TextLine, line_width

TITLE_SIZE = 14.0
TEXT_SIZE = 12.0
LINE_HEIGHT = 16.0
TITLE_HEIGHT = 20.0
BOLD = ("event", "title", "due")  # kinds of text


class ArrowRow(Struct, frozen=True):
    """One way to take an arrow: an event with its guard and actions, on one line or several."""

    lines: tuple[TextLine, ...]
    whole: str  # all of it, where the lines had to be cut
    has_clock: bool = False
    is_pending: bool = False


class Box:
    """A state, or a mark that arrows lead to or from: the dot of an initial state, a history."""

    def __init__(self, kind: str, id: str, parent: "Box | None") -> None:
        self.kind = kind  # state, final, dot or history
        self.id = id
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: list[Box] = []
        self.title: tuple[TextLine, ...] = ()
        self.rows: tuple[ArrowRow, ...] = ()  # what it does on entry and exit, invokes, and handles inside
        self.loops: list[ArrowRow] = []  # ways from it to itself
        self.sign = ""  # of a history: H or H*
        self.tip = ""
        self.is_active = False
        self.is_live = False  # active, in a machine that goes on
        self.is_parallel = False
        self.is_region = False
        if parent is not None:
            parent.children.append(self)

    def ancestors(self) -> "list[Box]":
        """Itself, and all it is in, the nearest first."""
        found: list[Box] = []
        box: Box | None = self
        while box is not None:
            found.append(box)
            box = box.parent
        return found


class Edge:
    """An arrow from a box to another one."""

    def __init__(self, source: Box, target: Box, *, kind: str = "way") -> None:
        self.source = source
        self.target = target
        self.kind = kind  # way; initial and default have no event
        self.rows: list[ArrowRow] = []
        self.is_live = False  # its source is active: it can be taken next


class Scene(Struct, frozen=True):
    """Everything that is to be seen."""

    root: Box
    edges: list[Edge]
    heading: str
    facts: tuple[str, ...]  # short remarks under the heading
    notes: tuple[ArrowRow, ...]  # pending delays that no arrow stands for


# How large are boxes and labels, before anything has a place?

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
