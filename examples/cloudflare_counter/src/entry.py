"""A Worker for Cloudflare, unchanged: counters by name.

wakeful dev --workers examples/cloudflare_counter
curl 'http://127.0.0.1:8787/increment?name=a'
"""

from urllib.parse import parse_qs, urlparse

from workers import DurableObject, Response, WorkerEntrypoint


class Counter(DurableObject):
    async def value(self):
        return await self.ctx.storage.get("value") or 0

    async def increment(self, amount=1):
        value = await self.value() + amount
        # No await is needed here: nobody hears the answer before this is stored.
        self.ctx.storage.put("value", value)
        return value

    async def decrement(self, amount=1):
        return await self.increment(-amount)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        url = urlparse(request.url)
        names = parse_qs(url.query).get("name")
        if not names:
            return Response("choose a counter with ?name=, for example ?name=a", status=400)
        counter = self.env.COUNTERS.getByName(names[0])
        if url.path == "/increment":
            count = await counter.increment()
        elif url.path == "/decrement":
            count = await counter.decrement()
        elif url.path == "/":
            count = await counter.value()
        else:
            return Response("not found", status=404)
        return Response(f"{names[0]}: {count}")
