"""Queues, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.jobs import outcomes
from wakeful.queues import timers
from wakeful.queues.records import QueueBook
from wakeful.queues.timers import QueueTimers
from wakeful.values.errors import Unavailable


def a_place_is_not_given_back() -> Any:
    """A job that ends says nothing, and whoever has run holds his place until somebody asks."""
    return swapped(outcomes, "leave_queue", lambda _: lambda *_: None)


def a_place_is_given_back_late() -> Any:
    """Who has been let go counts only from when he says so: by then others have been let go as well."""

    def make(let_go: Any) -> Any:
        def broken(book: Any, line: Any, ticket: Any) -> None:
            let_go(book, line, ticket)
            book.state.running = max(0, book.state.running - 1)

        return broken

    return swapped(timers, "_let_go", make)


def one_key_goes_until_it_is_empty() -> Any:
    """A line whose turn it was is first again."""

    def make(line_up: Any) -> Any:
        def broken(self: QueueBook, line: Any) -> None:
            end = self.state.end
            line_up(self, line)
            if self.state.end > end and self.state.first:
                slot = timers_slot(end)
                self.state.end, self.state.first = end, self.state.first - 1
                self.turn.writes[timers_slot(self.state.first)] = self.turn.writes.pop(slot)

        return broken

    return swapped(QueueBook, "line_up", make)


def timers_slot(number: int) -> Any:
    from wakeful.queues.records import _turn_slot

    return _turn_slot(number)


def told_after_the_commit() -> Any:
    """Who may go is told once it is on disk that he may: killed between the two, nobody ever goes."""

    async def tell(activation: Any, sends: Any) -> None:
        try:
            await activation.settle()
            await activation.node.add_timers(sends)
        except Unavailable:
            return

    def make(fire: Any) -> Any:
        async def broken(self: QueueTimers, activation: Any, turn: Any, timer: Any) -> bool:
            answer: bool = await fire(self, activation, turn, timer)
            if turn.sends:
                sends, turn.sends = turn.sends, []
                telling = tell(activation, sends)
                asyncio.get_running_loop().call_soon(lambda: activation.node.keep(asyncio.ensure_future(telling)))
            return answer

        return broken

    return swapped(QueueTimers, "fire", make)


def a_rate_counts_the_last_start_alone() -> Any:
    """As if every period began anew with each start."""

    def make(opens_at: Any) -> Any:
        def broken(rate: Any, starts: Any, now: int) -> int:
            found: int = opens_at(rate, starts[-1:], now)
            return found

        return broken

    return swapped(timers, "opens_at", make)


def the_older_one_stays() -> Any:
    """Of what is debounced the first runs, and the newer ones are put off."""

    def make(debounce: Any) -> Any:
        async def broken(book: Any, line: Any, ticket: Any) -> None:
            if line.newest and (old := await book.ticket(line.newest)) is not None:
                timers._reply(book, ticket.request, timers.DROP, "debounced: there is one already")
                book.state.waiting -= 1
                book.state.replaced += 1
                line.ripe_at = book.now + book.terms.debounce_ms
                book.keep_ticket(old)
                return
            await debounce(book, line, ticket)

        return broken

    return swapped(timers, "_debounce", make)
