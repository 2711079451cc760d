"""Mistakes in watching a machine from outside, one each: tests/teeth/test_watching_teeth.py says who must catch them."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.http import watch_socket
from wakeful.http.watch_socket import WatchSocket
from wakeful.machines.event_shapes import EventShapes
from wakeful.security import object_tokens
from wakeful.security.gate import Gate
from wakeful.security.object_tokens import Grant
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


def a_token_for_one_object_is_for_its_class() -> Any:
    """Whoever holds one may do the same with every key."""

    def make(check_object: Any) -> Any:
        def broken(self: Grant, id: Any) -> None:
            check_object(self, type(id)(id.cls, self.key))

        return broken

    return swapped(Grant, "check_object", make)


def what_a_token_says_is_believed() -> Any:
    """Nobody looks at its signature."""

    def make(read: Any) -> Any:
        def broken(text: str, key: Any, now: int) -> Any:
            payload = text.split(".")[1] if text.count(".") == 2 else ""
            try:
                return object_tokens.msgspec.json.decode(object_tokens._unspell(payload), type=Grant)
            except ValueError:
                return read(text, key, now)

        return broken

    return swapped(object_tokens, "read", make)


def every_route_takes_a_token_for_one_object() -> Any:
    """Who may watch one order may list all of them."""

    def make(admit: Any) -> Any:
        def broken(self: Gate, *args: Any, **options: Any) -> Any:
            return admit(self, *args, **{**options, "takes_grants": True})

        return broken

    return swapped(Gate, "admit", make)


def shapes_are_for_the_document_only() -> Any:
    """Whatever is sent reaches the chart."""
    return swapped(EventShapes, "check", lambda check: lambda self, event: event)
