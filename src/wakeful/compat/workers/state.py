"""Layer 5. `ctx`: what does an object of Cloudflare's know about itself, and what can it ask of its runtime?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.events import Hosted, ObjectEvents
from wakeful.compat.workers.failures import JsTypeError, Reset, reset_error
from wakeful.compat.workers.ids import DurableObjectId
from wakeful.compat.workers.promises import result_of, start_task
from wakeful.compat.workers.sockets import Sockets, WebSocket, WebSocketRequestResponsePair
from wakeful.compat.workers.storage import Storage
from wakeful.compat.workers.values import option_of

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

BLOCK_S = 30.0  # what blockConcurrencyWhile may take, as there


class State(ObjectEvents):
    """Handed to the constructor: `id`, `storage`, `blockConcurrencyWhile`, `waitUntil`, `abort` and the sockets."""

    def __init__(self, activation: "ObjectRuntime", hosted: Hosted, id: DurableObjectId) -> None:
        super().__init__(activation, hosted)
        self.id = id
        self.storage = Storage(self)
        self.sockets = Sockets(self)
        self.props: dict[str, Any] = {}

    def blockConcurrencyWhile(self, callback: Callable[[], Any]) -> Awaitable[Any]:  # noqa: N802  the name there
        """Run the callback with no other event in between; if it raises, the object is reset."""
        return self.doing(lambda: self._block(callback))

    def waitUntil(self, work: Any) -> None:  # noqa: N802  the name there
        """Let the work go on after the answer, and keep the object awake for it; its failure is nobody's."""
        if not isinstance(work, Awaitable):
            return
        activation = self._activation
        activation.hold_awake()

        async def waiting() -> None:
            try:
                await work
            finally:
                activation.let_sleep()

        self.hosted.beside.add(activation, start_task(waiting(), activation.node.keep, f"waitUntil of {activation.id}"))

    def abort(self, reason: Any = None, options: Any = None, **named: Any) -> None:
        """Reset the object: its memory and what it has not stored are gone, and whoever waits is told the reason."""
        given = option_of(options, named, "abort()")
        retries = given.get("retryAlarm", True)
        text = "the object reset itself with abort()" if reason is None else str(reason)
        reset = Reset(reset_error(text), retries=bool(retries))

        async def reset_it() -> None:
            raise reset

        if self._turn() is None:  # said by a task of its own, which no event is unwound by
            self.apart(reset_it, "abort()")
        raise reset

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ctx.{name} is not here; docs/cloudflare.md says what is, and what to use instead")

    # sockets

    def acceptWebSocket(self, socket: Any, tags: Iterable[str] | None = None) -> None:  # noqa: N802  the name there
        """Take one end of a pair, with tags to find it by; it outlives the object's sleep."""
        self.sockets.accept(socket, tags)

    def getWebSockets(self, tag: str | None = None) -> list[WebSocket]:  # noqa: N802  the name there
        """The sockets that are there, or those with the tag."""
        return self.sockets.all(tag)

    def getTags(self, socket: WebSocket) -> list[str]:  # noqa: N802  the name there
        return self.sockets.tags(socket)

    def setWebSocketAutoResponse(self, pair: WebSocketRequestResponsePair | None = None) -> None:  # noqa: N802
        """Have that text answered without waking the object; None ends it."""
        if pair is not None and not isinstance(pair, WebSocketRequestResponsePair):
            raise JsTypeError("setWebSocketAutoResponse() takes a WebSocketRequestResponsePair")
        self.sockets.auto = pair
        self.doing(lambda: self.sockets.set_auto(pair))

    def getWebSocketAutoResponse(self) -> WebSocketRequestResponsePair | None:  # noqa: N802  the name there
        return self.sockets.auto

    async def _block(self, callback: Callable[[], Any]) -> Any:
        if not callable(callback):
            raise JsTypeError("blockConcurrencyWhile() takes a function")
        turn = self._turn()
        assert turn is not None
        async with self.scope(turn).enter() as scope:
            turn.save()
            try:
                try:
                    async with asyncio.timeout(BLOCK_S) as limit:
                        result = await result_of(callback())
                finally:
                    await scope.close()
            except Exception as error:
                turn.restore()
                if not limit.expired():
                    raise Reset(error, keeps=True) from None
                late = reset_error(f"blockConcurrencyWhile() took longer than {BLOCK_S:.0f} s; the object was reset")
                raise Reset(late, keeps=True) from None
            except BaseException:
                turn.restore()
                raise
            turn.saved.pop()
            return result
