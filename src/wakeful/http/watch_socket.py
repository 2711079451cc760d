"""Layer 5. A machine over one WebSocket: its news go out, and events for it come in.

The client sends `{"id": 1, "send": {"type": "PAY"}, "key": "…"}` and is answered by that id, `accepted` or `refused` with the
problem that HTTP would have answered. Who may send is asked for each event, and events are taken one at a time.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from wakeful.http.asks import LONG_BYTES, in_thread, read_json
from wakeful.http.calls import KEY, deliver
from wakeful.http.machine_watch import OutsideWatch, Speech, check_watched
from wakeful.http.problems import Problem, problem_of
from wakeful.http.stream import SEND_TIMEOUT_S, Ends, unless
from wakeful.operations.arguments import signature_of
from wakeful.security.crowd import asker_of
from wakeful.sockets.held import Paced
from wakeful.values.errors import BadToken, NoToken, NotRunning
from wakeful.values.json_patch import json_bytes

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from wakeful.deployment import Deployment
    from wakeful.http.asks import Receive, Send
    from wakeful.http.stops import Stops
    from wakeful.machines.watchers import News
    from wakeful.runtime.node import Node
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller
    from wakeful.values.ids import ObjectId

RESTARTING, REFUSED, UNSUPPORTED, TOO_LARGE, FAILED = 1012, 1008, 1003, 1009, 1011
REASON_BYTES_MAX = 123  # of a close frame
TOKEN_OVER = (REFUSED, "the token is over; connect with another")
SEND = "send"  # the machine's method behind what comes in

T = TypeVar("T")
Ending = tuple[int, str]  # code and reason of a close frame


class SentEvent(msgspec.Struct, forbid_unknown_fields=True):
    """What a client says."""

    id: int | Annotated[str, msgspec.Meta(max_length=255)]  # of its own, for the answer
    send: dict[str, Any]  # the event, with its type
    key: str | None = None  # of the request: sent again it is taken once


class WatchSocket:
    """One client that watches a machine and may send it events."""

    def __init__(
        self,
        deployment: "Deployment",
        gate: "Gate",
        connection: "HTTPConnection",
        caller: "Caller",
        id: "ObjectId",
        *,
        is_patched: bool,
    ) -> None:
        self._deployment = deployment
        self._gate = gate
        self._connection = connection
        self._caller = caller
        self._id = id
        self._asker = asker_of(caller, id.key)
        self._watch = OutsideWatch(deployment, id, caller.name)
        self._speech = Speech(self._asker, _text, is_patched=is_patched)
        self._news: list[News] = []  # yet to be told
        self._pace = Paced()
        self._line = asyncio.Lock()  # news and answers go out one after the other

    async def begin(self) -> None:
        """Before the connection is accepted: what keeps the machine from being watched is an answer with a status."""
        await check_watched(self._node, self._gate, self._connection, self._caller, self._id)
        self._news = await self._watch.look()

    async def carry(self, stops: "Stops", protocol: str, receive: "Receive", send: "Send") -> None:
        """Until client, token, node or server go."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        stopped: asyncio.Future[None] = loop.create_future()
        heard = asyncio.ensure_future(self._hear(receive, send))
        ending: Ending = (RESTARTING, "the server is restarting")
        try:
            await send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})
            with self._gate.lasting(self._caller, partial(_done, over)), stops.lasting(partial(_done, stopped)):
                await self._tell({heard, over, stopped}, send)
            if stopped.done():
                pass
            elif over.done():
                ending = TOKEN_OVER
            else:
                found = heard.result()
                if found is None:
                    return  # the client has gone
                ending = found
        except (TimeoutError, OSError):
            return  # nobody reads any more; the server lets go of the connection
        except NotRunning:
            pass
        except Exception as error:
            body = problem_of(error, "").body
            ending = (FAILED, f"{body['code']}: {body['detail']}")
        finally:
            heard.cancel()
        await send({"type": "websocket.close", "code": ending[0], "reason": _cut(ending[1])})

    async def _tell(self, ends: Ends, send: "Send") -> None:
        while True:
            for one in self._news:
                await self._put(await self._speech.say(one), send)
            news = await unless(ends, self._watch.wait())
            if news is None:
                return
            self._news = news

    async def _put(self, text: bytes, send: "Send") -> None:
        if text:
            async with self._line, asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "websocket.send", "text": text.decode()})

    # what the client says

    async def _hear(self, receive: "Receive", send: "Send") -> Ending | None:
        """Until the client has gone (None), or said what can't be. The next is read when this one is answered."""
        limits, clock = self._node.limits, self._node.clock
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return None
            said = (event.get("text") or "").encode(errors="replace")
            if len(said) > limits.socket_message_bytes:
                return TOO_LARGE, f"a message may have {limits.socket_message_bytes} bytes"
            wait_ms = self._pace.pace(clock.now(), limits.socket_messages_per_s)
            await (clock.sleep(wait_ms) if wait_ms else asyncio.sleep(0))
            sent = await self._read(said)
            if sent is None:
                return UNSUPPORTED, 'say {"id": 1, "send": {"type": "…"}} as text, or nothing'
            answer, is_over = await self._answer(sent, is_long=len(said) > LONG_BYTES)
            await self._put(answer, send)
            if is_over:
                return TOKEN_OVER

    async def _read(self, said: bytes) -> SentEvent | None:
        """None for what is no event for the machine."""

        def read() -> SentEvent:
            sent = msgspec.convert(read_json(said), SentEvent)
            if signature_of(self._node.registry.by_name(self._id.cls), SEND).is_exact:
                sent.send = read_json(said, is_exact=True)["send"]
            return sent

        try:
            return await self._beside(read, is_long=len(said) > LONG_BYTES)
        except (Problem, msgspec.ValidationError):
            return None

    async def _answer(self, sent: SentEvent, *, is_long: bool) -> tuple[bytes, bool]:
        """What the client is told, and whether it is let in no more."""
        try:
            await self._send(sent, is_long=is_long)
        except Exception as error:
            is_operator = self._caller.may("operate")
            problem = problem_of(error, self._connection.scope["path"], is_operator=is_operator).body
            is_over = isinstance(error, BadToken | NoToken)
            return _text("refused", {"id": sent.id, "problem": problem}), is_over
        return _text("accepted", {"id": sent.id}), False

    async def _send(self, sent: SentEvent, *, is_long: bool) -> None:
        if sent.key is not None and not re.fullmatch(KEY, sent.key):
            raise Problem(400, "request.key.form", "key: 1 to 255 characters of ASCII without spaces")
        caller = await self._gate.admit(self._connection, "call", takes_grants=True)
        id, node = self._id, self._node
        await self._gate.check_exposed(self._connection, caller, id.cls, id.key, SEND)
        signature = signature_of(node.registry.by_name(id.cls), SEND)

        def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
            args, kwargs = signature.convert([sent.send], {})
            return node.copy_call(id, SEND, args, kwargs) if is_long else (args, kwargs)

        args, kwargs = await self._beside(arguments, is_long=is_long)
        await self._gate.check_sent(self._connection, caller, SEND, args)
        await deliver(node, id, SEND, args, kwargs, request_key=sent.key, is_carried=is_long)

    async def _beside(self, make: Callable[[], T], *, is_long: bool) -> T:
        """What is made of a message: in a thread when it is long, so that the loop goes on meanwhile."""
        return await in_thread(make, self._asker) if is_long else make()

    @property
    def _node(self) -> "Node":
        node = self._deployment.node
        if node is None:
            raise NotRunning("the app is not running; try again")
        return node


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _text(kind: str, message: dict[str, Any]) -> bytes:
    return json_bytes({"kind": kind, **message})


def _cut(reason: str) -> str:
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
