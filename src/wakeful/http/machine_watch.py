"""Layer 5. What may somebody outside see of a machine, once or as it changes?

Who asks is known by the name of their token, and the class says what that caller sees (`visible`, `audible`): of what
calls answer, and of the news at `/v1/objects/{class}/{key}/watch`, as server-sent events or over a WebSocket.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.http.asks import Answer, Ask, json_bytes
from wakeful.http.looks import connection_of, object_of
from wakeful.http.problems import Problem, Raised, problem_of
from wakeful.http.stream import RETRY_MS, SEND_TIMEOUT_S, Ends, only_head, put, run_stream, unless
from wakeful.machine import Machine
from wakeful.machines.news import SEEN, MachineWatch
from wakeful.machines.node_machines import feature_of
from wakeful.machines.snapshot import Snapshot
from wakeful.machines.watchers import News
from wakeful.values.errors import NotRunning, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.views.plain import plain

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from wakeful.deployment import Deployment
    from wakeful.http.asks import Receive, Send
    from wakeful.http.stops import Stops
    from wakeful.runtime.node import Node
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller

RESTARTING, REFUSED, UNSUPPORTED, FAILED = 1012, 1008, 1003, 1011
REASON_BYTES_MAX = 123  # of a close frame


async def shown_to(node: "Node", id: ObjectId, answer: Any, who: "Caller", *, deadline_at: int | None = None) -> Any:
    """An answer of an object as this caller may see it: of a machine's snapshot what its class says."""
    if not isinstance(answer, Snapshot):
        return answer
    bound = feature_of(node).classes.get(id.cls)
    if bound is None or bound.cls.visible is Machine.visible:  # type: ignore[attr-defined]
        return answer
    deadline_ms = None if deadline_at is None else max(1, deadline_at - node.clock.now())
    try:
        return await node.send(id, SEEN, (answer, who.name), {}, deadline_ms=deadline_ms, request_key=None)
    except WakefulError:
        raise
    except Exception as error:
        raise Raised(error) from None


class _Watch(MachineWatch):
    """What the class's own code raises is its answer here as well, and no fault of ours."""

    async def look(self) -> list[News]:
        try:
            return await super().look()
        except WakefulError:
            raise
        except Exception as error:
            raise Raised(error) from None


async def watch(ask: Ask) -> Answer | None:
    """Its snapshots and the events that it emits, as server-sent events; first of all how it stands."""
    id = object_of(ask)
    await _check(ask.node, ask.gate, connection_of(ask), ask.who, id)
    if ask.scope["method"] == "HEAD":
        await only_head(ask)
        return None
    watching = _Watch(ask.deployment, id, ask.who.name)
    first_news = await watching.look()  # what keeps it from being watched is an answer with a status

    async def tell(ends: Ends) -> None:
        while True:
            try:
                news = await unless(ends, watching.wait())
            except NotRunning:
                return
            except Exception as error:
                problem = problem_of(error, ask.path, is_operator=ask.who.may("operate"))
                await put(ask, _frame("problem", problem.body))
                return
            if news is None:
                return
            await put(ask, b"".join(map(_event_frame, news)) or b": still here\n\n")

    first = f"retry: {RETRY_MS}\n: snapshots and events of {id.cls}\n\n".encode()
    await run_stream(ask, first + b"".join(map(_event_frame, first_news)), tell)
    return None


class Telling:
    """The same over a WebSocket, each a text of JSON: `{"kind": "snapshot", …}` or `{"kind": "emitted", …}`."""

    def __init__(self, deployment: "Deployment", id: ObjectId, caller: "Caller") -> None:
        self._watch = _Watch(deployment, id, caller.name)
        self._caller = caller
        self._news: list[News] = []  # yet to be told

    @classmethod
    async def begin(
        cls, deployment: "Deployment", gate: "Gate", connection: "HTTPConnection", caller: "Caller", id: ObjectId
    ) -> "Telling":
        """Before the connection is accepted: what keeps the machine from being watched is an answer with a status."""
        if deployment.node is None:
            raise NotRunning("the app is not running; try again")
        await _check(deployment.node, gate, connection, caller, id)
        made = cls(deployment, id, caller)
        made._news = await made._watch.look()
        return made

    async def tell(self, gate: "Gate", stops: "Stops", protocol: str, receive: "Receive", send: "Send") -> None:
        """Until client, token, node or server go."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        stopped: asyncio.Future[None] = loop.create_future()
        said = asyncio.ensure_future(_listen(receive))
        code, reason = RESTARTING, "the server is restarting"
        try:
            await send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})
            with gate.lasting(self._caller, partial(_done, over)), stops.lasting(partial(_done, stopped)):
                await self._all({said, over, stopped}, send)
            if stopped.done():
                pass
            elif over.done():
                code, reason = REFUSED, "the token is over; connect with another"
            elif said.result():
                code, reason = UNSUPPORTED, "this socket only tells; POST an event to the object's send instead"
            else:
                return  # the client has gone
        except (TimeoutError, OSError):
            return  # nobody reads any more; the server lets go of the connection
        except NotRunning:
            pass
        except Exception as error:
            body = problem_of(error, "").body
            code, reason = FAILED, f"{body['code']}: {body['detail']}"
        finally:
            said.cancel()
        await send({"type": "websocket.close", "code": code, "reason": _cut(reason)})

    async def _all(self, ends: Ends, send: "Send") -> None:
        while True:
            for one in self._news:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "websocket.send", "text": json_bytes(_message(one)).decode()})
            news = await unless(ends, self._watch.wait())
            if news is None:
                return
            self._news = news


async def _check(node: "Node", gate: "Gate", connection: "HTTPConnection", who: "Caller", id: ObjectId) -> None:
    """`Problem` when there is nothing to watch; who may not ask for its snapshot may not watch it either."""
    if id.cls not in feature_of(node).classes:
        raise Problem(404, "machine.class", f"{id.cls} is no Machine, so there is nothing to watch")
    await gate.check_exposed(connection, who, id.cls, id.key, "snapshot")


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _listen(receive: "Receive") -> bool:
    """Until the client has gone (False), or said something, which nobody here listens to (True)."""
    return bool((await receive())["type"] != "websocket.disconnect")


def _message(news: News) -> dict[str, Any]:
    if isinstance(news, Snapshot):
        return {"kind": "snapshot", "snapshot": plain_snapshot(news)}
    return {"kind": "emitted", "event": plain(news)}


def plain_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot in JSON, instants as text."""
    found: dict[str, Any] = plain(snapshot)
    return {name: value for name, value in found.items() if name != "$type"}


def _event_frame(news: News) -> bytes:
    message = _message(news)
    return _frame(message["kind"], message.get("snapshot", message.get("event")))


def _frame(kind: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json_bytes(data))


def _cut(reason: str) -> str:
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
