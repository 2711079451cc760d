"""Layer 5. How do the nodes of a store stand, and who has which shard?"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from wakeful.policy.lease import Lease
from wakeful.runtime.status import status_of
from wakeful.store.protocol import MembershipTable, NodeRow, ShardRow, Store
from wakeful.values.errors import BadOption, ClusterError, DeadlineExceeded, Unavailable
from wakeful.views.plain import Instant, iso
from wakeful.views.view import View

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

# States: `up`; `draining`, an operator wants it to own nothing; `silent`, its lease is over and it may be frozen or
# cut off; `gone`, its session with the store has ended, or it has been silent for long.
ALIVE = ("up", "draining")
# One that is frozen still has its socket, which takes what is sent and answers nothing.
ANSWER_MS = 2_000


_PLACE = re.compile(r" \(process (\d{1,3}) of ([0-9a-f-]{1,40})\)$")


class ProcessPlace(NamedTuple):
    """Where a process stands among those that `wakeful run --processes` started."""

    number: int
    parent: str  # its pid, and what tells it from another of that pid on a machine of that name

    @property
    def words(self) -> str:
        return f" (process {self.number} of {self.parent})"


def place_of(about: str) -> ProcessPlace | None:
    """What a node says of its process, if it is one of several."""
    found = _PLACE.search(about)
    return None if found is None else ProcessPlace(int(found[1]), found[2])


def siblings(about: str, rows: Iterable[NodeRow]) -> list[NodeRow]:
    """Of these nodes those of the same parent on the same machine, the latest for each number last."""
    own, host = place_of(about), about.partition(" pid ")[0]
    if own is None:
        return []
    found = [
        (place.number, row.joined_at, row)
        for row in rows
        if (place := place_of(row.about)) is not None
        and place.parent == own.parent
        and place.number != own.number
        and row.about.partition(" pid ")[0] == host
    ]
    return [row for *_, row in sorted(found, key=lambda one: (one[0], -one[1]))]


class ClusterMember(NamedTuple):
    """One node, as the store knows it."""

    row: NodeRow
    state: str
    lease_ms: int  # what is left of its lease; below zero: for how long it is over
    shards: list[int]


class Members(NamedTuple):
    """All nodes, and the shards that none of them has."""

    now: int
    nodes: list[ClusterMember]
    unowned: list[int]
    lost: dict[str, list[int]]  # owned, on disk, by nodes that the store does not know any more

    @property
    def alive(self) -> list[ClusterMember]:
        return [member for member in self.nodes if member.state in ALIVE]

    def with_name(self, prefix: str) -> ClusterMember:
        """The one node whose name begins like that."""
        matches = [member for member in self.nodes if member.row.node == prefix] or [
            member for member in self.nodes if prefix and member.row.node.startswith(prefix)
        ]
        if len(matches) == 1:
            return matches[0]
        names = ", ".join(member.row.node for member in matches or self.nodes) or "none"
        what = (
            f"no node's name begins with {prefix!r}" if not matches else f"{prefix!r} begins the names of several nodes"
        )
        raise BadOption(f"{what}; there are: {names}", code="node.name")

    def at(self, host: str) -> list[ClusterMember]:
        """The one node that runs on the machine of that name, which is its own in a container; or all of one parent there."""
        found = [member for member in self.alive if member.row.about.startswith(f"{host} pid ")]
        parents = {place and place.parent for place in (place_of(member.row.about) for member in found)}
        if len(found) == 1 or (found and len(parents) == 1 and None not in parents):
            return found
        names = ", ".join(member.row.node for member in found)
        what = f"several nodes run on {host}: {names}; name one of them" if found else f"no node runs on {host}"
        raise BadOption(what, code="node.name")


class PlainNode(TypedDict):
    """A node in the terms of JSON."""

    node: str
    state: str
    store: str
    address: str
    cluster: str
    version: int
    about: str
    joined_at: Instant
    lease_until: Instant
    lease_ms: int
    lease_length_ms: int
    is_draining: bool
    is_here: bool | None
    shards: list[int]
    status: dict[str, Any] | None


class Nodes(NamedTuple):
    """The rows of a page, and what belongs to no node."""

    rows: list[PlainNode]
    unowned: list[int]  # shards of the main store without an owner
    lost: dict[str, list[int]]  # shards in the names of nodes that have left
    cursor: str | None = None


async def page(view: View) -> Nodes:
    """Every node of every store, with what those say of themselves that can be asked."""
    rows: list[PlainNode] = []
    unowned: list[int] = []
    lost: dict[str, list[int]] = {}
    for place, store in enumerate(view.stores):
        found = await members(store, view.now())
        answers = await _statuses(view, place, found)
        rows += [plain_member(member, answers.get(member.row.node), store) for member in found.nodes]
        if not place:
            unowned, lost = found.unowned, found.lost
    return Nodes(rows, unowned, lost)


async def _statuses(view: View, place: int, found: Members) -> dict[str, dict[str, Any]]:
    """What those that live say of themselves, through the links between nodes; who does not answer soon is left out."""
    if view.running is None:
        return {}
    home = view.running.all_homes[place]
    others = [member.row for member in found.alive if member.row.node != home.name]
    answers = await ask_each(home, others, "status")
    return answers | (
        {home.name: status_of(home)} if any(member.row.node == home.name for member in found.nodes) else {}
    )


async def ask_each(home: "Node", rows: Sequence[NodeRow], request: str, *args: Any) -> dict[str, Any]:
    """What each of these other nodes answers, by name; who does not answer soon is left out."""

    async def ask(row: NodeRow) -> Any:
        try:
            return await home.routes.ask(row, request, *args, timeout_ms=ANSWER_MS)
        except (Unavailable, ClusterError, DeadlineExceeded):
            return None

    answers = await asyncio.gather(*map(ask, rows))
    return {row.node: answer for row, answer in zip(rows, answers, strict=True) if answer is not None}


async def members(store: MembershipTable, now: int) -> Members:
    """As the store has it now, by its own clock; by `now` where it has none."""
    rows, owners = await store.nodes(), await store.owners()
    time = await store.time()
    return stand(rows, owners, now if time is None else time)


def stand(rows: Sequence[NodeRow], owners: Sequence[ShardRow], now: int) -> Members:
    """How each node stands at that time."""
    owned: dict[str, list[int]] = {}
    for shard in owners:
        if shard.owner is not None:
            owned.setdefault(shard.owner, []).append(shard.shard)
    nodes = [
        ClusterMember(row, state_of(row, now), row.lease_until - now, owned.pop(row.node, []))
        for row in sorted(rows, key=lambda row: row.node)
    ]
    return Members(now, nodes, [shard.shard for shard in owners if shard.owner is None and not shard.is_away], owned)


def state_of(row: NodeRow, now: int) -> str:
    """One of `up`, `draining`, `silent`, `gone`."""
    over_ms = now - row.lease_until
    if row.is_here is False or (row.is_here is None and over_ms >= Lease(row.lease_ms).forget_ms):
        return "gone"
    if over_ms >= 0:
        return "silent"
    return "draining" if row.is_draining else "up"


def ranges(shards: Iterable[int]) -> str:
    """`3-7, 9`."""
    ordered = sorted(shards)
    if not ordered:
        return ""
    starts = [ordered[0]] + [b for a, b in pairwise(ordered) if b != a + 1]
    ends = [a for a, b in pairwise(ordered) if b != a + 1] + [ordered[-1]]
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True))


def plain_member(member: ClusterMember, status: dict[str, Any] | None, store: Store) -> PlainNode:
    """One node, with what it says of itself if it could be asked."""
    row = member.row
    return {
        "node": row.node,
        # A store of one process has no lease that others would go by: who answers is there.
        "state": member.state if store.shared or status is None else status["state"],
        "store": store.url,
        "address": row.address,
        "cluster": row.cluster,
        "version": row.version,
        "about": row.about,
        "joined_at": iso(row.joined_at),
        "lease_until": iso(row.lease_until),
        "lease_ms": member.lease_ms,
        "lease_length_ms": row.lease_ms,
        "is_draining": row.is_draining,
        "is_here": row.is_here,
        "shards": member.shards,
        "status": status,
    }
