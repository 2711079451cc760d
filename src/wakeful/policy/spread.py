"""Layer 1, pure. On which of several servers does each of the 256 slots of a class live, and which should move?

A slot is a shard's number: the same objects on every server. Each slot has a server and a term, which rises with every
move of it: whoever comes late with an older term, because it was frozen, finds that it is old.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from wakeful.values.errors import BadOption, Conflict
from wakeful.values.ids import SHARDS


class Move(Struct, frozen=True):
    """One slot on its way from one server to another, under a term of its own."""

    slot: int
    source: str
    target: str
    term: int


class SpreadMap(Struct, frozen=True):
    """Where each slot lives, and what is under way. Every change of it is a new one, with the next version."""

    id: str  # of this spread, which all its servers know: its class, a colon, and what no other has
    servers: tuple[str, ...]  # the first keeps the map
    slots: tuple[str, ...]  # the server of each
    terms: tuple[int, ...]  # how often each has moved
    moves: tuple[Move, ...] = ()  # that were begun, and have not arrived
    rests: tuple[Move, ...] = ()  # that have arrived, and left rows behind
    version: int = 1

    def counts(self) -> dict[str, int]:
        """How many slots each server has."""
        return {server: self.slots.count(server) for server in self.servers}


def first_map(id: str, servers: Sequence[str], *, full: str | None = None) -> SpreadMap:
    """The map of servers that were never spread over: dealt evenly, or all with the one that has objects already."""
    slots = (full,) * SHARDS if full is not None else tuple(servers[n % len(servers)] for n in range(SHARDS))
    return SpreadMap(id, tuple(servers), slots, (0,) * SHARDS)


def check_named(known: SpreadMap, servers: Sequence[str]) -> None:
    """`BadOption` unless these are all servers that have anything, the first of them the first."""
    if servers[0] != known.servers[0]:
        raise BadOption(
            f"{known.servers[0]!r} keeps the map of this spread, so it has to be the first; here {servers[0]!r} is",
            code="spread.first",
        )
    needed = servers_in_use(known)
    gone = [server for server in known.servers if server not in servers and server in needed]
    if gone:
        raise BadOption(
            f"{', '.join(map(repr, gone))}: has objects and is not among the servers ({', '.join(servers)}); name it, "
            "and have `wakeful rebalance --without` move everything off it before you leave it out",
            code="spread.server",
        )


def with_servers(known: SpreadMap, servers: Sequence[str]) -> SpreadMap:
    """The map with the servers that were added; those that have anything stay in it, whoever names them or not."""
    check_named(known, servers)
    added = [server for server in servers if server not in known.servers]
    if not added:
        return known
    return replace(known, servers=(*known.servers, *added), version=known.version + 1)


def servers_in_use(known: SpreadMap) -> set[str]:
    """The servers that hold rows, or are about to."""
    under_way = {server for move in (*known.moves, *known.rests) for server in (move.source, move.target)}
    return {*known.slots, *under_way}


def plan_moves(known: SpreadMap, servers: Sequence[str]) -> list[Move]:
    """The fewest moves after which these servers have all slots, evenly; what is under way counts as if it had arrived.

    >>> one = first_map("x", ["a", "b"], full="a")
    >>> moves = plan_moves(one, ["a", "b"])
    >>> len(moves), moves[0]
    (128, Move(slot=128, source='a', target='b', term=1))
    """
    unknown = [server for server in servers if server not in known.servers]
    if unknown:
        raise BadOption(
            f"{', '.join(map(repr, unknown))}: no server of this spread; there are {', '.join(known.servers)}",
            code="spread.server",
        )
    if not servers:
        raise BadOption(
            f"no server is left to have the slots; one of {', '.join(known.servers)} has to stay", code="spread.server"
        )
    placed = list(known.slots)
    for move in known.moves:
        placed[move.slot] = move.target
    held = {server: [slot for slot in range(SHARDS) if placed[slot] == server] for server in known.servers}
    # Where shares can't be equal, those who have most keep the odd ones: so nothing moves that need not.
    least, odd = divmod(SHARDS, len(servers))
    order = sorted(servers, key=lambda server: (-len(held[server]), servers.index(server)))
    share = {server: least + (n < odd) for n, server in enumerate(order)}
    busy = {move.slot for move in (*known.moves, *known.rests)}
    free: list[int] = []
    for server in known.servers:
        surplus = len(held[server]) - share.get(server, 0)
        if surplus > 0:
            # One that is under way ends where it goes, and moves on another time.
            still = [slot for slot in held[server] if slot not in busy]
            free += still[-surplus:] if surplus < len(still) else still
    free.sort()
    moves: list[Move] = []
    for server in order:
        for _ in range(max(0, share[server] - len(held[server]))):
            if free:
                slot = free.pop(0)
                moves.append(Move(slot, placed[slot], server, known.terms[slot] + 1))
    return moves


# What happens to a move, each as the map after it.


def begin(known: SpreadMap, move: Move) -> SpreadMap:
    """It is about to be made: whoever comes after a mover that died finds it here."""
    is_busy = any(one.slot == move.slot for one in (*known.moves, *known.rests))
    if is_busy or move.source != known.slots[move.slot] or move.term != known.terms[move.slot] + 1:
        raise Conflict(
            f"slot {move.slot} is being moved, or was since it was planned; plan again", code="spread.changed"
        )
    return replace(known, moves=(*known.moves, move), version=known.version + 1)


def arrive(known: SpreadMap, move: Move) -> SpreadMap:
    """The slot lives at its target, and what is left at its source can go."""
    if move not in known.moves:
        return known  # another mover has said so
    slots, terms = list(known.slots), list(known.terms)
    slots[move.slot], terms[move.slot] = move.target, move.term
    return replace(
        known,
        slots=tuple(slots),
        terms=tuple(terms),
        moves=tuple(one for one in known.moves if one != move),
        rests=(*known.rests, move),
        version=known.version + 1,
    )


def end(known: SpreadMap, move: Move) -> SpreadMap:
    """Nothing of the slot is left at its source."""
    if move not in known.rests:
        return known
    return replace(known, rests=tuple(one for one in known.rests if one != move), version=known.version + 1)
