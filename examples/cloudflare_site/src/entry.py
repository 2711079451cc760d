"""Static pages with some code before them: an API, and pages that only members see."""

from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        """Pages are answered without this, but for what `run_worker_first` names."""
        path = urlsplit(request.url).path
        if path == "/api/greeting":
            return Response.json({"greeting": "hello", "to": request.headers.get("cf-connecting-ip") or "somebody"})
        if path.startswith("/members/"):
            if request.headers.get("authorization") != f"Bearer {self.env.PASSWORD}":
                return Response("members only", status=401, headers={"www-authenticate": "Bearer"})
            page = await self.env.ASSETS.fetch(request)
            text = (await page.text()).replace("{{who}}", "member")
            return Response(text, status=page.status, headers={"content-type": "text/html", "cache-control": "private"})
        if path.startswith("/api/"):
            return Response("no such part of the API", status=404)
        return await self.env.ASSETS.fetch(request)  # the page for what is not there
