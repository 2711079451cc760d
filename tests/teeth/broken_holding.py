"""What keeps requests from holding the event loop, broken on purpose: each is a mistake that somebody could make, applied while its block lasts."""

from collections.abc import Callable
from typing import Any

from tests.teeth.broken import swapped
from wakeful.http import asks, body_shape
from wakeful.http.asks import Ask
from wakeful.http.protocol import HeldBytes, SocketProtocol
from wakeful.operations import arguments
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import FairLine
from wakeful.server import guard
from wakeful.server.guard import Guarded, RefusalLog, RefusedRequest


def arguments_are_made_on_the_loop() -> Any:
    """However long the body is."""

    def make(beside: Any) -> Any:
        async def broken(self: Ask, made: Callable[[], Any]) -> Any:
            return made()

        return broken

    return swapped(Ask, "beside", make)


def long_bodies_are_read_side_by_side() -> Any:
    """As if threads had the interpreter each for itself."""
    return swapped(asks, "THREADS", lambda threads: 2)


def long_bodies_wait_in_one_line() -> Any:
    """Whoever sent them."""
    return swapped(FairLine, "passing", lambda passing: lambda self, asker: passing(self, Asker("")))


def what_moves_is_not_asked_for() -> Any:
    """It is taken already, so that whoever it is of may have it."""

    def make(move: Any) -> Any:
        def broken(self: Shares, asker: Asker, other: Asker, count: int) -> Verdict:
            self.give(asker, count)
            self.taken += count
            self._houses[other.house] = self._houses.get(other.house, 0) + count
            self._rooms[other] = self._rooms.get(other, 0) + count
            return Verdict.TAKEN

        return broken

    return swapped(Shares, "move", make)


def lists_are_not_counted() -> Any:
    """As if making them cost nothing."""

    def make(check_body: Any) -> Any:
        def broken(body: bytes, most: int) -> None: ...

        return broken

    assert asks.check_body is body_shape.check_body
    return swapped(asks, "check_body", make)


def what_arguments_became_is_not_weighed() -> Any:
    """As if a number stayed one."""
    return swapped(arguments, "weighs_more", lambda weighs_more: lambda value, most: False)


def trailers_are_kept() -> Any:
    """As if they were headers."""

    def make(on_header: Any) -> Any:
        def broken(self: Guarded, name: bytes, value: bytes) -> None:
            super(Guarded, self).on_header(name, value)

        return broken

    return swapped(Guarded, "on_header", make)


def trailers_are_not_counted() -> Any:
    """As if whoever sends them came to an end."""
    return swapped(Guarded, "_has_long_trailers", lambda has: lambda self: False)


def a_body_is_read_to_its_end_though_it_is_answered() -> Any:
    """So that the connection can be used again."""
    return swapped(Guarded, "_linger", lambda linger: lambda self: None)


def a_refusal_does_not_wait_for_its_turn() -> Any:
    """As if nobody before it were owed an answer, or were getting one."""
    return swapped(Guarded, "_refuse", lambda refuse: lambda self, refusal: self._say(refusal))


def heads_are_taken_as_the_parser_takes_them() -> Any:
    """With two codings, for one."""
    return swapped(guard, "check_head", lambda check: lambda version, headers: None)


def who_is_refused_is_hung_up_on() -> Any:
    """Though it still sends, and has not looked at what it was told."""

    def make(say: Any) -> Any:
        def broken(self: Guarded, refusal: RefusedRequest) -> None:
            self.transport.write(refusal.answer)
            self.transport.close()

        return broken

    return swapped(Guarded, "_say", make)


def the_call_under_way_is_cut_for_who_is_slow_behind_it() -> Any:
    """As it was once."""
    return swapped(Guarded, "_too_slow", lambda too_slow: lambda self: self._cut())


def every_refusal_is_logged() -> Any:
    """As often as strangers like."""

    def make(add: Any) -> Any:
        def broken(self: RefusalLog, now_s: float, client: Any, refusal: RefusedRequest) -> None:
            self._told_s = None
            add(self, now_s, client, refusal)

        return broken

    return swapped(RefusalLog, "add", make)


def all_who_send_are_one() -> Any:
    """As if whose connection it is did not matter."""
    return swapped(HeldBytes, "belong", lambda belong: lambda self, asker: None)


def what_sockets_hold_back_is_not_counted() -> Any:
    """As if each were alone."""
    return swapped(SocketProtocol, "_count_held", lambda count: lambda self: None)
