"""Layer 4. Somebody joins a queue, leaves it, or time has passed: who may go now?

Each is a turn of the object that keeps the queue, so two of them never meet. Its timers need no awake object and are
tried until they succeed; what they answer goes with their commit.
"""

import logging
from typing import TYPE_CHECKING

from wakeful.policy.queue_terms import add_start, opens_at
from wakeful.queues.records import LINES, TICKETS, TURN, QueueBook, QueueLine, Ticket, decode_row
from wakeful.runtime.admission import (
    DROP,
    GO,
    JOIN,
    LEAVE,
    LOOK,
    JoinRequest,
    decode_join,
    reply_timer,
    says_terms,
)
from wakeful.runtime.timer_handler import Errands
from wakeful.runtime.turn import Turn
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.queues")

ADMITS_MAX = 100  # in one turn: each is a timer of its commit, and others want to go on
PAGE = 500
ASK = "queue-look"  # the timer at which those who have run for long are asked whether they do
ASK_MS = 600_000  # how long somebody may hold a place before he is asked, and then again
ASKED_MAX = 200  # in one turn


class QueueTimers(Errands):
    """The handler of one kind of them."""

    def __init__(self, prefix: str, deadline_ms: int) -> None:
        self.prefix = prefix
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        book = await QueueBook.open(turn)
        if self.prefix == JOIN:
            await _join(book, decode_join(timer))
        elif self.prefix == LEAVE:
            await _leave(book, timer.name.partition(":")[2])
        elif self.prefix == TURN:
            await _on_time(book, timer)
        else:
            await _ask_all(book)
        await admit(book)
        return False


async def admit(book: QueueBook) -> None:
    """Let go whoever may: the lines take turns, one of each. Then the book is saved."""
    state, terms, now = book.state, book.terms, book.now
    wake_at = admits = 0
    while state.first < state.end and not state.paused_at:
        if terms.concurrency is not None and state.running >= terms.concurrency:
            break
        if wake_at := opens_at(terms.rate, state.starts, now):
            break
        if admits == ADMITS_MAX:
            wake_at = now
            break
        line = await book.next_line()
        if line.ready and book.is_open(line):
            _let_go(book, line, await book.pop(line))
        book.line_up(line)
        admits += 1
    book.wake_queue(wake_at)
    book.save()


def _let_go(book: QueueBook, line: QueueLine, ticket: Ticket) -> None:
    state, terms, now = book.state, book.terms, book.now
    ticket.running_at, ticket.place = max(now, 1), -1
    book.keep_ticket(ticket)
    state.waiting -= 1
    state.running += 1
    state.admitted += 1
    state.moved_at = now
    line.running += 1
    state.starts = add_start(terms.rate, state.starts, now)
    line.starts = add_start(terms.key_rate, line.starts, now)
    if line.newest == ticket.request.ticket:
        line.newest, line.first_at = "", 0
    _reply(book, ticket.request, GO)
    if not state.looks:
        state.looks = True
        _set_look(book, now + ASK_MS)


async def _join(book: QueueBook, request: JoinRequest) -> None:
    if await book.ticket(request.ticket) is not None:
        return  # it is in already
    await _take_terms(book, request)
    state, terms, line = book.state, book.terms, await book.line(request.key)
    if (closed_until := opens_at(terms.throttle, line.joins, book.now)) and terms.throttle is not None:
        state.dropped += 1
        left_ms = closed_until - book.now
        _reply(book, request, DROP, f"throttled: {terms.throttle} of its key; the next may come in {left_ms} ms")
        return
    line.joins = add_start(terms.throttle, line.joins, book.now)
    ticket = Ticket(request, joined_at=book.now)
    if not state.waiting:
        state.moved_at = book.now
    state.waiting += 1
    if terms.debounce_ms:
        await _debounce(book, line, ticket)
    else:
        book.append(line, ticket)
        book.line_up(line)


async def _debounce(book: QueueBook, line: QueueLine, ticket: Ticket) -> None:
    """It waits whether another comes; the one that waits already goes."""
    terms, now = book.terms, book.now
    old = await book.ticket(line.newest) if line.newest else None
    if old is not None:
        _drop_waiting(book, line, old)
        book.state.replaced += 1
        _reply(book, old.request, DROP, "debounced: a newer one of its key came")
    line.first_at = min(line.first_at or now, now)
    line.newest = ticket.request.ticket
    line.ripe_at = now + terms.debounce_ms
    if terms.debounce_most_ms:
        line.ripe_at = min(line.ripe_at, max(now, line.first_at + terms.debounce_most_ms))
    book.keep_ticket(ticket)


def _drop_waiting(book: QueueBook, line: QueueLine, ticket: Ticket) -> None:
    if ticket.place >= 0:
        book.take_out(line, ticket)
    book.drop_ticket(ticket)
    book.state.waiting -= 1


async def _leave(book: QueueBook, name: str) -> None:
    ticket = await book.ticket(name)
    if ticket is None:
        book.turn.clear_timer(f"{JOIN}:{name}")  # it gave up before it was let in
        return
    line = await book.line(ticket.request.key)
    if ticket.running_at:
        book.drop_ticket(ticket)
        book.state.running -= 1
        line.running -= 1
    else:
        _drop_waiting(book, line, ticket)
        if line.newest == name:
            line.newest, line.first_at, line.ripe_at = "", 0, 0
    book.line_up(line)


async def _on_time(book: QueueBook, timer: Timer) -> None:
    """What a line, or the whole queue, had to wait for is there."""
    if timer.payload is None:
        book.state.wake_at = 0
        return
    line = await book.line(timer.payload.decode())
    line.wake_at = 0
    if line.ripe_at and line.ripe_at <= book.now:
        line.ripe_at = 0
        ticket = await book.ticket(line.newest)
        if ticket is not None:
            book.append(line, ticket)
    book.line_up(line)


# what the queue holds to


async def _take_terms(book: QueueBook, request: JoinRequest) -> None:
    """The terms that were said last hold, whoever comes when."""
    state = book.state
    if not says_terms(request) or request.said_at < state.said_at:
        return
    before, state.said_at = state.terms, request.said_at
    if before == request.terms:
        return
    state.terms = request.terms
    if not (state.admitted or state.waiting):
        return  # it is new
    words = "queue %s holds to other limits from now on, as %s %s was asked for with them"
    log.warning(words, book.turn.activation.id.key, request.cls, request.name, extra={"code": "queue.terms"})
    if (before.key_concurrency, before.key_rate) != (state.terms.key_concurrency, state.terms.key_rate):
        async for key in _waiting_keys(book.turn):
            book.line_up(await book.line(key))


async def _waiting_keys(turn: Turn) -> "AsyncIterator[str]":
    await turn.activation.settle()
    async for _, data in _each_row(turn, LINES):
        line = decode_row(data, QueueLine)
        if line.ready:
            yield line.key


async def _each_row(turn: Turn, prefix: str) -> "AsyncIterator[tuple[str, bytes]]":
    first = prefix
    while page := await _rows(turn, first, prefix, PAGE):
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        await turn.activation.node.clock.sleep(0)
        first = page[-1][0] + "\0"


async def _rows(turn: Turn, first: str, prefix: str, limit: int) -> "Sequence[tuple[str, bytes]]":
    last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return await turn.activation.rows.scan(SYSTEM, Range(first, last, False, limit))


# who holds a place for long


async def _ask_all(book: QueueBook) -> None:
    """Those that have run for long are asked: whoever is not there any more did not say so, and gives its place back now."""
    state = book.state
    await book.turn.activation.settle()
    rows = await _rows(book.turn, f"{TICKETS}{state.looked}", TICKETS, ASKED_MAX)
    for _, data in rows:
        ticket = decode_row(data, Ticket)
        if ticket.running_at and ticket.running_at <= book.now - ASK_MS:
            _reply(book, ticket.request, LOOK)
    if len(rows) == ASKED_MAX:
        state.looked = rows[-1][0][len(TICKETS) :] + "\0"
        _set_look(book, book.now)
        return
    state.looked = ""
    state.looks = bool(state.running)
    if state.looks:
        _set_look(book, book.now + ASK_MS)


def _set_look(book: QueueBook, at: int) -> None:
    book.turn.set_timer(Timer(book.turn.activation.id, ASK, at, at, book.next_seq()))


def _reply(book: QueueBook, to: JoinRequest, word: str, reason: str = "") -> None:
    activation = book.turn.activation
    book.turn.send([reply_timer(activation.node, to, activation.id.key, book.next_seq(), word, reason)])
