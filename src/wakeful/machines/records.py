"""Layer 4. What is kept of a machine, and how does it stand beside the chart of today?

One row beside the object's own: the snapshot in plain JSON, the version of the chart that made it, and which of its
actors have not answered yet. Timers are rows of their own; the snapshot says which there are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from wakeful.machines.bindings import Bound
from wakeful.policy.limits import VALUE_BYTES_MAX
from wakeful.runtime.turn import Turn
from wakeful.statechart.snapshot import check_snapshot
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import BadChart, Conflict, LimitExceeded
from wakeful.values.ids import ObjectId

ROW: Slot = (SYSTEM, "machine")
# Which start of a child is not to happen any more: its stop came first.
GONE: Slot = (SYSTEM, "machine.gone")
NEWER = "chart.newer"


class Parent(NamedTuple):
    """The machine that started this one."""

    cls: str
    key: str
    actor: str  # which of its actors this is
    number: int  # and which start of it; rises
    is_synced: bool  # it wants to hear of every snapshot

    @property
    def id(self) -> ObjectId:
        return ObjectId(self.cls, self.key)


@dataclass(slots=True)
class MachineRecord:
    """A machine on disk."""

    version: int
    snapshot: dict[str, Any]
    actors: dict[str, int] = field(default_factory=dict)  # its actors by id; the number is that start's, for ever
    running: dict[str, int] = field(default_factory=dict)  # those of them that have not answered
    begun: dict[str, int] = field(default_factory=dict)  # those of them that must not be begun twice, and were
    parent: Parent | None = None
    epoch: int = 0  # of the shard, when its delays were last looked at
    down_ms: int = 0  # how long nobody was there, as it was counted then
    since: int = 0  # of a child: what it started has numbers after this one, what the one before it did has not


_FIELDS = [one.name for one in fields(MachineRecord)]


# What most machines have most of the time is not on disk: a hundred thousand that sleep are a hundred thousand rows.
# Made anew each time: whoever gets a machine may change it in place.
def _nothing() -> dict[str, Any]:
    return {"actors": {}, "running": {}, "begun": {}, "parent": None, "epoch": 0, "down_ms": 0, "since": 0}


def _no_news() -> dict[str, Any]:
    return {"output": None, "error": None, "historyValue": {}, "children": {}, "pending": []}


_NOTHING, _NO_NEWS = _nothing(), _no_news()  # to compare with


def whole(found: dict[str, Any]) -> dict[str, Any]:
    """What is on disk of a machine, with what is not because there is nothing to say."""
    return {**_nothing(), **found, "snapshot": {**_no_news(), **found["snapshot"]}}


def _spare(found: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in found.items() if key not in usual or one != usual[key]}


async def load(turn: Turn) -> MachineRecord | None:
    """The machine as this turn sees it; None before its start."""
    data = turn.writes[ROW] if ROW in turn.writes else await turn.activation.rows.read(ROW)
    if data is None:
        return None
    kept = MachineRecord(**whole(decode(data)))
    kept.parent = None if kept.parent is None else Parent(*kept.parent)
    return kept


def save(turn: Turn, kept: MachineRecord) -> None:
    parent = None if kept.parent is None else list(kept.parent)
    found = {**{name: getattr(kept, name) for name in _FIELDS}, "parent": parent}
    data = encode(_spare({**found, "snapshot": _spare(kept.snapshot, _NO_NEWS)}, _NOTHING))
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"{turn.activation.id}: its snapshot has {len(data)} bytes, {len(data) - VALUE_BYTES_MAX} more than the limit "
            f"of {VALUE_BYTES_MAX}; keep large data in storage, not in the context",
            code="limit.machine",
        )
    turn.writes[ROW] = data


def forget(turn: Turn) -> None:
    turn.writes[ROW] = None


async def read_gone(turn: Turn) -> int:
    """The newest start of this child that was taken back before it came; 0 when none was."""
    data = turn.writes[GONE] if GONE in turn.writes else await turn.activation.rows.read(GONE)
    return 0 if data is None else int(decode(data))


def set_gone(turn: Turn, number: int) -> None:
    turn.writes[GONE] = encode(number) if number else None


def fit(bound: Bound, id: ObjectId, kept: MachineRecord, instance: Any) -> bool:
    """Bring it under the chart of today; whether its class had to migrate it. `Conflict` names what does not fit."""
    if kept.version > bound.version:
        raise Conflict(
            f"{id} was written by version {kept.version} of its chart, this process has version {bound.version}; "
            "finish the roll-out, or start the newer program",
            code=NEWER,
        )
    is_older = kept.version < bound.version
    if is_older:
        # A copy: what the old one has is still to be taken back, also when this one is changed in place.
        snapshot = instance.migrate(deepcopy(kept.snapshot), kept.version)
        if not isinstance(snapshot, dict):
            raise Conflict(f"{id}: migrate must return a snapshot, not {snapshot!r}", code="chart.migrate")
        kept.snapshot, kept.version = snapshot, bound.version
    try:
        check_snapshot(bound.chart, kept.snapshot)
        _check_delays(bound, kept.snapshot)
        _check_actors(bound, kept)
    except BadChart as error:
        because = "does not fit its chart any more"
        remedy = "raise the class's version and give it migrate(snapshot, from_version)"
        if is_older:
            because = "does not fit its chart, though migrate has had it"
            remedy = "let migrate rename it, or leave it out"
        raise Conflict(f"{id} {because}: {error.message}; {remedy}", code="chart.unfit") from None
    return is_older


def _check_delays(bound: Bound, snapshot: dict[str, Any]) -> None:
    """A delay that the chart does not know any more would fire into nothing, and the machine never move again."""
    for one in snapshot.get("pending") or ():
        type = one["event"]["type"]
        if type.startswith("xstate.after.") and type not in bound.delays:
            raise BadChart(f"pending: the chart has no delay '{type}'", code="chart.snapshot")


def _check_actors(bound: Bound, kept: MachineRecord) -> None:
    """The answer of an actor that the chart does not know any more would be for nobody, and the machine wait for ever."""
    if bound.spawned is None:
        return  # methods of the class may start others, under any id
    for id in kept.snapshot.get("children") or ():
        if id in kept.running and id not in bound.invoked and id not in bound.spawned:
            raise BadChart(f"children: the chart has no actor '{id}', which runs", code="chart.snapshot")


# Who sent the event that a machine is at?


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent an event, and so began a step: what the chart raises itself on the way counts with it."""

    kind: str  # "outside", "object", "parent", "child" or "timer"
    name: str = ""  # of an actor that the chart started its id, of a timer its name
    object: ObjectId | None = None  # the object that called, or the machine that started this one

    @classmethod
    def of_turn(cls, turn: Turn) -> "Sender":
        """Who called: another object, a timer of this one (a job, a schedule), or somebody outside."""
        if turn.consumed is not None:
            return cls("timer", turn.consumed.name)
        return cls("object", object=turn.chain[-2]) if len(turn.chain) > 1 else cls("outside")

    def pack(self) -> list[str | None]:
        """As it is kept."""
        return [self.kind, self.name, *(self.object or (None, None))]

    @classmethod
    def unpack(cls, kept: list[str]) -> "Sender":
        kind, name, of, key = kept
        return cls(kind, name, None if of is None else ObjectId(of, key))


OUTSIDE = Sender("outside")

# Whoever sent the event that asked for actions stands in a row beside their timer: the timer itself is read by processes
# of other versions too, while they are rolled out. Without a row it was sent from outside, or asked for by a version that
# did not say.
SENT_BY = "machine.sender:"


def sender_slot(timer: str) -> Slot:
    """Of the timer of that name."""
    return (SYSTEM, SENT_BY + timer.partition(":")[2])


def note_sender(turn: Turn, timer: str, sender: Sender) -> None:
    if sender != OUTSIDE:
        turn.writes[sender_slot(timer)] = encode(sender.pack())


async def read_sender(turn: Turn, timer: str) -> Sender:
    data = await turn.activation.rows.read(sender_slot(timer))
    return OUTSIDE if data is None else Sender.unpack(decode(data))


async def forget_sender(turn: Turn, timer: str) -> None:
    slot = sender_slot(timer)
    if await turn.activation.rows.read(slot) is not None:
        turn.writes[slot] = None


_SENDER: ContextVar[Sender | None] = ContextVar("wakeful_machine_sender", default=None)


def present_sender() -> Sender | None:
    """Who sent the event at hand; None where there is none."""
    return _SENDER.get()


@contextmanager
def sent_by(sender: Sender | None) -> Iterator[None]:
    """For the methods that run meanwhile."""
    token = _SENDER.set(sender)
    try:
        yield
    finally:
        _SENDER.reset(token)
