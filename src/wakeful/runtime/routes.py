"""Layer 3. Where does a call go, and what if its object is on the move?

To the owner of the object's shard: this node itself, or one hop away. The map of owners is what the last round of
membership saw; it may be old, and then the node that is asked says so, without having begun anything. A call that
has not begun anywhere is sent again until its deadline; one that may have begun only if repeating it is harmless.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime import ended_epochs
from wakeful.runtime.arrivals import LOOK
from wakeful.runtime.calls import FOREVER_MS, Call, ObjectElsewhere
from wakeful.runtime.contacts import BACK_MS, HERE, REACH, Contacts
from wakeful.runtime.links import Links
from wakeful.store.protocol import NodeRow
from wakeful.transport.messages import error_from
from wakeful.transport.protocol import NotStarted, PeerCall
from wakeful.values.codec import decode, encode
from wakeful.values.errors import (
    BadValue,
    ClusterError,
    DeadlineExceeded,
    LinkLost,
    OutcomeUnknown,
    SlotMoved,
    StoreDown,
    Unavailable,
    UnknownClass,
    WakefulError,
)
from wakeful.values.ids import ObjectId, check_class, check_key, shard_of
from wakeful.values.trace import TRACE

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

T = TypeVar("T")

# The object is where it should be, and says no: as on its own node, the caller is told.
REFUSALS = ("object.mailbox", "object.newer")
WAIT_MAX_MS = 250  # between two looks at who owns a shard that is on the move


class Routes:
    """Brings calls to the node that owns their object, and takes those of other nodes."""

    def __init__(self, node: "Node", links: Links | None = None) -> None:
        self._node = node
        self._links = links
        self.contacts = Contacts(node, node.membership, None if links is None else self.ask)
        self._change: asyncio.Event | None = None
        # What nodes ask of each other as such, of no object: called with what was sent, the answer may be awaitable.
        self.requests: dict[str, Callable[..., Any]] = {
            "events": lambda *asked: node.events.answer(*asked),
            REACH: self._reach,
            ended_epochs.REQUEST: lambda pairs: node.ownership.heed(ended_epochs.check_epochs(pairs)),
            HERE: lambda: True,
            LOOK: lambda identity: node.look(identity),
        }
        # Calls that may be repeated and wait for another node: its name, their shard, and whether that moved.
        self._asked: dict[asyncio.Task[Any], tuple[str, int, bool]] = {}
        self.watchers: list[Callable[[], None]] = []  # told when the map of owners, or who is there, is new
        self.sent = 0
        self.received = 0
        self.repeated = 0

    async def greet(self, peers: Mapping[str, str]) -> dict[str, Unavailable]:
        """See whether the others let this node in, before it takes anything: a wrong secret shows here.

        When none of them answers, why not of each.
        """
        return await self._links.greet(peers) if self._links is not None and peers else {}

    @property
    def has_links(self) -> bool:
        """It may call other nodes."""
        return self._links is not None

    @property
    def links(self) -> int:
        """How many other nodes this process has a connection to."""
        return 0 if self._links is None else self._links.open

    def is_linked(self, name: str) -> bool:
        """There is a connection to that node."""
        return self._links is not None and self._links.known(name) is not None

    def on_owners_changed(self) -> None:
        """The map of owners is new."""
        self.wake()
        for task, (name, shard, has_moved) in list(self._asked.items()):
            owner = self._node.membership.owner_of(shard)
            if owner is not None and owner.node != name and not has_moved:
                self._asked[task] = (name, shard, True)
                task.cancel()
        for tell in self.watchers:
            tell()

    def wake(self) -> None:
        """Calls that wait for their object to be somewhere look again."""
        if self._change is not None:
            self._change.set()
            self._change = None

    # out

    async def call(self, target: ObjectId, call: Call) -> Any:
        """The answer of the object, wherever it lives."""
        node = self._node
        shard = shard_of(target)
        tries = 0
        while True:
            if node.spread is not None and node.home(target) is not node:
                raise ObjectElsewhere
            if node.owns(shard, nested=len(call.chain) > 1):
                try:
                    return await node.deliver(target, call)
                except Unavailable as error:
                    if call.is_started or error.code not in ("object.moved", "shard.moved"):
                        raise
                    because: Unavailable = error
            else:
                sent = await self._try_peer(target, call, shard)
                if not isinstance(sent, Unavailable):
                    return sent[0]
                because = sent
            tries += 1
            self.repeated += 1
            await self._wait(call, because, tries)

    async def _try_peer(self, target: ObjectId, call: Call, shard: int) -> tuple[Any] | Unavailable:
        """The answer of another node, as a tuple of one; or why the call should be made again."""
        node = self._node
        owner = node.membership.owner_of(shard)
        if owner is None or owner.node == node.name:
            if node.spread is not None and (moved := node.spread.refusal(target)) is not None:
                return moved
            return _nobody(target, shard, has_nodes=bool(node.membership.nodes))
        if not owner.address or self._links is None:
            return _no_address(target, owner.node)
        is_harmless = call.request_key is not None or node.is_reader(target, call.method)
        left_ms = call.deadline_at - node.clock.now()
        if left_ms <= 0:
            raise call.too_late()
        timeout_ms = left_ms
        try:
            link = self._links.known(owner.node)
            if link is None:  # nothing was sent, so whatever the call does may be done elsewhere
                dialling = self._links.to(owner.node, owner.address, within_ms=left_ms)
                link = await self._unless_moved(dialling, owner.node, shard, was_sent=False)
            self.sent += 1
            began = node.meter.ticks()
            if call.is_endless:  # until it begins that node holds it to its deadline
                node.lift_deadline(call)
                timeout_ms = FOREVER_MS
            asking = link.ask(_as_peer_call(node.name, target, call, left_ms), timeout_ms=timeout_ms)
            reply = await (self._unless_moved(asking, owner.node, shard) if is_harmless else asking)
            node.meter.link_calls.add((node.meter.ticks() - began) // 1_000)
        except LinkLost as error:
            node.meter.link_failures.of(error.code).add()
            self.contacts.failed(owner.node, error)
            if error.was_sent and not is_harmless:
                raise Unavailable(
                    f"{target}.{call.method}: the connection to node {owner.node} broke while it ran; whether it happened "
                    "is unknown, use a request key to ask again",
                    code="call.unknown",
                ) from None
            node.membership.look()
            return error
        except ClusterError as error:
            self.contacts.failed(owner.node, error)
            raise Unavailable(f"{target} is owned by node {owner.node}: {error.message}", code=error.code) from None
        if reply.failure is None:
            return (decode(reply.answer or b""),)
        answer = error_from(reply.failure)
        if (
            isinstance(answer, Unavailable)
            and not answer.is_raised
            and answer.code not in REFUSALS
            and (not reply.failure.is_started or is_harmless)
        ):
            node.membership.look()
            return answer
        raise answer

    async def _unless_moved(self, asking: Coroutine[Any, Any, T], name: str, shard: int, *, was_sent: bool = True) -> T:
        """What that node says, or `LinkLost` once the shard is another's: one that froze, or lost its store, may never answer."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()  # one that was told to end may still ask for something
        self._asked[task] = (name, shard, False)
        try:
            return await asking
        except asyncio.CancelledError:
            if self._asked[task][2] and task.uncancel() <= before:
                raise LinkLost(f"shard {shard} went from node {name} to another", was_sent=was_sent) from None
            raise
        finally:
            del self._asked[task]

    async def _wait(self, call: Call, because: Unavailable, tries: int) -> None:
        """Until the map of owners changes, or a moment has passed; no longer than the call has time."""
        node = self._node
        left_ms = call.deadline_at - node.clock.now()
        if left_ms <= 0 or call.is_expired:
            call.is_expired = True  # to be counted
            raise _unrouted_error(call, because)
        if node.state not in ("up", "stopping"):
            raise because
        if self._change is None:
            self._change = asyncio.Event()
        wait_ms = min(WAIT_MAX_MS, left_ms, platform_delay_ms(tries, node.dice.random()))
        done = self._change
        handle = node.clock.call_at(node.clock.now() + wait_ms, done.set)
        try:
            await done.wait()
        finally:
            handle.cancel()
            if self._change is done and done.is_set():
                self._change = None
        if node.clock.now() >= call.deadline_at:
            call.is_expired = True
            raise _unrouted_error(call, because)  # with the reason; to go on would only find that it is too late

    async def ask(self, row: NodeRow, request: str, *args: Any, timeout_ms: int) -> Any:
        """What that node, not one of its objects, answers; see `requests`."""
        if self._links is None or not row.address:
            raise Unavailable(
                f"node {row.node} takes no calls from others; start it with --listen", code="node.address"
            )
        link = await self._links.to(row.node, row.address, within_ms=timeout_ms)
        call = PeerCall("", "", request, encode(args), encode({}), timeout_ms, caller=self._node.name)
        reply = await link.ask(call, timeout_ms=timeout_ms)
        if reply.failure is not None:
            raise error_from(reply.failure)
        return decode(reply.answer or b"")

    # in

    async def _reach(self, name: str, address: str) -> str | None:
        """Why this node can't reach that one, which is about to join; None when it can."""
        assert self._links is not None  # else it would have no address to be asked at
        try:
            await self._links.to(name, address, within_ms=BACK_MS)
        except (Unavailable, ClusterError) as error:
            return error.message
        return None

    async def _handle_request(self, call: PeerCall) -> bytes:
        known = self.requests.get(call.method)
        if known is None:
            raise NotStarted(Unavailable(f"this node does not know {call.method!r}", code="request.unknown"))
        found = known(*(decode(call.args) if call.args else ()))
        return encode(await found if inspect.isawaitable(found) else found)

    async def handle(self, call: PeerCall) -> bytes:
        """A call from another node: the answer, as bytes of the codec."""
        node = self._node
        if not call.cls:
            return await self._handle_request(call)
        self.received += 1
        target = ObjectId(check_class(call.cls), check_key(call.cls, call.key))
        chain = (*(ObjectId(cls, key) for cls, key in call.chain), target)
        if not node.owns(shard_of(target), nested=len(chain) > 1):
            node.membership.look()
            raise NotStarted(Unavailable(f"{target} is not owned by node {node.name}", code="shard.moved"))
        try:
            known = node.registry.by_name(target.cls) if call.method not in node.quiet_operations else None
            if known is not None and call.method not in node.operations:
                if call.method not in known.methods and call.method not in node.rewrites:
                    known.check_method(call.method)
                if not node.registry.has(target):
                    raise UnknownClass(f"{target} is not in this program")  # though others of its class are
        except UnknownClass as error:
            raise NotStarted(
                Unavailable(
                    f"{target} is owned by node {node.name}, which does not know the class; finish the roll-out, "
                    "or start that node with the program that has it",
                    code="class.unknown_there",
                )
            ) from error
        args, kwargs = decode(call.args), decode(call.kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise BadValue("arguments must be a tuple and a dict", code="value.arguments")
        local = Call(
            call.method,
            args,
            kwargs,
            deadline_at=node.clock.now() + call.deadline_ms,
            request_key=call.request_key,
            chain=chain,
        )
        local.is_endless = known is not None and known.is_gated
        token = TRACE.set(call.trace or None)
        try:
            return encode(await node.within_deadline(local, node.deliver(target, local)))
        except WakefulError as error:
            if isinstance(error, Unavailable) and not local.is_started:
                raise NotStarted(error) from None
            raise
        finally:
            TRACE.reset(token)


def _as_peer_call(caller: str, target: ObjectId, call: Call, left_ms: int) -> PeerCall:
    return PeerCall(
        target.cls,
        target.key,
        call.method,
        encode(call.args),
        encode(call.kwargs),
        left_ms,
        call.request_key,
        [(id.cls, id.key) for id in call.chain[:-1]],
        TRACE.get() or "",
        1,
        caller,
    )


def _unrouted_error(call: Call, because: Unavailable) -> WakefulError:
    if isinstance(because, SlotMoved):
        return because
    # Where the store is is not for every caller; that it is away says the log, with the reason.
    why = "the store is away" if isinstance(because, StoreDown | OutcomeUnknown) else because.message
    return DeadlineExceeded(
        f"{call.chain[-1]}.{call.method} could not begin within its deadline: {why}", code="call.unrouted"
    )


def _nobody(target: ObjectId, shard: int, *, has_nodes: bool) -> Unavailable:
    if not has_nodes:
        return Unavailable(f"{target}: no node runs this store; start one with `wakeful run`", code="shard.unowned")
    return Unavailable(f"{target}: nobody owns shard {shard} at the moment; try again", code="shard.unowned")


def _no_address(target: ObjectId, owner: str) -> Unavailable:
    return Unavailable(
        f"{target} is owned by node {owner}, which takes no calls from others; start it with --listen",
        code="node.address",
    )
