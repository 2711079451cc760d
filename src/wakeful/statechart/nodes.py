"""Layer 1, pure. What is a state, once the chart has been read?

Sets of states are integers: the bit of a state is its place in document order. So leaving "everything below" is
one `&`, and the highest bit left first is the order in which states are left.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.statechart.turn import ChartStep

Action = Callable[["ChartStep"], None]
Test = Callable[["ChartStep"], bool]
Read = Callable[["ChartStep"], Any]


class ChartState:
    """One state of a chart, with its place among the others."""

    __slots__ = (
        "after",
        "always",
        "ancestors",
        "below",
        "bit",
        "by_key",
        "children",
        "default",
        "entry",
        "exact",
        "exit",
        "histories",
        "history",
        "id",
        "index",
        "initial",
        "initial_actions",
        "initial_default",
        "invokes",
        "is_leaf",
        "key",
        "leave",
        "meta",
        "output",
        "parent",
        "path",
        "starts",
        "tags",
        "type",
        "wild",
    )

    def __init__(self, *, key: str, id: str, type: str, path: str, index: int, parent: "ChartState | None") -> None:
        self.key = key
        self.id = id
        self.type = type  # atomic, compound, parallel, final or history
        self.path = path  # where in the config it is, for errors
        self.index = index
        self.bit = 1 << index
        self.parent = parent
        self.ancestors: tuple[ChartState, ...] = () if parent is None else (parent, *parent.ancestors)  # nearest first
        self.is_leaf = type in ("atomic", "final")
        self.below = 0  # all states under it, histories too
        self.children: tuple[ChartState, ...] = ()  # without the histories
        self.histories: tuple[ChartState, ...] = ()
        self.by_key: dict[str, ChartState] = {}
        self.history = ""  # of a history: shallow or deep
        self.default: tuple[ChartState, ...] = ()  # of a history: where to when nothing was kept
        self.initial_default = False  # of a history: the default is the initial transition of its parent
        self.initial: ChartState | None = None
        self.initial_actions: tuple[Action, ...] = ()
        self.exact: dict[str, tuple[Transition, ...]] = {}
        self.wild: tuple[tuple[str, tuple[Transition, ...]], ...] = ()  # longest first
        self.always: tuple[Transition, ...] = ()
        self.entry: tuple[Action, ...] = ()
        self.exit: tuple[Action, ...] = ()
        self.starts: tuple[Action, ...] = ()  # entry, then the start of what it invokes
        self.leave: tuple[Action, ...] = ()  # exit, then the stop of what it invokes
        self.invokes: tuple[str, ...] = ()  # their ids
        self.after: tuple[str, ...] = ()  # the ids of its delays
        self.tags: tuple[str, ...] = ()
        self.meta: Any = None
        self.output: Read | None = None

    def __repr__(self) -> str:
        return f"#{self.id}"


class Transition:
    """One way out of a state, or an action it takes on an event."""

    __slots__ = ("actions", "domain", "event", "guard", "has_history", "index", "path", "reenter", "source", "targets")

    def __init__(self, *, index: int, source: ChartState, event: str, path: str) -> None:
        self.index = index
        self.source = source
        self.event = event
        self.path = path
        self.targets: tuple[ChartState, ...] = ()
        self.actions: tuple[Action, ...] = ()
        self.guard: Test | None = None
        self.reenter = False
        self.has_history = False  # a target is a history, so where it leads depends on the past
        self.domain: ChartState | None = None  # below it everything is left; known beforehand unless has_history


def is_below(node: ChartState, other: ChartState | None) -> bool:
    """Whether a state is under another one; everything is under None."""
    return other is None or bool(node.bit & other.below)


def candidates(node: ChartState, type: str) -> Iterator[Transition]:
    """The transitions of a state for an event, in the order in which they are asked: by name, then longer wildcards first."""
    yield from node.exact.get(type, ())
    for descriptor, ways in node.wild:
        if descriptor != type and fits(type, descriptor):
            yield from ways


def fits(type: str, descriptor: str) -> bool:
    """Whether a wildcard covers an event: `*` all, `a.*` also `a` and `a.b.c`; a star in the middle none."""
    if descriptor == "*":
        return True
    if not descriptor.endswith(".*"):
        return False
    stem = descriptor[:-2]
    return (type == stem or type.startswith(f"{stem}.")) and "*" not in stem.split(".")
