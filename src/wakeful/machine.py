"""Layer 5. The base class of objects whose behaviour is a statechart, and the marks that few of them need."""

from collections.abc import Mapping
from typing import Any, ClassVar

from wakeful.machines.marks import actor, callback, value
from wakeful.machines.news import NEWS, SEEN
from wakeful.machines.node_machines import NodeMachines, feature_of
from wakeful.machines.records import Sender, load, present_sender, sent_by
from wakeful.machines.snapshot import ROUTE, Snapshot, event_of, snapshot_of, unstarted_snapshot
from wakeful.machines.steps import EVENT, RESET, begin, clear, note, present, take
from wakeful.objects import DurableObject
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime.context import runtime_of
from wakeful.runtime.registry import for_operators, reader
from wakeful.runtime.turn import Turn, running_turn
from wakeful.statechart.step import can, start, step
from wakeful.values.errors import Conflict

__all__ = ["Machine", "Sender", "actor", "callback", "value"]


class Machine(DurableObject):
    """An object that is a statechart: give it `chart`, and methods for the names in it.

    `chart` is XState v5's machine config as a dict, or the path of a .json or .yaml file beside the module. One event
    is one turn: the new snapshot, its timers, and what it does to the world commit together.

    >>> from wakeful import App, Machine
    >>> app = App()
    >>> @app.object
    ... class Order(Machine):
    ...     chart = {
    ...         "initial": "placed",
    ...         "states": {"placed": {"on": {"PAY": "paid"}, "after": {"24h": "expired"}}, "paid": {}, "expired": {}},
    ...     }
    >>> async with app.world() as world:
    ...     await world.get(Order, "1").send("PAY")
    ...     await world.get(Order, "2").start()
    ...     await world.advance(hours=24)
    ...     print([(await world.get(Order, key).snapshot()).value for key in ("1", "2")])
    ['paid', 'expired']
    """

    chart: ClassVar[Any] = None
    version: ClassVar[int] = 1  # raise it when living machines no longer fit, and give `migrate`
    resume: ClassVar[str] = "deadline"  # or "restart", or "pause_while_down"
    on_crash: ClassVar[str] = "again"  # or "error": what an invoked method comes to whose process died
    events: ClassVar[Mapping[str, Any] | None] = None  # what callers may send: a shape for each type; None: anything
    retry: ClassVar[RetryPolicy | None] = None  # of actions, and of delays whose step raised; None: five attempts

    __wakeful_reader_operations__ = (NEWS, SEEN)
    __wakeful_names__: tuple[str, ...] = ("start", "send", "snapshot", "can", "reset", "sender")
    __wakeful_plain__ = ("migrate", "visible", "audible")

    async def start(self, input: Any = None) -> Snapshot:
        """Start it with this input; the first event does it without. `Conflict` when it has been started."""
        turn, feature = self._here("start")
        bound = feature.bound_of(self.ctx.cls)
        if await load(turn) is not None:
            raise Conflict(f"{self.ctx.id} has been started already", code="machine.started")
        kept = await begin(feature, turn, bound, input)
        note(turn, EVENT, turn.activation.node.clock.now())
        return snapshot_of(bound, kept)

    async def send(self, event: str | Mapping[str, Any], /, **data: Any) -> Snapshot:
        """Give it an event, `"PAY", amount=12` or a mapping with a type; the snapshot after all that follows from it."""
        turn, feature = self._here("send")
        bound = feature.bound_of(self.ctx.cls)
        now = turn.activation.node.clock.now()
        given = event_of(event, data)
        if bound.events is not None and given["type"] != ROUTE:
            given = bound.events.check(given)
        kept = await present(feature, turn, bound) or await begin(feature, turn, bound, None)
        take(feature, turn, bound, kept, given, lambda snapshot, at: step(bound.chart, snapshot, given, at))
        note(turn, EVENT, now)
        return snapshot_of(bound, kept)

    @for_operators("`POST /v1/objects/CLASS/KEY/machine/reset`, or `wakeful reset CLASS KEY`")
    async def reset(self, input: Any = None, *, force: bool = False) -> Snapshot:
        """Begin anew with this input, when it is over: done, failed or stopped. `Conflict` while it is active, unless forced.

        Its delays are taken back and what it started is stopped; actions that its steps have asked for are still done.
        """
        turn, feature = self._here("reset")
        bound = feature.bound_of(self.ctx.cls)
        kept = await load(turn)
        parent = None if kept is None else kept.parent
        if kept is not None:
            if kept.snapshot["status"] == "active" and not force:
                raise Conflict(
                    f"{self.ctx.id} is active; reset begins anew what is over, with force (force=True, --force) also what is not",
                    code="machine.active",
                )
            clear(feature, turn, bound, kept)
        kept = await begin(feature, turn, bound, input, parent)
        note(turn, RESET, turn.activation.node.clock.now())
        return snapshot_of(bound, kept)

    @reader
    async def snapshot(self) -> Snapshot:
        """How it stands. Before its start the status is "new"."""
        turn, feature = self._here("snapshot")
        bound = feature.bound_of(self.ctx.cls)
        kept = await present(feature, turn, bound)
        return unstarted_snapshot(bound) if kept is None else snapshot_of(bound, kept)

    @reader
    async def can(self, event: str | Mapping[str, Any], /, **data: Any) -> bool:
        """Whether it would do anything with this event now, guards included."""
        turn, feature = self._here("can")
        bound = feature.bound_of(self.ctx.cls)
        given = event_of(event, data)
        kept = await present(feature, turn, bound)
        bound.with_instance(self)
        with sent_by(Sender.of_turn(turn)):
            snapshot = start(bound.chart, None, 0)[0] if kept is None else kept.snapshot
            return can(bound.chart, snapshot, given)

    @property
    def sender(self) -> Sender | None:
        """Who sent the event that a guard, an assign or an action is at: in these methods, and None elsewhere."""
        return present_sender()

    def migrate(self, snapshot: dict[str, Any], from_version: int) -> dict[str, Any]:
        """A snapshot of an older version of the chart, as one of this version. Override it; this one takes it as it is."""
        return snapshot

    def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
        """What a watcher may see: the snapshot, one with less in it, or None for nothing. Override it."""
        return snapshot

    def audible(self, caller: Any, event: dict[str, Any]) -> dict[str, Any] | None:
        """What a watcher who may see the snapshot hears of an emitted event: it, one with less in it, or None."""
        return event

    def _here(self, what: str) -> tuple[Turn, NodeMachines]:
        activation = runtime_of(self.ctx)
        return running_turn(activation, f"Machine.{what}"), feature_of(activation.node)
