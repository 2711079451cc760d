"""Layer 5. How does a client's WebSocket reach an object of a Worker?

The Worker's `fetch` answers the request like any other. If the answer carries an end of a pair that an object has
accepted, the connection is made with that object; else the answer is the refusal.
"""

from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.ends import ClientEnd
from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.host import INSIDE
from wakeful.compat.workers.site import Receive, Scope, Send, answer, request_in
from wakeful.compat.workers.web import Response
from wakeful.http import sockets as wires
from wakeful.http.stops import Stops
from wakeful.sockets.feature import feature_of
from wakeful.sockets.request import Request as SocketRequest
from wakeful.values.codec import encode

if TYPE_CHECKING:
    from wakeful.compat.workers.worker import Worker


async def carry(worker: "Worker", stops: Stops, scope: Scope, receive: Receive, send: Send) -> None:
    """The whole life of one socket, from the request on."""
    if (await receive())["type"] != "websocket.connect":
        return
    request = request_in(scope, b"")
    request.headers.set("upgrade", "websocket")
    response = await answer(worker, request)
    end = response.web_socket
    if not isinstance(end, ClientEnd):
        await _refuse(scope, send, response)
        return
    node = worker.app.node
    if node is None:
        raise JsException("the Worker is not running")
    wire = wires._Wire(scope, send)
    gateway = feature_of(node).gateway
    pair = {"pair": encode(end.data).hex()}
    held, _ = await gateway.connect(end.target, SocketRequest(headers=pair, caller=INSIDE), wire)
    protocol = response.headers.get("sec-websocket-protocol") or ""
    await wires.carry(gateway, held, stops, protocol, wire, receive, send)


async def _refuse(scope: Scope, send: Send, response: Response) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    headers: list[Any] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": response._take()})
