"""A client of the stream of events that ends when it is told to."""

import asyncio
from typing import Any

import msgspec

from tests.http.http_stage import Stage


class Reader:
    """A client of the stream, by hand: it ends when it is told to."""

    def __init__(self, stage: Stage, path: str = "/v1/events", headers: dict[str, str] | None = None) -> None:
        route, _, query = path.partition("?")
        sent = {"host": "localhost"} | (headers or {})
        self._scope = {
            "type": "http",
            "method": "GET",
            "path": route,
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
        }
        self._stage = stage
        self._gone = asyncio.Event()
        self.status = 0
        self.text = ""
        self.can_write = asyncio.Event()
        self.can_write.set()

    async def __aenter__(self) -> "Reader":
        self._task = asyncio.ensure_future(self._stage.site(self._scope, self._receive, self._send))
        await self._stage.world.settle()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, 10)

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.can_write.wait()
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()

    async def events(self) -> list[tuple[str, str, Any]]:
        """Id, kind and data of each so far."""
        await self._stage.world.settle()
        found = []
        for frame in self.text.split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in frame.splitlines() if not line.startswith(":"))
            if "data" in lines:
                found.append((lines["id"], lines["event"], msgspec.json.decode(lines["data"])))
        return found
