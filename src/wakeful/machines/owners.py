"""Layer 4. What happens when one of a machine's timers is due: a delay, an action, an actor, a letter?"""

from typing import TYPE_CHECKING, Any

from wakeful.logic.chart.effects import done_event, error_event, snapshot_event
from wakeful.logic.chart.step import fire, step
from wakeful.logic.retry import Retry, platform_delay_ms
from wakeful.machines.carrying import DELAY, DO, MAIL, RUN
from wakeful.machines.feature import MachineFeature
from wakeful.machines.kept import ROW, Kept, forget, save
from wakeful.machines.steps import begin, present, take
from wakeful.runtime.timer_runs import Again, Failed, Park
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode, encode
from wakeful.values.commits import Slot
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.registry import ObjectClass

POLICY = Retry()


class Owner:
    """What the owners of a machine's timers have in common: tried five times, then parked."""

    prefix = ""

    def __init__(self, feature: MachineFeature, deadline_ms: int) -> None:
        self._feature = feature
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> bool:
        bound = self._feature.bound(activation.id.cls)
        return await self.run(turn, bound, timer, await present(self._feature, turn, bound))

    async def run(self, turn: Turn, bound: "Bound", timer: Timer, kept: Kept | None) -> bool:
        """Do what the timer is for; False: there was nothing to do."""
        raise NotImplementedError  # each says what

    async def failed(self, activation: "Activation", turn: Turn, failure: Failed) -> Again | Park:
        timer = failure.timer
        if failure.error is not None:
            delay = POLICY.delay_ms(timer.attempt + 1, failure.error, failure.roll)
            if delay is not None:
                return Again(timer.moved(due_at=failure.now + delay, attempt=timer.attempt + 1))
        return Park(timer)

    def reads(self, timer: Timer) -> Slot | None:
        return ROW

    def wants_wake(self, known: "ObjectClass") -> bool:
        return False

    async def wake(self, activation: "Activation", turn: Turn) -> None:
        """Nothing to do."""


class Delays(Owner):
    """`machine:ID`: a delayed event of the chart is due. And what becomes of delays when their object comes back."""

    prefix = DELAY

    async def run(self, turn: Turn, bound: "Bound", timer: Timer, kept: Kept | None) -> bool:
        id = timer.name.partition(":")[2]
        pending = [] if kept is None else kept.snapshot.get("pending") or []
        due = next((one for one in pending if one["id"] == id), None)
        if kept is None or due is None:
            return False
        await take(
            self._feature, turn, bound, kept, due["event"], lambda snapshot, now: fire(bound.chart, snapshot, id, now)
        )
        return True

    def wants_wake(self, known: "ObjectClass") -> bool:
        bound = self._feature.classes.get(known.name)
        return bound is not None and bound.resume != "deadline"

    async def wake(self, activation: "Activation", turn: Turn) -> None:
        """Set the pending delays anew, when the class has another rule than that their deadline stands."""
        bound = self._feature.bound(activation.id.cls)
        data = await activation.rows.read(ROW)
        if data is None:
            return
        kept = Kept(**decode(data))
        now, down_ms = activation.node.clock.now(), await self._feature.downtime.ask()
        pending = kept.snapshot.get("pending") or []
        if bound.resume == "restart" and kept.epoch != activation.epoch:
            moved = [{**one, "due_at": now + int(one["delay_ms"])} for one in pending]
        elif bound.resume == "pause_while_down" and down_ms > kept.down_ms:
            moved = [{**one, "due_at": one["due_at"] + down_ms - kept.down_ms} for one in pending]
        else:
            return
        kept.snapshot = {**kept.snapshot, "pending": moved}
        kept.epoch, kept.down_ms = activation.epoch, down_ms
        for one in moved:
            seq = activation.node.next_seq(activation.shard)
            turn.set_timer(Timer(activation.id, f"{DELAY}:{one['id']}", one["due_at"], one["due_at"], seq))
        save(turn, kept)


class Doings(Owner):
    """`machine-do:N`: the actions of one step, one turn each, in the order of the chart."""

    prefix = DO

    async def run(self, turn: Turn, bound: "Bound", timer: Timer, kept: Kept | None) -> bool:
        (name, params, context, event), *rest = decode(timer.payload or b"")
        await bound.method(name, turn.activation.instance, context, event, params)
        if rest:
            node = turn.activation.node
            now, seq = node.clock.now(), node.next_seq(turn.activation.shard)
            turn.set_timer(Timer(timer.id, timer.name, now, now, seq, payload=encode(rest)))
        return True


class Runs(Owner):
    """`machine-run:ID`: a method that the chart invoked. Its timer stays until the answer is applied."""

    prefix = RUN

    async def run(self, turn: Turn, bound: "Bound", timer: Timer, kept: Kept | None) -> bool:
        call = decode(timer.payload or b"")
        id = timer.name.partition(":")[2]
        if kept is None or kept.running.get(id) != call[2]:
            return False  # the state was left
        is_again = timer.crashes > 0
        if is_again and bound.on_crash == "error":
            await answer(self._feature, turn, id, call[2], is_good=False, value=_CRASHED)
            return True
        del turn.timers[timer.name]
        self._feature.actors.begin(turn.activation, bound, timer, call)
        return False


class Mail(Owner):
    """`machine-mail:…`: something from another machine, or for one that it started."""

    prefix = MAIL

    async def run(self, turn: Turn, bound: "Bound", timer: Timer, kept: Kept | None) -> bool:
        kind, *rest = decode(timer.payload or b"")
        if kind == "start":
            parent, input, _ = rest
            if kept is None:
                await begin(self._feature, turn, bound, input, parent)
            return kept is None
        if kind == "stop":
            await self._stop(turn, bound, kept, rest[0])
            return False
        id, seq, value = rest
        if kind == "event":
            return await self._event(turn, bound, kept, value)
        if kind == "snapshot":
            return await self._seen(turn, bound, kept, id, seq, value)
        return await answer(self._feature, turn, id, seq, is_good=kind == "done", value=value)

    async def failed(self, activation: "Activation", turn: Turn, failure: Failed) -> Again | Park:
        """A letter whose event the chart can't take is parked like any other; one of ours is tried again and again."""
        if failure.error is None:
            timer = failure.timer
            return Again(
                timer.moved(
                    due_at=failure.now + platform_delay_ms(timer.attempt, failure.roll), attempt=timer.attempt + 1
                )
            )
        return await super().failed(activation, turn, failure)

    async def _event(self, turn: Turn, bound: "Bound", kept: Kept | None, event: dict[str, Any]) -> bool:
        if kept is None:
            return False
        await take(
            self._feature, turn, bound, kept, event, lambda snapshot, now: step(bound.chart, snapshot, event, now)
        )
        return True

    async def _seen(self, turn: Turn, bound: "Bound", kept: Kept | None, id: str, seq: int, value: Any) -> bool:
        child = None if kept is None else kept.snapshot.get("children", {}).get(id)
        if kept is None or child is None or child["seq"] != seq or not child.get("syncSnapshot"):
            return False
        return await self._event(turn, bound, kept, snapshot_event(id, value))

    async def _stop(self, turn: Turn, bound: "Bound", kept: Kept | None, parent: list[Any]) -> None:
        """Its parent left the state that it was for: nothing of it stays."""
        if kept is None or kept.parent is None or list(kept.parent) != parent:
            return
        event = {"type": "xstate.stop"}
        kept.parent = None  # nobody waits for its end
        await take(
            self._feature, turn, bound, kept, event, lambda snapshot, now: step(bound.chart, snapshot, event, now)
        )
        forget(turn)


async def answer(feature: MachineFeature, turn: Turn, id: str, seq: int, *, is_good: bool, value: Any) -> bool:
    """Apply what an actor answered, unless it is too late; its timer goes with it."""
    bound = feature.bound(turn.activation.id.cls)
    kept = await present(feature, turn, bound)
    if kept is None or kept.running.get(id) != seq:
        return False
    kept.running = {one: number for one, number in kept.running.items() if one != id}
    turn.clear_timer(f"{RUN}:{id}")
    event = done_event(id, value) if is_good else error_event(id, value)
    await take(feature, turn, bound, kept, event, lambda snapshot, now: step(bound.chart, snapshot, event, now))
    return True


_CRASHED = {"name": "Crashed", "message": "the process died while it ran"}
