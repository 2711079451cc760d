"""Layer 4. What is kept of an object's sockets, and where?

One row a socket, beside the object's own rows: which gateway holds it, its tags and its attachment. A second one counts
the messages that the object has had, so that one which is sent again is not run again. One row for all of them.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from wakeful.runtime.storage import scan
from wakeful.runtime.turn import Turn
from wakeful.values.commits import SYSTEM, Slot

if TYPE_CHECKING:
    from wakeful.runtime.events_turn import StandingTurn
    from wakeful.runtime.object_runtime import ObjectRuntime

PREFIX = "socket:"
_END = "socket;"
_ALL: Slot = (SYSTEM, "sockets")


class SocketRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A socket on disk."""

    gateway: str  # who holds the connection
    seq: int  # rises with every socket of the object
    tags: tuple[str, ...] = ()
    attachment: bytes | None = None
    closing: tuple[int, str] | None = None  # the object closed it, and its end is on the way


class Summary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is kept of all sockets of an object."""

    count: int = 0
    auto: tuple[str, str] | None = None  # a text that gateways answer themselves, and the answer
    number: int = 0  # rises with every change of that


_encode = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(SocketRecord)
_summary = msgspec.msgpack.Decoder(Summary)
_number = msgspec.msgpack.Decoder(int)


class SocketTable:
    """Sockets that an awake object has looked at, as its finished turns left them."""

    __slots__ = ("is_complete", "known", "parting", "telling")

    def __init__(self) -> None:
        self.known: dict[str, SocketRecord] = {}
        # Where events are no turns: those whose end the object is being told of, and messages that it is being told.
        self.parting: set[str] = set()
        self.telling: dict[tuple[str, int], asyncio.Future[None]] = {}
        self.is_complete = False

    def adopt(self, writes: Mapping[Slot, bytes | None]) -> None:
        """A turn ended well."""
        for (space, key), data in writes.items():
            if space != SYSTEM or not key.startswith(PREFIX):
                continue
            if data is None:
                self.known.pop(key[len(PREFIX) :], None)
            else:
                self.known[key[len(PREFIX) :]] = _kept.decode(data)


def slot_of(id: str) -> Slot:
    return (SYSTEM, PREFIX + id)


def _seen_slot(id: str) -> Slot:
    return (SYSTEM, "socket#" + id)


def table_of(activation: "ObjectRuntime") -> SocketTable:
    found: SocketTable | None = activation.sockets
    if found is None:
        found = activation.sockets = SocketTable()
    return found


def known(turn: Turn, id: str) -> SocketRecord | None:
    """The socket as this turn sees it, of those that it has looked at."""
    slot, table = slot_of(id), table_of(turn.activation)
    if id in table.parting:
        return None
    if slot in turn.writes:
        data = turn.writes[slot]
        return None if data is None else _kept.decode(data)
    return table.known.get(id)


async def load(turn: Turn, id: str) -> SocketRecord | None:
    """The socket as this turn sees it; None when it is gone."""
    table, slot = table_of(turn.activation), slot_of(id)
    if slot not in turn.writes and id not in table.known and not table.is_complete:
        rows = turn.activation.rows
        await rows.fetch([slot, _seen_slot(id)])
        data = await rows.read(slot)
        if data is not None:
            table.known[id] = _kept.decode(data)
    return known(turn, id)


async def load_all(turn: Turn) -> dict[str, SocketRecord]:
    """All of them as this turn sees them; not to be changed."""
    activation = turn.activation
    table = table_of(activation)
    if not table.is_complete:
        # As finished turns left them: this one's own writes may yet be undone.
        rows = await scan(activation, Turn(activation, turn.chain, turn.deadline_at), SYSTEM, PREFIX, _END)
        table.known = {key[len(PREFIX) :]: _kept.decode(data) for key, data in rows.items()}
        table.is_complete = True
    mine = {
        key[len(PREFIX) :]: data for (at, key), data in turn.writes.items() if at == SYSTEM and key.startswith(PREFIX)
    }
    if not mine and not table.parting:
        return table.known
    found = {id: kept for id, kept in table.known.items() if id not in mine}
    found |= {id: _kept.decode(data) for id, data in mine.items() if data is not None}
    return {id: kept for id, kept in found.items() if id not in table.parting}


def save(turn: Turn, id: str, kept: SocketRecord) -> None:
    turn.writes[slot_of(id)] = _encode(kept)


async def add(turn: Turn, id: str, kept: SocketRecord) -> None:
    """A new one."""
    summary = await summary_of(turn)
    save(turn, id, kept)
    save_summary(turn, msgspec.structs.replace(summary, count=summary.count + 1))


async def remove(turn: Turn, id: str) -> None:
    """It is no more."""
    summary = await summary_of(turn)
    turn.writes[slot_of(id)] = turn.writes[_seen_slot(id)] = None
    save_summary(turn, msgspec.structs.replace(summary, count=max(0, summary.count - 1)))


async def summary_of(turn: Turn) -> Summary:
    data = turn.writes[_ALL] if _ALL in turn.writes else await turn.activation.rows.read(_ALL)
    return Summary() if data is None else _summary.decode(data)


def save_summary(turn: Turn, summary: Summary) -> None:
    is_empty = not summary.count and summary.auto is None
    turn.writes[_ALL] = None if is_empty else _encode(summary)


async def last_seen(turn: Turn, id: str) -> int:
    """The number of the last message of that socket whose turn is kept."""
    slot = _seen_slot(id)
    data = turn.writes[slot] if slot in turn.writes else await turn.activation.rows.read(slot)
    return 0 if data is None else _number.decode(data)


def set_seen(turn: Turn, id: str, number: int) -> None:
    turn.writes[_seen_slot(id)] = _encode(number)


def set_seen_with(turn: "StandingTurn", id: str, number: int) -> None:
    """The same, with whatever the object writes next."""
    turn.seen[_seen_slot(id)] = _encode(number)


def unset_seen_with(turn: "StandingTurn", id: str, number: int) -> None:
    """It has written nothing, so there is nothing that could happen twice."""
    if turn.seen.get(_seen_slot(id)) == _encode(number):  # else a later one has begun
        del turn.seen[_seen_slot(id)]
