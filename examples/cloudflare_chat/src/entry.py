"""Chat rooms: sockets that outlive the sleep of their object, the last lines for who comes, and silent clients sent away."""

import json
import time
from urllib.parse import parse_qs, urlsplit

from js import WebSocketPair, WebSocketRequestResponsePair
from workers import DurableObject, Response, WorkerEntrypoint

SILENT_MS = 60_000


class Room(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS lines (n INTEGER PRIMARY KEY, name TEXT, text TEXT)")

    async def fetch(self, request):
        name = parse_qs(urlsplit(request.url).query).get("name", ["somebody"])[0]
        client, server = WebSocketPair.new().object_values()
        self.ctx.acceptWebSocket(server, [name])
        server.serializeAttachment({"name": name, "since": now()})
        for row in self.ctx.storage.sql.exec("SELECT name, text FROM lines ORDER BY n DESC LIMIT 20").toArray()[::-1]:
            server.send(json.dumps({"from": row.name, "text": row.text}))
        self.say({"joined": name}, but=server)
        if await self.ctx.storage.getAlarm() is None:
            await self.ctx.storage.setAlarm(now() + SILENT_MS)
        return Response(None, status=101, web_socket=client)

    async def webSocketMessage(self, ws, message):  # noqa: N802
        name = ws.deserializeAttachment()["name"]
        self.ctx.storage.sql.exec("INSERT INTO lines (name, text) VALUES (?, ?)", name, message)
        self.say({"from": name, "text": message})

    async def webSocketClose(self, ws, code, reason, was_clean):  # noqa: N802
        self.say({"left": ws.deserializeAttachment()["name"]}, but=ws)

    async def webSocketError(self, ws, error):  # noqa: N802
        self.say({"left": ws.deserializeAttachment()["name"], "why": str(error)}, but=ws)

    async def alarm(self):
        """Clients say "ping" now and then, which is answered without waking this; who has not for a minute is gone."""
        sockets = self.ctx.getWebSockets()
        for ws in sockets:
            answered = self.ctx.getWebSocketAutoResponseTimestamp(ws)
            heard = answered.getTime() if answered else ws.deserializeAttachment()["since"]
            if now() - heard >= SILENT_MS:
                ws.close(4008, "not heard of for a minute")
        if sockets:
            await self.ctx.storage.setAlarm(now() + SILENT_MS)

    def say(self, what, but=None):
        for ws in self.ctx.getWebSockets():
            if ws is not but and ws.readyState == ws.OPEN:
                ws.send(json.dumps(what))


def now():
    return int(time.time() * 1000)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        room = urlsplit(request.url).path.strip("/") or "lobby"
        if request.headers.get("upgrade") != "websocket":
            return Response(f"connect a WebSocket to /{room}?name=you", status=426)
        return await self.env.ROOMS.getByName(room).fetch(request)
