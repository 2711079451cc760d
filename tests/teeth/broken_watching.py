"""Mistakes in watching a machine from outside, one each: tests/teeth/test_watching_teeth.py says who must catch them."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.http import watch_socket
from wakeful.http.watch_socket import WatchSocket
from wakeful.values import json_patch


def equal_is_what_python_takes_for_equal() -> Any:
    """A flag that was 1 and is true now stays 1 at the client."""
    return swapped(json_patch, "json_bytes", lambda json_bytes: lambda value: value)


def names_go_into_a_path_as_they_are() -> Any:
    """One with a tilde becomes another."""
    return swapped(json_patch, "_escape", lambda escape: lambda name: name)


def a_socket_that_is_open_may_send() -> Any:
    """Nobody asks again whether its token is still good."""

    def make(send: Any) -> Any:
        async def broken(self: WatchSocket, sent: Any, *, is_long: bool) -> None:
            gate = self._gate
            self._gate = _OpenGate()  # type: ignore[assignment]
            try:
                await send(self, sent, is_long=is_long)
            finally:
                self._gate = gate

        return broken

    return swapped(WatchSocket, "_send", make)


class _OpenGate:
    async def admit(self, *args: Any, **options: Any) -> None: ...

    async def check_exposed(self, *args: Any) -> None: ...


def the_key_of_an_event_is_forgotten() -> Any:
    """What is sent again is done again."""

    def make(deliver: Any) -> Any:
        def broken(*args: Any, **options: Any) -> Any:
            return deliver(*args, **{**options, "request_key": None})

        return broken

    return swapped(watch_socket, "deliver", make)
