"""Sharing the HTTP server, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.http import health, protocol
from wakeful.http.pace import Admission
from wakeful.http.protocol import SocketProtocol
from wakeful.policy.shares import Asker, Shares
from wakeful.security.crowd import Askers


def one_may_have_all_places() -> Any:
    """Bounded by what there is alone."""

    def make(is_fair: Any) -> Any:
        def broken(self: Shares, held: int, within: int, count: int) -> bool:
            return True

        return broken

    return swapped(Shares, "_is_fair", make)


def first_come_first_served() -> Any:
    """Everybody is of one house."""

    def make(take: Any) -> Any:
        def broken(self: Admission, asker: Asker) -> Any:
            return take(self, Asker("everybody"))

        return broken

    return swapped(Admission, "take", make)


def all_of_a_flood_goes_on_together() -> Any:
    """Though others are about."""

    def make(are_others_about: Any) -> Any:
        def broken(self: Admission, house: str, now_s: float) -> bool:
            return False

        return broken

    return swapped(Admission, "_are_others_about", make)


def a_token_is_known_by_its_name() -> Any:
    """Whoever names it has its share."""

    def make(guess: Any) -> Any:
        def broken(self: Askers, scope: Any) -> Asker:
            text = next((value.decode() for name, value in scope["headers"] if name == b"authorization"), "__")
            return Asker(f"token:{text.split('_')[1]}", text.split("_")[1])

        return broken

    return swapped(Askers, "guess", make)


def ready_though_nobody_finds_a_place() -> Any:
    """The node is up, and that is all that is looked at."""

    def make(why_not: Any) -> Any:
        def broken(ask: Any) -> Any:
            ask.is_full = False
            return why_not(ask)

        return broken

    return swapped(health, "why_not", make)


def frames_beside_messages_are_free() -> Any:
    """Only messages are paced."""

    def make(count: Any) -> Any:
        def broken(self: SocketProtocol, *, is_bare: bool = False) -> None: ...

        return broken

    return swapped(SocketProtocol, "_count", make)


def a_burst_is_read_in_one_go() -> Any:
    """Nobody else has a turn before all that has come is parsed."""

    def make(pass_frames: Any) -> Any:
        return 1 << 30

    return swapped(protocol, "PASS_FRAMES", make)
