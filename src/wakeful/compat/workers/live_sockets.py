"""Layer 5. Sockets whose handlers are functions in memory: those of `accept()`, and those to other servers.

What is sent waits in a pipe, from which whoever carries the connection takes it; what comes is told to the listeners, each
time in a task of its own in the context of the code that accepted the socket.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from wakeful.compat.workers.failures import InvalidAccessError, JsException, JsTypeError
from wakeful.compat.workers.sources import Pipe, call, dress_chunk, start_in
from wakeful.compat.workers.values import Record, result_of
from wakeful.sockets.socket import check_close
from wakeful.values.codec import encode
from wakeful.values.errors import BadInput

log = logging.getLogger("wakeful.workers")

CONNECTING, OPEN, CLOSING, CLOSED = range(4)
NO_CODE = 1005  # what a close without a code is told as
HANDLERS_MAX = 100  # of one socket that run at once; its next message waits
KINDS = ("open", "message", "close", "error")
SAID, OVER = 0, 1  # kinds of frames: a message, the end


class LiveSocket:
    """One end of such a socket: `send`, `close`, `addEventListener`, `onmessage` and the others, `readyState`."""

    CONNECTING, OPEN, CLOSING, CLOSED = CONNECTING, OPEN, CLOSING, CLOSED

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.protocol = self.extensions = ""
        self.readyState = CONNECTING
        self.onopen = self.onmessage = self.onclose = self.onerror = None
        self.out = Pipe()  # frames for the other end, as bytes
        self._listeners: dict[str, list[Callable[..., Any]]] = {}
        self._context = copy_context()
        self._running: set[asyncio.Task[None]] = set()
        self._on_accept: Callable[[], None] | None = None

    def accept(self, options: Any = None) -> None:
        """From now on the listeners are told what comes."""
        if self.readyState == CONNECTING:
            self.readyState = OPEN
            self._context = copy_context()
            if self._on_accept is not None:
                self._on_accept()

    def addEventListener(self, kind: str, listener: Any, options: Any = None) -> None:  # noqa: N802  the names there
        if kind in KINDS:
            self._listeners.setdefault(kind, []).append(listener)

    def removeEventListener(self, kind: str, listener: Any, options: Any = None) -> None:  # noqa: N802
        found = self._listeners.get(kind, [])
        if listener in found:
            found.remove(listener)

    def send(self, message: Any) -> None:
        """Have the other end get this, text or bytes."""
        if isinstance(message, bytearray | memoryview):
            message = bytes(message)
        if not isinstance(message, str | bytes):
            raise JsTypeError(f"send() takes text or bytes, not {type(message).__name__}")
        if self.readyState == CONNECTING:
            raise JsException("send(): the socket is not open yet; accept() it first, or wait for `open`")
        if self.readyState == CLOSING:
            raise JsTypeError("send(): the socket was closed already")
        if self.readyState == OPEN:
            self.out.push(encode([SAID, bytes(message) if isinstance(message, bytes) else message]))

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        """Close it behind what was sent; of one that is closed nothing comes."""
        code, reason = closing_of(code, reason)
        if self.readyState < CLOSING:
            self.readyState = CLOSING
            self.out.push(encode([OVER, code, reason]))
            self.out.close()

    # who carries the connection

    async def hear(self, frame: list[Any]) -> None:
        """Something came; returns when there is room for more."""
        if frame[0] == SAID:
            self.tell("message", data=dress_chunk(frame[1]))
        elif self.readyState != CLOSED:
            self.readyState = CLOSED
            _, code, reason, was_clean = frame
            if not self.out.is_closed:
                self.out.close()
            if not was_clean:
                self.tell("error", message=reason or "the connection broke", error=reason)
            self.tell("close", code=code, reason=reason, wasClean=was_clean)
        while len(self._running) >= HANDLERS_MAX:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    def tell(self, kind: str, **event: Any) -> None:
        """The listeners, in their order."""
        told = Record(type=kind, target=self, currentTarget=self, **event)
        for listener in (*self._listeners.get(kind, ()), getattr(self, f"on{kind}")):
            if listener is not None:
                task = start_in(self._context.copy(), _tell(listener, told))
                self._running.add(task)
                task.add_done_callback(self._running.discard)


def closing_of(code: int | None, reason: str | None) -> tuple[int, str]:
    """What goes into a close frame, checked."""
    if code is None:
        if reason:
            raise JsTypeError("close(): give a code with the reason")
        return NO_CODE, ""
    try:
        check_close(code, reason or "")
    except BadInput as error:
        raise InvalidAccessError(error.message) from None
    return code, reason or ""


async def _tell(listener: Any, event: Record) -> None:
    try:
        await result_of(call(listener, event))
    except Exception:
        log.exception("the listener of a socket raised", extra={"code": "workers.socket"})
