"""Layer 1, pure. What is known and gathered while a chart takes a step?"""

from typing import TYPE_CHECKING, Any

from wakeful.statechart.effects import Cancel, Delay, Effect, Invoke, Send, Stop
from wakeful.statechart.nodes import ChartState
from wakeful.values.errors import BadChart

if TYPE_CHECKING:
    from wakeful.statechart.chart import Chart
    from wakeful.statechart.configuration import Configuration


STARTING = -1  # instead of the number of a start: that of the actor which the state being entered will have


class ChartStep:
    """The state of a chart while it takes a step; what it was before stays as it is."""

    __slots__ = (
        "chart",
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
        chart: "Chart",
        *,
        configuration: "Configuration",
        context: dict[str, Any],
        kept: dict[str, tuple[ChartState, ...]],
        children: dict[str, dict[str, Any]],
        pending: list[dict[str, Any]],
        seq: int,
        event: dict[str, Any],
        now: int,
    ) -> None:
        self.chart = chart
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
