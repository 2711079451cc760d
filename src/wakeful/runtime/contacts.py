"""Layer 3. Whom can't this node reach, since when, and which calls ran out of time?

The store decides who owns what, so a network that is cut between two nodes moves nothing: each goes on with what it
has, and calls from one to the other wait until their deadline. Only the two of them can tell.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wakeful.policy.lease import Lease
from wakeful.runtime.env import Env, NodeRequest
from wakeful.store.protocol import NodeRow
from wakeful.transport.addresses import parse
from wakeful.values.errors import ClusterError, DeadlineExceeded, LinkLost, Unavailable, Unreachable, WakefulError
from wakeful.values.ids import shard_of
from wakeful.values.times import Handle

if TYPE_CHECKING:
    from wakeful.runtime.calls import Call


# Do this node and the others reach each other? Asked before it joins, or it would be half in.

Look = Callable[[], Awaitable[Sequence[NodeRow]]]
Greeting = Callable[[Mapping[str, str]], Awaitable[Mapping[str, Unavailable]]]

REACH = "reach"  # what they ask each other
LOOK_MS = 500  # between two looks at whether those who don't answer live
BACK_ASKED_MAX = 5  # others that are asked to dial this node
BACK_MS = 2_000  # how long their dialling may take
BACK_ASK_MS = 3_000
BACK_AGAIN_MS = 1_000  # they may be busy just then
BACK_NAME_MS = 60_000  # what a name led to, or that it led nowhere, may be remembered for half a minute


def looks_max(lease: Lease) -> int:
    """So many: by then whoever lives has renewed its lease, and that of others is over."""
    return -(-lease.known_ms // LOOK_MS)


async def check_there(
    env: Env, company: Sequence[NodeRow], look: Look | None, *, lease: Lease, greet: Greeting
) -> Sequence[NodeRow]:
    """One of the others answers, or none of them lives; `Unreachable` when those that live can't be called from here.

    Which of those that don't answer live, and are not dying or frozen, shows when they renew their leases: `look` reads
    them again. Without it they are only warned of, as are those that live and are slow. Whom one may ask is returned.
    """
    seen: dict[str, int] = {}  # the leases of those that did not answer, as of a look after that
    for _ in range(1 if look is None else looks_max(lease)):
        silent = await greet({row.node: row.address for row in company if row.address})
        if not silent:
            return company
        quiet = [row for row in company if row.node in silent]
        for row in quiet:
            _check_machine(env, row, silent[row.node])
        alive = [row for row in quiet if row.lease_until > seen.get(row.node, row.lease_until)]
        for row in alive:
            _check_late(row, silent[row.node])
        if alive or look is None:
            break
        await env.clock.sleep(LOOK_MS)
        company = await look()
        for row in company:
            if row.node in silent:
                seen.setdefault(row.node, row.lease_until)
    for row in company:
        if row.node in silent and row.is_here:
            why = silent[row.node].message
            membership_log.warning("node %s can't be reached: %s", row.node, why, extra={"code": "link.greet"})
    return []


def _check_machine(env: Env, row: NodeRow, error: Unavailable) -> None:
    is_elsewhere = error.code == "link.elsewhere" or _is_of_another_machine(env, row)
    if is_elsewhere and row.is_here and not env.is_client:
        raise Unreachable(
            f"node {row.node} ({row.about}) listens on {row.address} of another machine, where this one can't reach it; "
            "start every node with --listen HOST:PORT, of an address that the others reach"
        )


def _check_late(row: NodeRow, error: Unavailable) -> None:
    if error.code != "link.late":
        why = error.message.removesuffix("; try again")
        raise Unreachable(
            f"node {row.node} ({row.about}) lives, and can't be called from here: {why}; see that this machine reaches "
            "its address, and that all nodes have TLS or none"
        )


async def check_back(env: Env, company: Sequence[NodeRow], ask: NodeRequest) -> None:
    """Have others dial this node as they will have to; `Unreachable` when none of those who tried gets through, twice.

    Those who look up its name may be led elsewhere for a while, so for a name it is tried for longer.
    """
    asked = [row for row in company if row.address][:BACK_ASKED_MAX]
    until = env.clock.now() + (BACK_NAME_MS if parse(env.address).is_named else BACK_AGAIN_MS)
    while (failed := await _dial(env, asked, ask)) is not None:
        row, why = failed
        if env.clock.now() < until:
            await env.clock.sleep(BACK_AGAIN_MS)
            continue
        raise Unreachable(
            f"node {row.node} ({row.about}) can't reach this one at {env.address}: {why.removesuffix('; try again')}; "
            "give the address that others reach it by with --listen or --advertise HOST:PORT, and let them through"
        )


async def _dial(env: Env, asked: Sequence[NodeRow], ask: NodeRequest) -> tuple[NodeRow, str] | None:
    """None as soon as one of them gets through, or when none could be asked; else one of them, and why it does not."""
    asking = {
        asyncio.ensure_future(ask(row, REACH, env.name, env.address, timeout_ms=BACK_ASK_MS)): row for row in asked
    }
    failed: tuple[NodeRow, str] | None = None
    try:
        left = set(asking)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for answer in done:
                if answer.exception() is not None:
                    continue  # one that can't be asked, or is older than the question
                why = answer.result()
                if why is None:
                    return None
                failed = failed or (asking[answer], str(why))
        return failed
    finally:
        for answer in asking:
            answer.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def _is_of_another_machine(env: Env, row: NodeRow) -> bool:
    """It gives an address that leads nowhere but to its own machine, which by its name is not this one."""
    is_its_own = row.address.startswith("tcp:") and parse(row.address).is_loopback
    return is_its_own and row.about.partition(" ")[0] != env.about.partition(" ")[0]


log = logging.getLogger("wakeful.links")
membership_log = logging.getLogger("wakeful.membership")

HERE = "here"  # what is asked to see whether one gets through; any answer will do
SOON_MS = 500  # from the first call that did not get through to the question whether nothing does
AGAIN_MS = 2_000  # between questions to those that did not answer
ALL_MS = 10_000  # between questions to all others, so that a cut shows that no call has met yet
ASKED_MAX = 32  # of all others at once; the next time the next ones
ANSWER_MS = 4_000  # longer than a connection is tried for, whose failure says why
LATE_KEPT_MS = 3_600_000  # for so long a method whose calls ran out of time is named
LATE_MAX = 64


class _Cut:
    """One that does not answer."""

    def __init__(self, since: int, why: str) -> None:
        self.since = since
        self.why = why
        self.calls = 0  # that did not get through
        self.is_sure = False  # it was asked again, and nothing came


class Company(Protocol):
    """The other nodes, as far as they concern whoever wants to reach them."""

    nodes: "dict[str, NodeRow]"
    asks_back: bool

    def owner_of(self, shard: int) -> "NodeRow | None": ...


class Contacts:
    """What a node knows of its ways to the others, and of calls that were not answered in time."""

    def __init__(self, env: "Env", company: Company, ask: "NodeRequest | None") -> None:
        self._env = env
        self._company = company
        self._ask_node = ask  # None: this node calls no others
        self._cuts: dict[str, _Cut] = {}
        self._late: dict[tuple[str, str, str], list[int]] = {}  # class, method, owner: how many, and the last of them
        self._handle: Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._all_at = 0  # when all others are asked next
        self._turn = 0  # whose turn it is, where not all can be asked at once

    def start(self) -> None:
        """Ask the others now and then, until `stop`."""
        self.stop()
        self._all_at = self._env.clock.now() + ALL_MS
        if self._cuts or self._company.asks_back:
            self._later(AGAIN_MS if self._cuts else ALL_MS)

    def stop(self) -> None:
        for one in (self._handle, self._task):
            if one is not None:
                one.cancel()
        self._handle = self._task = None

    # what calls meet

    def failed(self, name: str, error: Unavailable | ClusterError) -> None:
        """A call to that node did not get through."""
        cut = self._cuts.get(name)
        if cut is None:
            cut = self._cuts[name] = _Cut(self._env.clock.now(), error.message)
            if self._task is None:
                self._later(SOON_MS)
        cut.calls += 1

    def on_reached(self, name: str) -> None:
        """It answered."""
        cut = self._cuts.pop(name, None)
        if cut is not None and cut.is_sure:
            length_s = (self._env.clock.now() - cut.since) / 1000
            log.warning("node %s is reached again, after %.1f s", name, length_s, extra={"code": "link.back"})

    def on_expired(self, call: "Call") -> None:
        """A call had no answer by its deadline."""
        env = self._env
        env.meter.expired.add()
        target = call.chain[-1]
        owner = self._company.owner_of(shard_of(target)) if env.is_clustered else None
        whose = env.name if shard_of(target) in env.epochs else "" if owner is None else owner.node
        now = env.clock.now()
        found = self._late.pop((target.cls, call.method, whose), [0, now])
        if len(self._late) >= LATE_MAX:
            del self._late[next(iter(self._late))]
        self._late[target.cls, call.method, whose] = [found[0] + 1, now]

    # what people are told

    def list_unreached(self) -> list[dict[str, Any]]:
        """Nodes that live, by the store, and don't answer this one."""
        now, live = self._env.clock.now(), self.alive()
        return [
            {"node": name, "for_ms": now - cut.since, "because": cut.why, "calls": cut.calls}
            for name, cut in sorted(self._cuts.items())
            if cut.is_sure and name in live
        ]

    def late(self) -> list[dict[str, Any]]:
        """Calls of the last hour that had no answer by their deadline: of which method, on which node (or nobody's)."""
        now = self._env.clock.now()
        self._late = {what: found for what, found in self._late.items() if now - found[1] < LATE_KEPT_MS}
        return [
            {"class": cls, "method": method, "on": owner or None, "calls": number, "ago_ms": now - at}
            for (cls, method, owner), (number, at) in reversed(self._late.items())
        ]

    # asking

    def alive(self) -> "dict[str, NodeRow]":
        """The other nodes whose leases run, by name."""
        now = self._env.clock.now()
        return {
            name: row
            for name, row in self._company.nodes.items()
            if name != self._env.name and row.lease_until > now and row.is_here is not False
        }

    def _later(self, length_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._env.clock.call_at(self._env.clock.now() + length_ms, self._look)

    def _look(self) -> None:
        self._handle = None
        if self._env.state == "up" and self._ask_node is not None:
            self._task = asyncio.get_running_loop().create_task(self._ask_them())

    async def _ask_them(self) -> None:
        env = self._env
        live = self.alive()
        for name in self._cuts.keys() - live.keys():
            if not self._may_come_back(name):
                del self._cuts[name]
        asked = [row for name, row in live.items() if name in self._cuts]
        if self._company.asks_back and env.clock.now() >= self._all_at:
            rest = [row for name, row in sorted(live.items()) if name not in self._cuts and row.address]
            first = self._turn % len(rest) if len(rest) > ASKED_MAX else 0
            asked += (rest[first:] + rest[:first])[:ASKED_MAX]
            self._turn = first + ASKED_MAX
            self._all_at = env.clock.now() + ALL_MS
        await asyncio.gather(*map(self._ask, asked))
        self._task = None
        if self._cuts or self._company.asks_back:
            self._later(AGAIN_MS if self._cuts else max(1, self._all_at - env.clock.now()))

    def _may_come_back(self, name: str) -> bool:
        """It is silent, which is said elsewhere; but that it was cut off is said, and so shall be that it no longer is."""
        row = self._company.nodes.get(name)
        return self._cuts[name].is_sure and row is not None and row.is_here is not False

    async def _ask(self, row: "NodeRow") -> None:
        began_at = self._env.clock.now()
        try:
            assert self._ask_node is not None
            await self._ask_node(row, HERE, timeout_ms=ANSWER_MS)
        except WakefulError as error:
            if isinstance(error, LinkLost | ClusterError | DeadlineExceeded):
                self._note_missed(row, error, began_at)
                return
            # Any other error is an answer: an older node does not know the question.
        self.on_reached(row.node)

    def _note_missed(self, row: "NodeRow", error: WakefulError, began_at: int) -> None:
        cut = self._cuts.setdefault(row.node, _Cut(began_at, ""))
        cut.why = error.message.removesuffix("; try again")
        if cut.is_sure or row.node not in self.alive():
            return
        cut.is_sure = True
        log.warning(
            "node %s (%s) lives and can't be reached from here: %s; calls to its objects end in call.unrouted",
            row.node,
            row.address,
            cut.why,
            extra={"code": "link.cut"},
        )
