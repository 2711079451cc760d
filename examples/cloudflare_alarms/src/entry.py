"""A Worker for Cloudflare, unchanged: what comes in within ten seconds is handled together, by an alarm.

wakeful dev --workers examples/cloudflare_alarms
"""

import time

from workers import DurableObject, Response, WorkerEntrypoint

SECONDS = 1000


class Batch(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.storage = ctx.storage

    async def fetch(self, request):
        waiting = await self.storage.get("waiting") or []
        waiting.append(await request.text())
        self.storage.put("waiting", waiting)
        # The first of a batch sets the alarm; those that follow find it set.
        if await self.storage.getAlarm() is None:
            self.storage.setAlarm(int(time.time() * 1000) + 10 * SECONDS)
        return Response.json({"waiting": len(waiting)})

    async def alarm(self, alarm_info):
        if alarm_info.get("retryCount", 0) != 0:
            print(f"tried {alarm_info.get('retryCount')} times before")
        waiting = await self.storage.get("waiting") or []
        if "poison" in waiting and alarm_info["retryCount"] < 2:
            raise ValueError("not today")
        done = await self.storage.get("done") or []
        await self.storage.put({"done": [*done, waiting], "waiting": []})

    async def batches(self):
        return await self.storage.get("done") or []


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        batch = self.env.BATCHES.getByName("all")
        if request.method == "POST":
            return await batch.fetch(request)
        return Response.json(await batch.batches())
