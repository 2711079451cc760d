"""A door that is watched from outside: the program, and the client's end of a WebSocket."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import msgspec

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage
from wakeful import App, DurableObject, Machine, assign
from wakeful.machines.snapshot import Snapshot
from wakeful.values.json_patch import apply

PATH = "/v1/objects/Door/front/watch"
PATH_OF = "/v1/objects/Door/front/"


def make_app() -> App:
    app = App()

    @app.object
    class Door(Machine):
        chart = {
            "initial": "shut",
            "context": {"code": 1234, "opened": 0},
            "states": {
                "shut": {
                    "on": {
                        "OPEN": {"target": "open", "actions": ["count", {"type": "emit", "event": {"type": "creak"}}]}
                    }
                },
                "open": {"after": {"10s": "shut"}},
            },
        }

        @assign
        def count(self, context: Any, event: Any) -> Any:
            return {"opened": context["opened"] + 1}

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            if caller == "token:stranger":
                return None
            if caller in ("token:owner", "local"):
                return snapshot
            return replace(snapshot, context={"opened": snapshot.context.get("opened")})

        def audible(self, caller: Any, event: dict[str, Any]) -> dict[str, Any] | None:
            return event if caller in ("token:owner", "local") else None

    @app.object
    class Plain(DurableObject):
        async def hello(self) -> str:
            return "hello"

    return app


def told(reader: Reader) -> list[tuple[str, Any]]:
    """Kind and data of each frame so far."""
    found = []
    for frame in reader.text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in frame.splitlines() if not line.startswith(":"))
        if "data" in lines:
            found.append((lines["event"], msgspec.json.decode(lines["data"])))
    return found


def short(news: tuple[str, Any]) -> Any:
    kind, data = news
    return (data["value"], data["context"]) if kind == "snapshot" else (kind, data)


async def send(stage: Stage, event: str, **options: Any) -> Any:
    answer = await stage.ask("POST", f"{PATH_OF}send", json=[event], **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def state_of(messages: list[dict[str, Any]]) -> Any:
    """What a client that applies patches knows in the end; each must lead on from where it was."""
    state, at = None, 0
    for one in messages:
        if one["kind"] == "snapshot":
            state, at = one["snapshot"], one["to"]
        elif one["kind"] == "patch":
            assert one["from"] == at
            state, at = apply(state, one["patch"]), one["to"]
    return state


class Socket:
    """A client's end of a WebSocket, by hand."""

    def __init__(self, stage: Stage, path: str = PATH, *, query: str = "", **headers: str) -> None:
        sent = {"host": "localhost"} | headers
        self._scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self._stage = stage
        self._says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []

    async def __aenter__(self) -> "Socket":
        self.say({"type": "websocket.connect"})
        self._task = asyncio.ensure_future(self._stage.site(self._scope, self._says.get, self._send))
        await self._stage.world.settle()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.say({"type": "websocket.disconnect", "code": 1000})
        await asyncio.wait_for(self._task, 10)

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    def say(self, message: dict[str, Any]) -> None:
        self._says.put_nowait(message)

    async def send(self, id: int | str, event: Any, **more: Any) -> Any:
        """Send an event; the answer to it."""
        self.say({"type": "websocket.receive", "text": json.dumps({"id": id, "send": event, **more})})
        await self._stage.world.settle()
        answers = [one for one in self.texts if one["kind"] in ("accepted", "refused") and one["id"] == id]
        return answers[-1] if answers else None

    @property
    def end(self) -> tuple[int, str] | None:
        """With what the server closed it."""
        last = self.sent[-1]
        return (last["code"], last["reason"]) if last["type"] == "websocket.close" else None

    @property
    def texts(self) -> list[Any]:
        return [json.loads(one["text"]) for one in self.sent if one["type"] == "websocket.send"]
