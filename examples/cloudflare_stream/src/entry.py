"""Server-sent events: an object answers word by word, and whoever asks later reads what was said so far."""

import asyncio
import json

from workers import DurableObject, Response, WorkerEntrypoint

WORDS = ["streams", "leave", "chunk", "by", "chunk", "and", "stop", "when", "nobody", "reads", "them", "any", "more"]


class Model(DurableObject):
    async def fetch(self, request):
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        return Response(self.words(), headers=headers)

    async def words(self):
        said = await self.ctx.storage.get("said") or []
        for word in said:
            yield event(word)
        for word in WORDS[len(said) :]:
            await asyncio.sleep(0.5)  # as long as a model takes for a word
            said = [*said, word]
            await self.ctx.storage.put("said", said)  # kept before it is heard
            yield event(word)
        yield "event: done\ndata: {}\n\n"


def event(word):
    return f"data: {json.dumps({'word': word})}\n\n"


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = request.url.rpartition("/")[2]
        if not name:
            return Response("ask with a name: curl -N http://127.0.0.1:8787/bob\n")
        return await self.env.MODELS.getByName(name).fetch(request)
