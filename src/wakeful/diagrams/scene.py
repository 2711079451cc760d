"""Layer 5. What is to be seen of a chart: boxes inside boxes, and arrows with labels between them?

Nothing has a place yet; `layout` gives it one.
"""

from msgspec import Struct

from wakeful.diagrams.texts import TextLine

TITLE_SIZE = 14.0
TEXT_SIZE = 12.0
LINE_HEIGHT = 16.0
TITLE_HEIGHT = 20.0


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
