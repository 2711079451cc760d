"""Layer 4. A step asked for effects: how does each come about, and when?

Delays become timers, in the commit of the step. Actions and actors become timers that are due at once and run after
it. What goes to other machines travels as a timer of theirs. So everything that a step leads to is on disk with it,
or nothing is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.machines.bindings import Bound
from wakeful.machines.node_machines import DELAY, DO, RUN, NodeMachines
from wakeful.machines.records import OUTSIDE, MachineRecord, Parent, Sender, note_sender
from wakeful.runtime.turn import Turn
from wakeful.statechart.effects import PARENT, Act, Cancel, Delay, Effect, Emit, Invoke, Log, Send, Stop
from wakeful.values.codec import encode
from wakeful.values.errors import LimitExceeded
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.timers import Timer
from wakeful.values.trace import with_trace

# Of the name of a timer: with the object's it must fit one index row of every store.
ID_BYTES_MAX = 1_000


class Carrier:
    """Carries out the effects of one step, within its turn."""

    def __init__(
        self,
        feature: NodeMachines,
        bound: Bound,
        turn: Turn,
        kept: MachineRecord,
        event: dict[str, Any],
        before: Mapping[str, Any] | None = None,
        *,
        sender: Sender | None = None,
        arriving: Mapping[str, Any] | None = None,
    ) -> None:
        """`before` is the snapshot before the step: what it stops is not in the one after.

        `arriving` has by their ids the child machines that do not begin, but go on from what they were elsewhere.
        """
        children = {**((before or {}).get("children") or {}), **(kept.snapshot.get("children") or {})}
        self._sources = {id: str(child["src"]) for id, child in children.items()}
        self._feature = feature
        self._bound = bound
        self._turn = turn
        self._kept = kept
        self._event = event
        self._arriving = arriving or {}
        self._sender = sender or OUTSIDE
        self._node = turn.activation.node
        self._id = turn.activation.id
        self._acts: list[list[Any]] = []
        self.emitted: list[dict[str, Any]] = []  # for those who watch

    def carry(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Delay):
                self._set(f"{DELAY}:{effect.id}", effect.due_at)
            elif isinstance(effect, Cancel):
                self._turn.clear_timer(f"{DELAY}:{effect.id}")
            elif isinstance(effect, Act):
                self._acts.append([effect.name, effect.params, effect.context, effect.event])
            elif isinstance(effect, Invoke):
                self._invoke(effect)
            elif isinstance(effect, Stop):
                self.stop(effect.id)
            elif isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Emit):
                self.emitted.append(effect.event)
            elif isinstance(effect, Log):
                self._feature.log(self._id, effect)
        if self._acts:
            seq = self._node.next_seq(self._turn.activation.shard)
            name = f"{DO}:{seq:x}"
            self._set(name, self._node.clock.now(), encode(self._acts))
            note_sender(self._turn, name, self._sender)

    def stop(self, id: str) -> None:
        """Stop an actor, once this turn is on disk."""
        kept = self._kept
        number = kept.actors.get(id)
        for actors in ("actors", "running", "begun"):
            setattr(kept, actors, {one: it for one, it in getattr(kept, actors).items() if one != id})
        src = self._sources.get(id, "")
        if self._bound.is_child(src):
            if number is not None:
                self._mail(child_id(self._id, src, id), ["stop", number])
            return
        self._turn.clear_timer(f"{RUN}:{id}")
        self._feature.actors.stop_after(self._turn, f"{RUN}:{id}")

    def tell_parent(self, kind: str, value: Any) -> None:
        """The machine that started this one hears of its end, of its snapshot, or of something it says."""
        parent = self._kept.parent
        if parent is not None:
            self._feature.mail(self._turn, parent.id, [kind, parent.actor, parent.number, value])

    def _invoke(self, effect: Invoke) -> None:
        kept, id = self._kept, effect.id
        number = self._node.next_seq(
            self._turn.activation.shard
        )  # rises over all owners; the chart's own may begin anew
        kept.actors, kept.running = {**kept.actors, id: number}, {**kept.running, id: number}
        self._sources[id] = effect.src
        if self._bound.is_child(effect.src):
            me = Parent(self._id.cls, self._id.key, id, number, effect.is_synced)
            found = (
                [self._arriving[id]] if id in self._arriving else []
            )  # at the end, where earlier versions do not look
            self._mail(child_id(self._id, effect.src, id), ["start", list(me), effect.input, *found])
            return
        payload = [effect.src, effect.input, number, kept.snapshot["context"], self._event]
        self._set(f"{RUN}:{id}", self._node.clock.now(), encode(payload))

    def _send(self, effect: Send) -> None:
        if effect.target == PARENT:
            self.tell_parent("up", effect.event)
            return
        src, number = self._sources.get(effect.target, ""), self._kept.actors.get(effect.target)
        if number is not None and src in self._bound.callbacks:
            self._feature.actors.hand_after(self._turn, f"{RUN}:{effect.target}", number, effect.event)
        elif number is not None and self._bound.is_child(src):
            self._mail(child_id(self._id, src, effect.target), ["down", number, effect.event])

    def _mail(self, target: ObjectId, letter: list[Any]) -> None:
        self._feature.mail(self._turn, target, letter)

    def _set(self, name: str, due_at: int, payload: bytes | None = None) -> None:
        if len(name.encode()) > ID_BYTES_MAX:
            raise LimitExceeded(
                f"{self._id}: the id {name[:64]!r}… of a delay or actor has {len(name.encode())} bytes, more than the limit "
                f"of {ID_BYTES_MAX}; give its state, or it, a shorter id",
                code="limit.machine_id",
            )
        seq = self._node.next_seq(self._turn.activation.shard)
        trace = self._turn.trace_for(name.partition(":")[0])
        self._turn.set_timer(Timer(self._id, name, due_at, due_at, seq, payload=with_trace(payload, trace)))


def child_id(parent: ObjectId, src: str, id: str) -> ObjectId:
    """The object that is the actor of that id: of the class that the chart names, under its parent's key."""
    return ObjectId(src, check_key(src, f"{parent.key}/{id}"))
