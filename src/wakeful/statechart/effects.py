"""Layer 1, pure. What does a step ask of the world?

A step changes nothing but the snapshot; everything else it wants is in its list of effects, in the order in
which the chart says it. The one who called carries them out.
"""

from typing import Any

from msgspec import Struct

# Whom `Send` and `Delay` address when it is not one of the chart's own actors.
PARENT = "#_parent"
SELF = "#_internal"


class Act(Struct, frozen=True, tag="act"):
    """Run the custom action of that name, with the context and the event as they were at this point."""

    name: str
    params: Any
    context: dict[str, Any]
    event: dict[str, Any]


class Delay(Struct, frozen=True, tag="delay"):
    """Fire `id` at that instant (`fire` takes it from the snapshot); replaces a pending one of the same id."""

    id: str
    due_at: int
    event: dict[str, Any]
    target: str | None = None  # an actor; None is the chart itself


class Cancel(Struct, frozen=True, tag="cancel"):
    """The pending delay of that id never fires."""

    id: str


class Invoke(Struct, frozen=True, tag="invoke"):
    """Start an actor; its end comes back as `done_event` or `error_event`."""

    id: str
    src: str
    input: Any
    seq: int  # which start of this id it is: a result of an earlier one is not for this one
    is_synced: bool = False  # the chart listens to its snapshots


class Stop(Struct, frozen=True, tag="stop"):
    """Stop the actor of that id; what it answers from now on is not for the chart."""

    id: str
    seq: int


class Send(Struct, frozen=True, tag="send"):
    """Give an event to an actor of the chart by its id, or to the parent (`PARENT`)."""

    target: str
    event: dict[str, Any]


class Emit(Struct, frozen=True, tag="emit"):
    """Tell those who watch."""

    event: dict[str, Any]


class Log(Struct, frozen=True, tag="log"):
    """Write a line to the log."""

    value: Any
    label: str | None = None


Effect = Act | Delay | Cancel | Invoke | Stop | Send | Emit | Log


def done_event(id: str, output: Any = None) -> dict[str, Any]:
    """The event by which an actor's result comes back."""
    return {"type": f"xstate.done.actor.{id}", "output": output, "actorId": id}


def error_event(id: str, error: Any) -> dict[str, Any]:
    """The event by which an actor's failure comes back."""
    return {"type": f"xstate.error.actor.{id}", "error": error, "actorId": id}


def snapshot_event(id: str, snapshot: Any) -> dict[str, Any]:
    """The event by which an actor that the chart listens to shows its snapshot."""
    return {"type": f"xstate.snapshot.{id}", "snapshot": snapshot}
