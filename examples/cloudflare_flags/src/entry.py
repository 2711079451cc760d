"""Feature flags in a KV namespace: some for good, some for an hour, found by prefix and by who set them."""

from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        """`GET /USER` for all flags of somebody, `PUT` and `DELETE /USER/FLAG`, with `?for=SECONDS`."""
        url = urlsplit(request.url)
        user, _, flag = url.path.strip("/").partition("/")
        flags, key = self.env.FLAGS, f"{user}:{flag}"
        if request.method == "PUT" and flag:
            lasts = parse_qs(url.query).get("for")
            by = request.headers.get("x-by") or "nobody"
            value = await request.text()
            await flags.put(key, value, metadata={"by": by}, expirationTtl=int(lasts[0]) if lasts else None)
            return Response(None, HTTPStatus.NO_CONTENT)
        if request.method == "DELETE" and flag:
            await flags.delete(key)
            return Response(None, HTTPStatus.NO_CONTENT)
        if request.method != "GET":
            return Response("GET, PUT, DELETE", HTTPStatus.METHOD_NOT_ALLOWED)
        if flag:
            found = await flags.getWithMetadata(key)
            if found.value is None:
                return Response("no such flag", HTTPStatus.NOT_FOUND)
            return Response.json({"value": found.value, "by": found.metadata["by"]})
        listed = await flags.list(prefix=f"{user}:")
        names = [one.name for one in listed.keys]
        values = await flags.get(names) if names else {}
        return Response.json(self.env.DEFAULT_FLAGS.to_py() | {name.partition(":")[2]: values[name] for name in names})
