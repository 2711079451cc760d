"""Layer 5. What is to be seen of a chart, boxes inside boxes and arrows with labels between them, and how large is each?

Nothing has a place yet; `layout` gives it one.
"""

import itertools
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


# Which pieces of an arrow lie in which box, and does each go with the flow or against it?
#
# An arrow between two states is drawn in the smallest box that holds both, between the boxes there; what is left of it
# runs inside those, from a port in their border. In each box the pieces flow from front to back; an arrow that would
# close a circle is turned around for that, and only its head stays where it belongs.


class Piece(Struct, frozen=True):
    """A part of an arrow inside one box; None stands for a port: in the front as tail, in the back as head."""

    edge: Edge
    tail: Box | None
    head: Box | None
    is_turned: bool  # the arrow points from head to tail here
    is_labelled: bool


def lift(root: Box, edges: list[Edge]) -> dict[Box, list[Piece]]:
    """The pieces of all arrows, by the box in which they lie."""
    homes: dict[Box, list[tuple[Edge, list[Box], list[Box]]]] = {}
    for edge in edges:
        home, source, target = _home(edge)
        homes.setdefault(home, []).append((edge, source, target))
    pieces: dict[Box, list[Piece]] = {}
    ahead = [root]
    while ahead:
        box = ahead.pop()
        ahead += reversed(box.children)
        _lift_in(box, homes.get(box, []), pieces)
    return pieces


def _home(edge: Edge) -> tuple[Box, list[Box], list[Box]]:
    """The box in which an arrow has its label, and the ways down from there to its ends."""
    source, target = edge.source.ancestors()[::-1], edge.target.ancestors()[::-1]
    common = 0
    while common < min(len(source), len(target)) and source[common] is target[common]:
        common += 1
    return source[common - 1], source[common:], target[common:]


def _lift_in(box: Box, own: list[tuple[Edge, list[Box], list[Box]]], pieces: dict[Box, list[Piece]]) -> None:
    inner = [(source[0], target[0]) for _, source, target in own if source and target]
    turned = _against(box, inner)
    for edge, source, target in own:
        is_turned = bool(source and target) and (source[0], target[0]) in turned
        first, last = (target, source) if is_turned else (source, target)
        piece = Piece(
            edge=edge,
            tail=first[0] if first else None,
            head=last[0] if last else None,
            is_turned=is_turned,
            is_labelled=bool(edge.rows),
        )
        pieces.setdefault(box, []).append(piece)
        for above, below in itertools.pairwise(first):
            rest = Piece(edge=edge, tail=below, head=None, is_turned=is_turned, is_labelled=False)
            pieces.setdefault(above, []).append(rest)
        for above, below in itertools.pairwise(last):
            rest = Piece(edge=edge, tail=None, head=below, is_turned=is_turned, is_labelled=False)
            pieces.setdefault(above, []).append(rest)


def _against(box: Box, links: list[tuple[Box, Box]]) -> set[tuple[Box, Box]]:
    """The links that lead back to where a walk from the first state came from."""
    ways: dict[Box, list[Box]] = {}
    for tail, head in links:
        ways.setdefault(tail, []).append(head)
    back_links: set[tuple[Box, Box]] = set()
    entered: set[Box] = set()
    left: set[Box] = set()
    for start in box.children:
        if start in entered:
            continue
        entered.add(start)
        walk = [(start, iter(ways.get(start, ())))]
        while walk:
            at, rest = walk[-1]
            onward = next(rest, None)
            if onward is None:
                left.add(at)
                walk.pop()
            elif onward not in entered:
                entered.add(onward)
                walk.append((onward, iter(ways.get(onward, ()))))
            elif onward not in left:
                back_links.add((at, onward))
    return back_links
