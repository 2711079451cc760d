"""Layer 1, pure. Which node should own which shard, given who owns it today?

Every node computes this alone from the same two inputs and gets the same answer, so no leader is
needed. Each claim or release that follows it leaves the rest of the answer as it was: nodes may
take their steps one at a time, in any order, and still meet.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from wakeful.values.ids import SHARDS


def place(
    nodes: Sequence[str],
    owners: Mapping[int, str | None],
    *,
    shards: int = SHARDS,
    away: Collection[int] = (),
) -> dict[int, str]:
    """Who should own each shard: as even as whole numbers allow, moving as few as that takes; {} when there is no node.

    `nodes` are those that may own (live, not draining). A shard moves only when its owner is none of
    them, or owns more than its share. Nobody should own those that are `away`, on another server of a spread.
    """
    live = sorted(set(nodes))
    if not live:
        return {}
    held: dict[str, list[int]] = {node: [] for node in live}
    free = []
    for shard in range(shards):
        if shard in away:
            continue
        owner = owners.get(shard)
        if owner is not None and owner in held:
            held[owner].append(shard)
        else:
            free.append(shard)
    shares = _shares({node: len(own) for node, own in held.items()}, shards - len(away))
    room: dict[str, int] = {}
    placed: dict[int, str] = {}
    for node, own in held.items():
        surplus = len(own) - shares[node]
        if surplus > 0:
            # The heaviest stay: which ones go must not depend on how many have gone already.
            weights = _weights(node, shards)
            own.sort(key=lambda shard: (-weights[shard], shard))
            free += own[-surplus:]
            own = own[:-surplus]
        elif surplus < 0:
            room[node] = -surplus
        for shard in own:
            placed[shard] = node
    placed.update(_match(free, room, shards))
    return dict(sorted(placed.items()))


def _shares(counts: Mapping[str, int], shards: int) -> dict[str, int]:
    """How many each node should own. Where they can't all be equal, those that have one more already keep it.

    By whether they have it, not by how many more they have: a node on its way down must not pass
    another that is on its way as well, or the two would go on handing the odd shard to each other.
    """
    least, odd = divmod(shards, len(counts))
    first = sorted(counts, key=lambda node: (counts[node] <= least, _digest(node), node))
    return {node: least + (index < odd) for index, node in enumerate(first)}


def _match(free: Sequence[int], room: dict[str, int], shards: int) -> dict[int, str]:
    """Give each free shard to a node with room, the pair of the greatest weight first.

    Taking one of these pairs away leaves the others as they are, which is what makes single claims safe.
    """
    if len(room) == 1:
        (only,) = room
        return dict.fromkeys(free, only)
    weights = {node: _weights(node, shards) for node in room}
    pairs = sorted((-weights[node][shard], shard, node) for node in room for shard in free)
    placed: dict[int, str] = {}
    for _, shard, node in pairs:
        if shard not in placed and room[node] > 0:
            room[node] -= 1
            placed[shard] = node
    return placed


@lru_cache(maxsize=1_024)
def _weights(node: str, shards: int) -> tuple[int, ...]:
    """How much this node is drawn to each shard: the same numbers in every process and version."""
    return tuple(_digest(f"{shard}\0{node}") for shard in range(shards))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
