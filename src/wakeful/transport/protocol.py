"""Layer 2. What do nodes say to each other, and what must whatever carries it be able to do?

A link is made by one node to another and carries calls one way; the other node makes its own for
its calls. So between two nodes there are at most two connections, each with many calls in flight.
Every call gets exactly one reply, the cancelled ones too, unless the link is lost.
"""

from typing import Protocol

from msgspec import Struct

from wakeful.transport.messages import Failure

# What this program speaks, and the oldest that it still understands. Two nodes speak the newest that both know.
VERSION = 1
VERSION_OLDEST = 1

# A caller's node may have an old map, and so may the node it asks; a third would be going in circles.
HOPS_MAX = 2


class PeerCall(Struct, array_like=True, tag=1, gc=False):
    """Run a method of an object that you own. `args` and `kwargs` are bytes of the codec."""

    cls: str
    key: str
    method: str
    args: bytes
    kwargs: bytes
    deadline_ms: int  # what is left of it: clocks differ, so no instants
    request_key: str | None = None
    chain: list[tuple[str, str]] = []  # the objects that wait for this call, outermost first, as (class, key)
    trace: str = ""
    hops: int = 1  # how many links it has gone over, this one included
    caller: str = ""  # the node where it began
    number: int = 0  # given by the link


class CancelCall(Struct, array_like=True, tag=2, gc=False):
    """Nobody waits for that call any more."""

    number: int


class Ping(Struct, array_like=True, tag=3, gc=False):
    """Are you there?"""


class Pong(Struct, array_like=True, tag=4, gc=False):
    """I am."""


class Goodbye(Struct, array_like=True, tag=5, gc=False):
    """No new calls on this link, please; those under way are answered still."""

    because: str = ""


class PeerReply(Struct, array_like=True, tag=6, gc=False):
    """The answer to the call of that number: bytes of the codec, or what went wrong."""

    number: int
    answer: bytes | None = None
    failure: Failure | None = None


# What travels along a link, and what comes back on it.
Outward = PeerCall | CancelCall | Ping
Homeward = PeerReply | Pong | Goodbye


class NotStarted(Exception):
    """Raised by a handler around the error: nothing of the call has run here, so it is safe to make it again."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Handler(Protocol):
    """What a node offers to its peers."""

    async def handle(self, call: PeerCall) -> bytes:
        """The answer, as bytes of the codec. Runs in a task of its own, which is cancelled when nobody waits any more.

        Any error goes to the caller with its type; one inside `NotStarted` goes with `is_started` False.
        """
        ...


class Link(Protocol):
    """One connection to one node, made by this one. It ends once: what is lost is not mended but made anew."""

    @property
    def node(self) -> str:
        """The name of the node at the other end."""
        ...

    @property
    def is_closed(self) -> bool:
        """It is gone: every `ask` from now on raises `LinkLost` with `was_sent` False."""
        ...

    @property
    def is_leaving(self) -> bool:
        """The node has said goodbye: it answers what it has and takes nothing new, as if closed."""
        ...

    async def ask(self, call: PeerCall, *, timeout_ms: int) -> PeerReply:
        """The node's reply, which may hold a failure (`failures.received` makes it an error again). Waits for room on the link, within the timeout.

        `LinkLost`: the link is gone, and `was_sent` tells whether the call may have reached the node.
        `DeadlineExceeded`: no reply within the timeout; the node was told to stop.
        `LimitExceeded`: the call is too large; nothing was sent.
        Cancelling the task that waits cancels the call at the node.
        """
        ...

    async def close(self) -> None:
        """Hang up; what waits for a reply fails with `LinkLost`, what runs at the node for it is cancelled."""
        ...


class Transport(Protocol):
    """How one node reaches the others and is reached by them."""

    async def serve(self, handler: Handler) -> str:
        """Take calls from now on; the address that others use. A typed error with the remedy when that can't be."""
        ...

    async def connect(self, address: str, *, expect_node: str | None = None) -> Link:
        """A link to the node there.

        `LinkLost` (never `was_sent`): nobody answers; `WrongNode`, a kind of it: another one than expected does.
        `ClusterError`: it does not belong with this one, for the reason that the class says.
        """
        ...

    def leave(self, because: str = "") -> None:
        """Say goodbye on every link that others made to this node; new calls on them fail as not started."""
        ...

    async def close(self) -> None:
        """Stop listening and hang up on everyone. Handlers that still run are cancelled."""
        ...
