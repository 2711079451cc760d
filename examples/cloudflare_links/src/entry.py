"""A Worker for Cloudflare, unchanged: short links in KV, visits over a queue into D1, a page among the assets.

wakeful dev --workers examples/cloudflare_links
curl -d https://example.com/ http://127.0.0.1:8787/docs
curl -i http://127.0.0.1:8787/docs; sleep 3; curl http://127.0.0.1:8787/docs/visits
"""

from urllib.parse import urlparse

from workers import Response, WorkerEntrypoint

DAY_S = 86_400


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name, _, what = urlparse(request.url).path.strip("/").partition("/")
        if request.method == "POST":
            await self.env.LINKS.put(name, await request.text(), expirationTtl=DAY_S)
            return Response(f"/{name}\n", status=201)
        if what == "visits":
            count = self.env.DB.prepare("SELECT count FROM visits WHERE name = ?").bind(name)
            return Response.json({"visits": await count.first("count") or 0})
        url = await self.env.LINKS.get(name)
        if url is None:
            return Response("no such link\n", status=404)
        await self.env.VISITS.send({"name": name})
        return Response.redirect(url)

    async def queue(self, batch):
        add = self.env.DB.prepare(
            "INSERT INTO visits (name, count) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET count = count + 1"
        )
        await self.env.DB.batch([add.bind(message.body["name"]) for message in batch.messages])
