"""Layer 5. How do the nodes of a store stand, and who has which shard?"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from wakeful.cli.failing import USAGE, CommandError
from wakeful.cli.printing import now_ms
from wakeful.store.protocol import NodeRow, ShardRow, Store

# The lease of a node that nobody can see: as long over as this, it is not coming back.
GONE_MS = 60_000
# States: `up`; `draining`, an operator wants it to own nothing; `silent`, its lease is over and it may be frozen or
# cut off; `gone`, its session with the store has ended, or it has been silent for long.
ALIVE = ("up", "draining")


class Member(NamedTuple):
    """One node, as the store knows it."""

    row: NodeRow
    state: str
    lease_ms: int  # what is left of its lease; below zero: for how long it is over
    shards: list[int]


class Members(NamedTuple):
    """All nodes, and the shards that none of them has."""

    now: int
    nodes: list[Member]
    unowned: list[int]
    lost: dict[str, list[int]]  # owned, on disk, by nodes that the store does not know any more

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.nodes if member.state in ALIVE]

    def named(self, prefix: str) -> Member:
        """The one node whose name begins like that."""
        found = [member for member in self.nodes if member.row.node == prefix] or [
            member for member in self.nodes if prefix and member.row.node.startswith(prefix)
        ]
        if len(found) == 1:
            return found[0]
        names = ", ".join(member.row.node for member in found or self.nodes) or "none"
        what = (
            f"no node's name begins with {prefix!r}" if not found else f"{prefix!r} begins the names of several nodes"
        )
        raise CommandError(f"{what}; there are: {names}", code="node.name", exit_code=USAGE)


async def members(store: Store) -> Members:
    """As the store has it now, by its own clock."""
    rows, owners = await store.nodes(), await store.owners()
    time = await store.time()
    return stand(rows, owners, now_ms() if time is None else time)


def stand(rows: Sequence[NodeRow], owners: Sequence[ShardRow], now: int) -> Members:
    """How each node stands at that time."""
    owned: dict[str, list[int]] = {}
    for shard in owners:
        if shard.owner is not None:
            owned.setdefault(shard.owner, []).append(shard.shard)
    nodes = [
        Member(row, state_of(row, now), row.lease_until - now, owned.pop(row.node, []))
        for row in sorted(rows, key=lambda row: row.node)
    ]
    return Members(now, nodes, [shard.shard for shard in owners if shard.owner is None], owned)


def state_of(row: NodeRow, now: int) -> str:
    """One of `up`, `draining`, `silent`, `gone`."""
    over_ms = now - row.lease_until
    if row.is_here is False or (row.is_here is None and over_ms >= GONE_MS):
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
