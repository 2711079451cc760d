"""Requests are counted by few labels, and belong to the trace that they came with."""

from typing import Any

import httpx
import pytest

from tests.telemetry.spans_seen import Watch
from wakeful import App, DurableObject
from wakeful.telemetry.web import Measured, route_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("path", "root", "route"),
    [
        ("/v1/objects/Cell/a/work", "", "/v1/objects"),
        ("/wakeful/v1/jobs", "/wakeful", "/v1/jobs"),
        ("/v1/nonsense", "", "other"),
        ("/v1", "", "other"),
        ("/metrics", "", "/metrics"),
        ("/", "", "/"),
        ("/etc/passwd", "", "other"),
    ],
)
def test_few_routes_whatever_is_asked(path: str, root: str, route: str) -> None:
    assert route_of({"path": path, "root_path": root}) == route


async def test_requests_are_counted_and_traced() -> None:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def work(self) -> None:
            await self.storage.put("n", 1)

    seen = Watch(app, ratio=0.0)  # what comes with a decision is recorded all the same

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/v1/events":
            raise ConnectionError("on purpose")
        await app.get(Cell, "a").work()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with app.world() as world:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(Measured(inner, app.deployment)), base_url="http://x")
        async with client:
            await client.post("/v1/objects/Cell/a/work", headers={"traceparent": PARENT})
            await client.post("/v1/objects/Cell/a/work")
            with pytest.raises(ConnectionError):
                await client.request("BREW", "/v1/events")
        meter = world.node.meter
        assert {labels: one.value for labels, one in meter.http.items()} == {
            ("POST", "/v1/objects", "201"): 2, ("other", "/v1/events", "499"): 1,
        }  # fmt: skip
        assert meter.http_open.value == 0
        assert meter.http_durations.of("/v1/objects").count == 2
    assert [one.name for one in seen.all()] == ["turn Cell.work", "commit", "call Cell.work"]
    assert {f"{one.trace:032x}" for one in seen.all()} == {PARENT[3:35]}
