"""Layer 3. How does something that waits (a job, a workflow) ask a queue for its place, and how does it give it back?

A queue is an object of its own. Whoever wants to go sends it a timer with the commit in which it lies down to wait, and
keeps the ticket. The queue sends one back when it may go; who goes or gives up says so in that very commit. So a place
is never lost: whatever dies in between, one of the two has it on disk.
"""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.policy.queue_terms import NO_TERMS, Queue, QueueTerms
from wakeful.values.errors import BadOption
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

QUEUES = f"{RESERVED}Queues"
JOIN, LEAVE = "queue-join", "queue-leave"

GO = "go"  # its turn has come
DROP = "drop"  # it never will, for the reason that is said
LOOK = "look"  # is it still there? If not, its place is to be given back


class QueuePlace(Struct, array_like=True, frozen=True, gc=False):
    """What somebody who goes through a queue keeps. Fields are only ever added, at the end, with a default."""

    queue: str
    key: str
    terms: QueueTerms  # as they were said
    said_at: int  # and when
    ticket: str | None = None  # None: it has not asked yet, or has given its place back

    @classmethod
    def of(cls, queue: object, now: int, what: str) -> "QueuePlace":
        """The place that is asked for with a `Queue(…)`, or `BadOption`."""
        if not isinstance(queue, Queue):
            raise BadOption(f"{what}: queue must be a Queue(…), not {queue!r}", code="queue.option")
        return cls(queue.name, queue.key or "", queue.terms, now)


class JoinRequest(Struct, array_like=True, frozen=True, gc=False):
    """Who wants to go. Fields are only ever added, at the end, with a default."""

    cls: str
    object_key: str
    name: str  # of the timer that waits
    ticket: str
    key: str
    priority: int
    terms: QueueTerms
    said_at: int
    reply: str  # the prefix of the timers that answer it


class QueueReply(Struct, array_like=True, frozen=True, gc=False):
    """What the queue says to who has that ticket. Fields are only ever added, at the end, with a default."""

    queue: str
    name: str
    ticket: str
    word: str
    reason: str = ""


_encoder = msgspec.msgpack.Encoder()
_places = msgspec.msgpack.Decoder(QueuePlace)
_joins = msgspec.msgpack.Decoder(JoinRequest)
_replies = msgspec.msgpack.Decoder(QueueReply)


def new_ticket(node: "NodeRuntime") -> str:
    """One that nobody else can have; in their order those who came first are first."""
    return f"{node.clock.now():012x}{int(node.dice.random() * (1 << 48)):012x}"


def join_timer(node: "NodeRuntime", timer: Timer, place: QueuePlace, seq: int, *, reply: str) -> Timer:
    """What a turn sends in whose commit that timer begins to wait with this ticket."""
    assert place.ticket is not None
    request = JoinRequest(
        timer.id.cls,
        timer.id.key,
        timer.name,
        place.ticket,
        place.key,
        timer.priority,
        place.terms,
        place.said_at,
        reply,
    )
    return _timer(node, ObjectId(QUEUES, place.queue), f"{JOIN}:{place.ticket}", seq, request)


def leave_timer(node: "NodeRuntime", queue: str, ticket: str, seq: int) -> Timer:
    """What a turn sends in whose commit it is over, well or not, or is not wanted any more."""
    return _timer(node, ObjectId(QUEUES, queue), f"{LEAVE}:{ticket}", seq, None)


def reply_timer(node: "NodeRuntime", to: JoinRequest, queue: str, seq: int, word: str, reason: str = "") -> Timer:
    """What the queue sends to whoever waits."""
    name = f"{to.reply}:{to.ticket}" + (f":{LOOK}" if word == LOOK else "")
    reply = QueueReply(queue, to.name, to.ticket, word, reason)
    return _timer(node, ObjectId(to.cls, to.object_key), name, seq, reply)


def decode_join(timer: Timer) -> JoinRequest:
    """What `join_timer` carries."""
    return _joins.decode(timer.payload or b"")


def decode_reply(timer: Timer) -> QueueReply:
    """What `reply_timer` carries."""
    return _replies.decode(timer.payload or b"")


def with_ticket(place: QueuePlace, ticket: str | None) -> QueuePlace:
    """The same, asking with that ticket, or without one. It has said its terms, which others may have changed since."""
    return replace(place, ticket=ticket)


def pack_place(place: QueuePlace) -> bytes:
    """A place as who waits may keep it."""
    return _encoder.encode(place)


def read_place(data: bytes) -> QueuePlace:
    """What `pack_place` made."""
    return _places.decode(data)


def says_terms(place: QueuePlace | JoinRequest) -> bool:
    """Who says no terms leaves those that there are."""
    return place.terms != NO_TERMS


def _timer(node: "NodeRuntime", id: ObjectId, name: str, seq: int, payload: Struct | None) -> Timer:
    now = node.clock.now()
    return Timer(id, name, now, now, seq, payload=None if payload is None else _encoder.encode(payload))
