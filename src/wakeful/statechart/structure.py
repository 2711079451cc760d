"""Layer 1, pure. What is a chart made of once it has been read, and what is known and gathered while it takes a step?

Sets of states are integers: the bit of a state is its place in document order. So leaving "everything below" is
one `&`, and the highest bit left first is the order in which states are left.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wakeful.statechart.effects import Cancel, Delay, Effect, Invoke, Send, Stop
from wakeful.values.errors import BadChart

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


# Which states are active, and what follows from that?


class Configuration:
    """A legal set of active states; kept by its chart, so that what follows from it is worked out once."""

    __slots__ = ("active", "always", "chosen", "known", "leaves", "mask", "plans", "shown", "tags")

    def __init__(self, nodes: Sequence[ChartState], mask: int, leaves: tuple[ChartState, ...]) -> None:
        self.mask = mask
        self.shown = mask  # what the state value tells
        self.leaves = leaves  # in the order in which they became active
        self.active: dict[ChartState, ChartState] = {}  # of a compound state, its active child
        self.plans: dict[tuple[int, ...], Microstep] = {}
        self.chosen: dict[str, list[Transition]] = {}  # what an event enables, where no guard has a say
        self.known: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # the events it names, once somebody asked
        tags: dict[str, None] = {}
        for node in nodes:
            if not mask & node.bit:
                continue
            tags.update(dict.fromkeys(node.tags))
            inside = [child for child in node.children if mask & child.bit]
            wanted = 1 if node.type == "compound" else len(node.children)
            if len(inside) != wanted or (node.parent is not None and not mask & node.parent.bit):
                raise _contradiction(node, inside)
            if node.type == "compound":
                self.active[node] = inside[0]
        self.tags = tuple(tags)
        ways = ([t for node in (leaf, *leaf.ancestors) for t in node.always] for leaf in leaves)
        self.always: tuple[tuple[Transition, ...], ...] = tuple(tuple(way) for way in ways if way)

    @classmethod
    def before(cls, root: ChartState) -> "Configuration":
        """The root alone: where a chart is before it has begun; its value already tells the initial states, as XState's."""
        made = cls((), root.bit, ())
        made.shown = _mask_before(root)
        return made

    def value(self, root: ChartState) -> Any:
        """The state value: the key of the active state, or a mapping of keys where there is more to say."""
        if root.type == "compound":
            child = self.active[root]
            return child.key if child.is_leaf else {child.key: self.value(child)}
        return {child.key: self.value(child) for child in root.children}

    def exit_actions(self, nodes: Sequence[ChartState]) -> list[Action]:
        """The exit actions of everything active, innermost first: what a chart does when it is done."""
        return [action for node in reversed(nodes) if self.mask & node.bit for action in node.exit]


def mask_of(root: ChartState, value: Any) -> int:
    """The active states of a state value; where it is silent the initial ones, as XState fills them in."""
    mask = root.bit
    if root.is_leaf:
        if value not in ({}, None):
            raise _no_such_state(root, value)
        return mask
    if isinstance(value, str):
        given: Mapping[str, Any] = {value: None}
    elif isinstance(value, Mapping):
        given = value
    elif value is None:
        given = {}
    else:
        raise _no_such_state(root, value)
    for key in given:
        child = root.by_key.get(key)
        if child is None or child.type == "history":
            raise _no_such_state(root, key)
    if root.type == "compound":
        if len(given) > 1:
            raise _no_such_state(root, value)
        if not given:
            return mask | _initial(root)
        return mask | mask_of(root.by_key[next(iter(given))], next(iter(given.values())))
    for child in root.children:
        mask |= mask_of(child, given.get(child.key))
    return mask


def _initial(node: ChartState) -> int:
    child = node.initial
    assert child is not None
    while child.type == "history":
        child = child.default[0]
    mask = mask_of(child, None)
    for ancestor in child.ancestors:
        if ancestor is node:
            break
        mask |= ancestor.bit
    return mask


def _mask_before(node: ChartState) -> int:
    """What the value tells of a state before it is entered: its initial states, and not where a history there leads."""
    mask = node.bit
    if node.type != "compound":
        for child in node.children:
            mask |= _mask_before(child)
        return mask
    assert node.initial is not None
    for ancestor in node.initial.ancestors:
        if ancestor is node:
            break
        mask |= ancestor.bit
    return mask if node.initial.type == "history" else mask | _mask_before(node.initial)


def _no_such_state(node: ChartState, value: Any) -> BadChart:
    has = ", ".join(node.by_key) or "none"
    return BadChart(
        f"{node.path or 'chart'}: the snapshot is in {value!r}, which is no state under '#{node.id}' (there are: {has})",
        code="chart.snapshot",
    )


def _contradiction(node: ChartState, inside: list[ChartState]) -> BadChart:
    found = ", ".join(repr(child) for child in inside) or "none"
    return BadChart(
        f"{node.path or 'chart'}: of the states in '#{node.id}' these would be active: {found}; "
        "that is no configuration of this chart, so the targets of a transition contradict each other",
        code="chart.impossible",
    )


class Arrival:
    """The entering of a final state: who is done by it."""

    __slots__ = ("completion", "done")

    def __init__(self, done: tuple[ChartState, ...], completion: ChartState | None) -> None:
        self.done = done  # parents of which `xstate.done.state` is raised
        self.completion = completion  # set when the whole chart is done: whose event its output gets


class Entering:
    """One state that is entered, and what it does then."""

    __slots__ = ("actions", "arrival", "node")

    def __init__(self, node: ChartState, actions: tuple[Action, ...], arrival: Arrival | None) -> None:
        self.node = node
        self.actions = actions
        self.arrival = arrival


class Microstep:
    """One microstep: actions of leaving, of the transitions, of entering; and the states it ends in."""

    __slots__ = ("actions", "enters", "kept", "leaves", "next")

    def __init__(
        self,
        *,
        leaves: tuple[Action, ...],
        actions: tuple[Action, ...],
        enters: tuple[Entering, ...],
        kept: dict[str, tuple[ChartState, ...]],
        next: Configuration,
    ) -> None:
        self.leaves = leaves
        self.actions = actions
        self.enters = enters
        self.kept = kept  # what histories keep of the states that are left
        self.next = next


# What changes while it takes a step?

STARTING = -1  # instead of the number of a start: that of the actor which the state being entered will have


class ChartStep:
    """The state of a chart while it takes a step; what it was before stays as it is."""

    __slots__ = (
        "children",
        "configuration",
        "context",
        "effects",
        "error",
        "event",
        "is_changed",
        "kept",
        "mailbox",
        "now",
        "output",
        "pending",
        "queue",
        "seq",
        "starting",
        "status",
    )

    def __init__(
        self,
        *,
        configuration: Configuration,
        context: dict[str, Any],
        kept: dict[str, tuple[ChartState, ...]],
        children: dict[str, dict[str, Any]],
        pending: list[dict[str, Any]],
        seq: int,
        event: dict[str, Any],
        now: int,
    ) -> None:
        self.configuration = configuration
        self.context = context
        self.kept = kept
        self.children = children
        self.pending = pending
        self.seq = seq
        self.event = event
        self.now = now
        self.status = "active"
        self.output: Any = None
        self.error: Any = None
        self.effects: list[Effect] = []
        self.queue: list[dict[str, Any]] = []  # raised, for this macrostep
        self.mailbox: list[dict[str, Any]] = []  # sent to itself, each a macrostep of its own
        self.starting: tuple[str, ...] = ()  # actors that the state being entered will have
        self.is_changed = False  # since the last look: decides whether `always` is asked again

    def count(self) -> int:
        """The next number of this chart's life, for what needs a name of its own."""
        self.seq += 1
        return self.seq

    def delay(
        self, id: str, delay_ms: float, event: dict[str, Any], target: str | None, start: int | None = None
    ) -> None:
        """Set a delayed send; one of the same id gives way. `start` is which start of the target it is for."""
        due_at = self.now + max(0, int(delay_ms))
        pending = {"id": id, "due_at": due_at, "delay_ms": delay_ms, "event": event, "target": target}
        if start is not None:
            pending["start"] = start
        self.pending = [*(one for one in self.pending if one["id"] != id), pending]
        self.effects.append(Delay(id, due_at, event, target))

    def cancel(self, id: str) -> None:
        """Take back a delayed send, if it is pending."""
        rest = [one for one in self.pending if one["id"] != id]
        if len(rest) != len(self.pending):
            self.pending = rest
            self.effects.append(Cancel(id))

    def invoke(self, id: str, src: str, input: Any, *, is_synced: bool) -> None:
        """Start an actor."""
        seq = self.count()
        child = {"src": src, "input": input, "syncSnapshot": is_synced, "seq": seq}
        self.children = {**self.children, id: child}
        if any(one.get("start") == STARTING and one["target"] == id for one in self.pending):
            self.pending = [
                {**one, "start": seq} if one.get("start") == STARTING and one["target"] == id else one
                for one in self.pending
            ]
        self.effects.append(Invoke(id, src, input, seq, is_synced))
        self.is_changed = True

    def stop(self, id: str) -> None:
        """Stop an actor, if it is there."""
        self.is_changed = True
        if id in self.children:
            self.children = dict(self.children)
            self.effects.append(Stop(id, self.children.pop(id).get("seq", 0)))

    def send(self, target: str, event: dict[str, Any]) -> None:
        self.effects.append(Send(target, event))

    def start_of(self, target: str) -> int:
        """Which start of an actor is meant by one who sends to it now."""
        return STARTING if target in self.starting else int(self.children[target.removeprefix("#_")].get("seq", 0))

    def actor(self, target: str, path: str) -> str:
        """The id of an actor that a chart sends to, which must be there."""
        id = target.removeprefix("#_")
        if id in self.children or target in self.starting:
            return id
        there = ", ".join(self.children) or "none"
        raise BadChart(f"{path}.to: there is no actor {id!r} now (there are: {there})", code="chart.actor")
