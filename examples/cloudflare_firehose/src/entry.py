"""A reader of a stream without end: an object that is connected to another server, counts, and connects again by its alarm."""

import json
import time

from js import WebSocket
from workers import DurableObject, Response, WorkerEntrypoint

LOOK_MS = 30_000
KEEP_EVERY = 100  # events: what was counted since is lost when the process ends


class Reader(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.socket = None
        self.counts = {}

        async def load():
            self.counts = (await ctx.storage.get("counts") or {}).copy()

        ctx.blockConcurrencyWhile(load)

    async def start(self):
        await self.ctx.storage.setAlarm(int(time.time() * 1000) + LOOK_MS)
        if self.socket is None:
            cursor = await self.ctx.storage.get("cursor")
            self.socket = WebSocket.new(self.env.SOURCE + ("" if cursor is None else f"&cursor={cursor}"))
            self.socket.addEventListener("message", self.hear)
            self.socket.addEventListener("close", self.lose)

    async def hear(self, event):
        post = json.loads(event.data)
        kind = post.get("kind", "?")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if sum(self.counts.values()) % KEEP_EVERY == 0:
            await self.ctx.storage.put({"counts": self.counts, "cursor": post["time_us"]})

    def lose(self, event):
        self.socket = None

    async def alarm(self):
        """Whatever happened: be connected, and look again."""
        await self.start()

    async def stop(self):
        await self.ctx.storage.deleteAlarm()
        await self.ctx.storage.put("counts", self.counts)
        if self.socket is not None:
            self.socket.close(1000)

    async def seen(self):
        return {"counts": self.counts, "is_connected": self.socket is not None}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        reader = self.env.READER.getByName("one")
        if request.method == "POST":
            await (reader.stop() if request.url.endswith("/stop") else reader.start())
        return Response.json(await reader.seen())
