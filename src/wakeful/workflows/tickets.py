"""Layer 4. How does a workflow ask its queue for a place, and how does it give that back?

A place is for a whole run, from its first step to its end: what sleeps in between is under way all the same. One that is
parked, or has failed, holds none, and asks anew when it is to go on.
"""

from typing import TYPE_CHECKING

from wakeful.runtime.admission import QueuePlace, QueueReply, join_timer, leave_timer, new_ticket, with_ticket
from wakeful.runtime.turn import Turn
from wakeful.values.timers import Timer
from wakeful.workflows.node_workflows import PLACE, TIMER, feature_of
from wakeful.workflows.records import QUEUED, RUNNING, WorkflowRecord

if TYPE_CHECKING:
    from wakeful.workflows.node_workflows import NodeWorkflows


def wants_place(record: WorkflowRecord) -> bool:
    """It goes through a queue, and has no place in it."""
    return record.place is not None and record.place.ticket is None


def join(turn: Turn, record: WorkflowRecord) -> None:
    """It lies down until its queue lets it go."""
    assert record.place is not None
    node, feature = turn.activation.node, feature_of(turn.activation.node)
    now = node.clock.now()
    record.place = with_ticket(record.place, new_ticket(node))
    record.touch(now, state=QUEUED, phase=RUNNING)
    record.wake_at = None
    turn.clear_timer(TIMER)
    waiting = Timer(turn.activation.id, TIMER, now, now, 0)
    turn.send([join_timer(node, waiting, record.place, feature.next_order(), reply=PLACE)])


def leave(turn: Turn, record: WorkflowRecord) -> None:
    """Give its place back with this turn, if it has one or waits for one."""
    place = record.place
    if place is None or place.ticket is None:
        return
    feature = feature_of(turn.activation.node)
    turn.send([leave_timer(feature.node, place.queue, place.ticket, feature.next_order())])
    record.place = with_ticket(place, None)


def refuse(feature: "NodeWorkflows", turn: Turn, reply: QueueReply) -> None:
    """The queue means one that is not there any more, or has asked anew since."""
    turn.send([leave_timer(feature.node, reply.queue, reply.ticket, feature.next_order())])


def place_of(given: object, default: object, now: int, what: str) -> QueuePlace | None:
    """The place that is asked for with the option of a start, or else of the class; None: it goes at once."""
    queue = default if given is None else given
    return None if queue is None else QueuePlace.of(queue, now, what)
