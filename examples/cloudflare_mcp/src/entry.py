"""A server of the Model Context Protocol over server-sent events: each session is an object with a stream to its client."""

import asyncio
import json
from urllib.parse import parse_qs, urlsplit

from js import crypto
from workers import DurableObject, Response, WorkerEntrypoint

TOOLS = [
    {
        "name": "remember",
        "description": "Keep a note for this session",
        "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
    },
    {"name": "recall", "description": "All notes of this session", "inputSchema": {"type": "object"}},
]


class Session(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.outgoing = asyncio.Queue()

    async def fetch(self, request):
        """The stream of the session: first where to post messages, then the answers to them."""
        endpoint = f"/messages?session={parse_qs(urlsplit(request.url).query)['session'][0]}"
        return Response(self.events(endpoint), headers={"content-type": "text/event-stream"})

    async def events(self, endpoint):
        yield f"event: endpoint\ndata: {endpoint}\n\n"
        while True:
            yield f"event: message\ndata: {json.dumps(await self.outgoing.get())}\n\n"

    async def take(self, message):
        """One message of JSON-RPC; notifications have no id and get no answer."""
        try:
            answer = {"result": await self.answer(message["method"], message.get("params") or {})}
        except LookupError as error:
            answer = {"error": {"code": -32601, "message": f"there is no {error}"}}
        if "id" in message:
            self.outgoing.put_nowait({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def answer(self, method, params):
        if method == "initialize":
            about = {"serverInfo": {"name": "notes", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": params["protocolVersion"], **about}
        if method == "tools/list":
            return {"tools": TOOLS}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": await self.call(**params)}]}
        if method in ("ping", "notifications/initialized"):
            return {}
        raise LookupError(method)

    async def call(self, name, arguments=None):
        notes = await self.ctx.storage.get("notes") or []
        if name == "remember":
            await self.ctx.storage.put("notes", [*notes, arguments["note"]])
            return "kept"
        if name == "recall":
            return "\n".join(notes) or "nothing yet"
        raise LookupError(name)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        url = urlsplit(request.url)
        if url.path == "/sse":
            session = crypto.randomUUID()
            return await self.env.SESSIONS.getByName(session).fetch(f"http://session/?session={session}")
        if url.path == "/messages" and request.method == "POST":
            session = self.env.SESSIONS.getByName(parse_qs(url.query)["session"][0])
            await session.take(await request.json())
            return Response("accepted", status=202)
        return Response("GET /sse begins a session", status=404)
