"""The Worker of bench/workers.py; ../worker.js is its twin."""

import time
from urllib.parse import urlsplit

from js import WebSocketPair
from workers import DurableObject, Response, WorkerEntrypoint

fired = [0, 0]  # alarms, and when the last of them ended


class Counter(DurableObject):
    async def fetch(self, request):
        url = urlsplit(request.url)
        act = url.path.rpartition("/")[2]
        if act == "socket":
            client, server = WebSocketPair.new().object_values()
            self.ctx.acceptWebSocket(server)
            return Response(None, status=101, web_socket=client)
        if act == "alarm":
            await self.ctx.storage.setAlarm(int(url.query))
            return Response("set")
        value = (await self.ctx.storage.get("value") or 0) + 1
        await self.ctx.storage.put("value", value)
        return Response(str(value))

    async def webSocketMessage(self, ws, message):  # noqa: N802
        ws.send(message)

    async def alarm(self):
        await self.ctx.storage.put("fired", 1)
        fired[:] = fired[0] + 1, time.time() * 1000


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = urlsplit(request.url).path.split("/")[1]
        if name == "fired":
            return Response.json(fired)
        return await self.env.COUNTERS.getByName(name).fetch(request)
