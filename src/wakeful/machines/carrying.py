"""Layer 4. A step asked for effects: how does each come about, and when?

Delays become timers, in the commit of the step. Actions and actors become timers that are due at once and run after
it. What goes to other machines travels as a timer of theirs. So everything that a step leads to is on disk with it,
or nothing is.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wakeful.logic.chart.effects import PARENT, Act, Cancel, Delay, Effect, Emit, Invoke, Log, Send, Stop
from wakeful.machines.kept import Kept
from wakeful.runtime.turn import Turn
from wakeful.values.codec import encode
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.machines.feature import MachineFeature

DELAY, DO, RUN, MAIL = "machine", "machine-do", "machine-run", "machine-mail"


class Carrier:
    """Carries out the effects of one step, within its turn."""

    def __init__(
        self,
        feature: "MachineFeature",
        bound: "Bound",
        turn: Turn,
        kept: Kept,
        event: dict[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """`before` is the snapshot before the step: what it stops is not in the one after."""
        children = {**(before or {}).get("children", {}), **kept.snapshot.get("children", {})}
        self._sources = {id: str(child["src"]) for id, child in children.items()}
        self._feature = feature
        self._bound = bound
        self._turn = turn
        self._kept = kept
        self._event = event
        self._node = turn.activation.node
        self._id = turn.activation.id
        self._acts: list[list[Any]] = []

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
                self._stop(effect)
            elif isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Emit):
                self._feature.watchers.emit(self._turn, effect.event)
            elif isinstance(effect, Log):
                self._feature.log(self._id, effect)
        if self._acts:
            self._set(f"{DO}:{self._kept.events}", self._node.clock.now(), encode(self._acts))

    def mail(self, target: ObjectId, letter: list[Any]) -> None:
        """Have another machine get this, with the commit of this turn."""
        now = self._node.clock.now()
        name = f"{MAIL}:{self._feature.token()}"
        self._turn.send([Timer(target, name, now, now, self._feature.order.next(now), payload=encode(letter))])

    def tell_parent(self, kind: str, value: Any) -> None:
        """The machine that started this one hears of its end, or of its snapshot."""
        parent = self._kept.parent
        if parent is not None:
            cls, key, id, seq = parent
            self.mail(ObjectId(cls, key), [kind, id, seq, value])

    def _invoke(self, effect: Invoke) -> None:
        self._kept.running = {**self._kept.running, effect.id: effect.seq}
        self._sources[effect.id] = effect.src
        if self._bound.is_child(effect.src):
            me = [self._id.cls, self._id.key, effect.id, effect.seq]
            self.mail(child_id(self._id, effect.src, effect.id), ["start", me, effect.input, effect.is_synced])
            return
        payload = [effect.src, effect.input, effect.seq, self._kept.snapshot["context"], self._event]
        self._set(f"{RUN}:{effect.id}", self._node.clock.now(), encode(payload))

    def _stop(self, effect: Stop) -> None:
        running = dict(self._kept.running)
        seq = running.pop(effect.id, None)
        self._kept.running = running
        src = self._sources.get(effect.id)
        if src is not None and self._bound.is_child(src):
            self.mail(child_id(self._id, src, effect.id), ["stop", [self._id.cls, self._id.key, effect.id, effect.seq]])
        elif seq is not None:
            self._turn.clear_timer(f"{RUN}:{effect.id}")
            self._feature.actors.stop_later(self._turn, effect.id, effect.seq)

    def _send(self, effect: Send) -> None:
        if effect.target == PARENT:
            self.tell_parent("event", effect.event)
            return
        src = self._sources.get(effect.target)
        if src is not None and self._bound.is_child(src):
            self.mail(child_id(self._id, src, effect.target), ["event", "", 0, effect.event])

    def _set(self, name: str, due_at: int, payload: bytes | None = None) -> None:
        seq = self._node.next_seq(self._turn.activation.shard)
        self._turn.set_timer(Timer(self._id, name, due_at, due_at, seq, payload=payload))


def child_id(parent: ObjectId, src: str, id: str) -> ObjectId:
    """The object that is the actor of that id: of the class that the chart names, under its parent's key."""
    return ObjectId(src, f"{parent.key}/{id}")
