"""A rate limiter: each client's address has a bucket of tokens, and one that has been full for long is forgotten."""

import math
import time

from workers import DurableObject, Response, WorkerEntrypoint


class Bucket(DurableObject):
    async def take(self):
        """None when there was a token, else the seconds until there is one."""
        capacity, per_s = self.env.CAPACITY, self.env.PER_SECOND
        now = time.time()
        tokens, at = await self.ctx.storage.get("bucket") or (capacity, now)
        tokens = min(capacity, tokens + (now - at) * per_s)
        if tokens < 1:
            return (1 - tokens) / per_s
        await self.ctx.storage.put("bucket", (tokens - 1, now))
        await self.ctx.storage.setAlarm(int((now + capacity / per_s) * 1000) + 1_000)  # then it is full again
        return None

    async def alarm(self):
        await self.ctx.storage.deleteAll()


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        address = request.headers.get("CF-Connecting-IP")
        if address is None:
            return Response("who are you?", status=400)
        wait_s = await self.env.BUCKETS.getByName(address).take()
        if wait_s is not None:
            return Response("too fast\n", status=429, headers={"retry-after": str(math.ceil(wait_s))})
        return Response("here you are\n")
