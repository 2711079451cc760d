"""An agent that wakes itself, and a Flask application that talks to it through the blocking client. Run both:

cd examples && wakeful dev web_flask.py           # the objects, on http://127.0.0.1:7420
cd examples && flask --app web_flask run          # the pages, in as many processes as you like
"""

import os
from datetime import timedelta
from typing import Any

from flask import Flask, Response, jsonify, request

from wakeful import App, Client, DurableObject, Unavailable, WakefulError

app = App()
GIVE_UP = 6  # looks


@app.object
class Agent(DurableObject):
    """Watches something for its owner: looks, thinks, decides when to look again, and sleeps on disk until then."""

    async def start(self, goal: str, wait: float = 60.0) -> None:
        await self.storage.put_many({"goal": goal, "wait": wait, "notes": [], "state": "watching"})
        await self.storage.set_alarm(timedelta(0))

    async def alarm(self) -> None:
        notes: list[str] = await self.storage.get("notes")
        seen = await self.look(len(notes))
        state = "found" if seen == "yes" else "gave up" if len(notes) + 1 == GIVE_UP else "watching"
        if state == "watching":  # less and less often; a crash between here and the end of the turn changes nothing
            await self.storage.set_alarm(timedelta(seconds=await self.storage.get("wait")) * 2 ** len(notes))
        await self.storage.put_many({"notes": [*notes, f"{self.ctx.now():%H:%M:%S} {seen}"], "state": state})

    async def look(self, times: int) -> str:
        # A real one would ask a model or a web page. It runs again if the process dies, so it should only look.
        return "yes" if times == 2 else "not yet"

    async def told(self) -> dict[str, Any]:
        return await self.storage.get_many(["goal", "state", "notes"])


web = Flask(__name__)
client = Client.sync(os.environ.get("WAKEFUL_URL", "http://127.0.0.1:7420"), token=os.environ.get("WAKEFUL_TOKEN"))


@web.post("/agents/<name>")
def start(name: str) -> tuple[Response, int]:
    asked = request.get_json()
    client.get(Agent, name).start(asked["goal"], float(asked.get("wait", 60)))
    return jsonify(started=name), 201


@web.get("/agents/<name>")
def told(name: str) -> Response:
    return jsonify(client.get(Agent, name).told())


@web.errorhandler(WakefulError)
def refused(error: WakefulError) -> tuple[Response, int]:
    return jsonify(error=str(error)), 503 if isinstance(error, Unavailable) else 422
