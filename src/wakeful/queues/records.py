"""Layer 4. What does a queue keep in its rows, and how does it find the next of whom without looking at all?

One row for the queue, one for each key that has something going (a line), one for each ticket, and lists of tickets and
of keys, row by row under their numbers: whatever happens reads and writes a handful of rows, with ten waiting or a million.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct, field

from wakeful.policy.queue_terms import (
    NO_TERMS,
    QueueTerms,
    Rate,
    Starts,
    opens_at,
    recent_starts,
)
from wakeful.runtime.admission import JoinRequest
from wakeful.runtime.turn import Turn
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Iterable

TURN = "queue-turn"  # the timer at which the queue, or with a suffix one line, looks whether the next may go
STATE: Slot = (SYSTEM, "queue")
TICKETS, LINES = "queue.ticket:", "queue.line:"
FETCHED = 64  # places of a list that are read in one trip while those who left it are passed over

S = TypeVar("S", bound=Struct)


class QueueState(Struct, array_like=True):
    """The queue as a whole."""

    terms: QueueTerms = NO_TERMS
    said_at: int = 0  # when those were said; older ones that come later change nothing
    paused_at: int = 0  # 0: it is not
    note: str = ""  # why it is
    running: int = 0
    waiting: int = 0
    first: int = 0  # of the lines whose turn it is, one after the other
    end: int = 0
    starts: Starts = ()  # as far as the rate asks for them
    wake_at: int = 0  # for when the timer is set that lets the next go; 0: it is not
    looks: bool = False  # somebody runs, and is asked now and then whether he does
    looked: str = ""  # up to which ticket
    admitted: int = 0  # since it began
    dropped: int = 0
    replaced: int = 0
    moved_at: int = 0  # when the last was let go, or the first came to wait


class QueueLine(Struct, array_like=True):
    """Those of one key."""

    key: str
    running: int = 0
    ready: int = 0  # that could go if nothing else stood in the way
    lists: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # by priority: the first place, and that behind the last
    is_lined: bool = False  # among the lines whose turn it is
    starts: Starts = ()
    joins: Starts = ()  # as far as the throttle asks for them
    newest: str = ""  # the ticket that the next replaces while it waits
    first_at: int = 0  # when the first came of those that it has replaced
    ripe_at: int = 0  # when it may go if no other comes; 0: it may
    wake_at: int = 0


class Ticket(Struct, array_like=True):
    """One that waits or runs."""

    request: JoinRequest
    place: int = -1  # in its list; -1: in none
    running_at: int = 0  # since when; 0: it waits
    joined_at: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Struct], msgspec.msgpack.Decoder[Struct]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (QueueState, QueueLine, Ticket)
}


class QueueBook:
    """The rows of one queue as its running turn sees and writes them."""

    def __init__(self, turn: Turn, state: QueueState) -> None:
        self.turn = turn
        self.state = state
        self.now = turn.activation.node.clock.now()
        self._lines: dict[str, QueueLine] = {}

    @classmethod
    async def open(cls, turn: Turn) -> "QueueBook":
        """The book of the object whose turn this is."""
        return cls(turn, await _read(turn, STATE, QueueState) or QueueState())

    @property
    def terms(self) -> QueueTerms:
        return self.state.terms

    # lines and tickets

    async def line(self, key: str) -> QueueLine:
        """The line of that key; a new one if nothing is going there."""
        short = _short(key)
        if short not in self._lines:
            self._lines[short] = await _read(self.turn, (SYSTEM, LINES + short), QueueLine) or QueueLine(key)
        return self._lines[short]

    async def ticket(self, name: str) -> Ticket | None:
        """What is known of that ticket."""
        return await _read(self.turn, (SYSTEM, TICKETS + name), Ticket)

    def keep_ticket(self, ticket: Ticket) -> None:
        self.turn.writes[(SYSTEM, TICKETS + ticket.request.ticket)] = _encoder.encode(ticket)

    def drop_ticket(self, ticket: Ticket) -> None:
        self.turn.writes[(SYSTEM, TICKETS + ticket.request.ticket)] = None

    # who waits in a line

    def append(self, line: QueueLine, ticket: Ticket) -> None:
        """Behind those of its priority."""
        priority = ticket.request.priority
        first, end = line.lists.get(priority, (0, 0))
        line.lists[priority] = (first, end + 1)
        line.ready += 1
        ticket.place = end
        self.turn.writes[_place(line, priority, end)] = ticket.request.ticket.encode()
        self.keep_ticket(ticket)

    def take_out(self, line: QueueLine, ticket: Ticket) -> None:
        """From wherever it stands."""
        self.turn.writes[_place(line, ticket.request.priority, ticket.place)] = None
        line.ready -= 1
        if not line.ready:
            line.lists = {}

    async def pop(self, line: QueueLine) -> Ticket:
        """The first of the highest priority; there is one. It keeps its place, of which nothing is left."""
        for priority in sorted(line.lists, reverse=True):
            first, end = line.lists[priority]
            for place in range(first, end):
                slot = _place(line, priority, place)
                if slot not in self.turn.writes and self.turn.activation.rows.lacks(slot):
                    await self._fetch(_place(line, priority, n) for n in range(place, min(place + FETCHED, end)))
                data = await _bytes(self.turn, slot)
                if data is None:
                    continue  # it has left
                ticket = await self.ticket(data.decode())
                assert ticket is not None  # both go in one commit
                line.lists[priority] = (place + 1, end)
                self.take_out(line, ticket)
                return ticket
            del line.lists[priority]
        raise AssertionError(f"{self.turn.activation.id}: {line.ready} wait under a key where nobody does")

    async def _fetch(self, slots: "Iterable[Slot]") -> None:
        await self.turn.activation.rows.fetch([slot for slot in slots if slot not in self.turn.writes])

    # whose turn it is

    def line_up(self, line: QueueLine) -> None:
        """Behind the others, if it has somebody who may go; a line that stands there stays where it is."""
        if line.is_lined or not line.ready or not self.is_open(line):
            return
        self.turn.writes[_turn_slot(self.state.end)] = line.key.encode()
        self.state.end += 1
        line.is_lined = True

    async def next_line(self) -> QueueLine:
        """The first, which is that no longer."""
        slot = _turn_slot(self.state.first)
        data = await _bytes(self.turn, slot)
        assert data is not None
        self.turn.writes[slot] = None
        self.state.first += 1
        line = await self.line(data.decode())
        line.is_lined = False
        return line

    def is_open(self, line: QueueLine) -> bool:
        """Its own limits let one more go."""
        terms = self.terms
        if terms.key_concurrency is not None and line.running >= terms.key_concurrency:
            return False
        return not opens_at(terms.key_rate, line.starts, self.now)

    # the end of the turn

    def save(self) -> None:
        """Write what has changed, and set the timers for what only time brings."""
        for short, line in self._lines.items():
            wake_at = self._line_wakes_at(line)
            self._set_timer(f"{TURN}:{short}", line.wake_at, wake_at, line.key)
            line.wake_at = wake_at
            is_idle = not (line.running or line.ready or line.newest or wake_at)
            self.turn.writes[(SYSTEM, LINES + short)] = None if is_idle else _encoder.encode(line)
        self.turn.writes[STATE] = _encoder.encode(self.state)

    def wake_queue(self, at: int) -> None:
        """Look again then; 0: only when something happens."""
        self._set_timer(TURN, self.state.wake_at, at, None)
        self.state.wake_at = at

    def _line_wakes_at(self, line: QueueLine) -> int:
        terms, instants = self.terms, list[int]()
        if line.ripe_at:
            instants.append(line.ripe_at)
        if line.ready and not line.is_lined:
            instants.append(opens_at(terms.key_rate, line.starts, self.now))
        line.starts = _recent(terms.key_rate, line.starts, self.now)
        line.joins = _recent(terms.throttle, line.joins, self.now)
        if not (line.running or line.ready or line.newest):  # then the last that counts takes the line with it
            instants += [
                starts[-1][0] + rate.period_ms
                for rate, starts in ((terms.key_rate, line.starts), (terms.throttle, line.joins))
                if rate is not None and starts
            ]
            return max(instants, default=0)
        return min((at for at in instants if at), default=0)

    def _set_timer(self, name: str, before: int, at: int, key: str | None) -> None:
        if at == before:
            return
        if not at:
            self.turn.clear_timer(name)
            return
        activation = self.turn.activation
        payload = None if key is None else key.encode()
        self.turn.set_timer(Timer(activation.id, name, at, at, self.next_seq(), payload=payload))

    def next_seq(self) -> int:
        activation = self.turn.activation
        return activation.node.next_seq(activation.shard)


def decode_row(data: bytes, kind: type[S]) -> S:
    """A row as it was read."""
    return _decoders[kind].decode(data)  # type: ignore[return-value]


async def _bytes(turn: Turn, slot: Slot) -> bytes | None:
    return turn.writes[slot] if slot in turn.writes else await turn.activation.rows.read(slot)


async def _read(turn: Turn, slot: Slot, kind: type[S]) -> S | None:
    data = await _bytes(turn, slot)
    return None if data is None else decode_row(data, kind)


def _recent(rate: Rate | None, starts: Starts, now: int) -> Starts:
    return () if rate is None else recent_starts(rate, starts, now)


def _place(line: QueueLine, priority: int, place: int) -> Slot:
    return (SYSTEM, f"queue.place:{_short(line.key)}:{priority}:{place}")


def _turn_slot(number: int) -> Slot:
    return (SYSTEM, f"queue.turn:{number}")


def _short(key: str) -> str:
    """A key in few letters, for the names of rows and timers."""
    return blake2b(key.encode(), digest_size=12).hexdigest()
