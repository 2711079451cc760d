"""A Worker for Cloudflare, unchanged: one object with many events, once or again and again, and one alarm for all.

wakeful dev --workers examples/cloudflare_events
curl -d '{"id": "tea", "in": 5000, "every": 5000}' http://127.0.0.1:8787/bob
"""

import time
from urllib.parse import urlparse

from workers import DurableObject, Response, WorkerEntrypoint


def now():
    return int(time.time() * 1000)


class Agent(DurableObject):
    async def plan(self, id, run_at, repeat_ms=None):
        await self.ctx.storage.put(f"event:{id}", {"id": id, "runAt": run_at, "repeatMs": repeat_ms})
        alarm = await self.ctx.storage.getAlarm()
        if alarm is None or run_at < alarm:
            await self.ctx.storage.setAlarm(run_at)

    async def drop(self, id):
        return await self.ctx.storage.delete(f"event:{id}")

    async def done(self):
        return await self.ctx.storage.get("done") or []

    async def alarm(self):
        at = now()
        upcoming = []
        for key, event in (await self.ctx.storage.list({"prefix": "event:"})).items():
            if event.runAt <= at:
                await self.handle(event)
                if event.repeatMs:
                    event.runAt = at + event.repeatMs
                    await self.ctx.storage.put(key, event)
                else:
                    await self.ctx.storage.delete(key)
            if event.runAt > at:
                upcoming.append(event.runAt)
        if upcoming:
            await self.ctx.storage.setAlarm(min(upcoming))

    async def handle(self, event):
        await self.ctx.storage.put("done", [*await self.done(), event["id"]])


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        agent = self.env.AGENTS.getByName(urlparse(request.url).path.strip("/") or "nobody")
        if request.method == "POST":
            asked = await request.json()
            await agent.plan(asked["id"], now() + asked["in"], asked.get("every"))
        return Response.json(await agent.done())
