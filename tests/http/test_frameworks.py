"""The examples for web frameworks, with requests to the applications as they are."""

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.urls import clear_url_caches
from django.utils.functional import empty

from tests.http.client_stage import in_thread
from wakeful.server import serving
from wakeful.testing import World

EXAMPLES = Path(__file__).parents[2] / "examples"
START = "2026-03-27T12:00:00+00:00"


def loaded(name: str) -> Any:
    """The example as a module of its own name, made anew: an App runs once at a time."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    clear_url_caches()
    settings._wrapped = empty  # another test may have given this process those of another program
    spec.loader.exec_module(module)
    return module


class Patient(httpx.ASGITransport):
    """Lets no virtual time pass during a request: frameworks do part of it on threads, which take real time."""

    world: World

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with self.world.warp.outside():
            return await super().handle_async_request(request)


@asynccontextmanager
async def opened(module: Any) -> AsyncIterator[tuple[World, httpx.AsyncClient]]:
    """The application in virtual time."""
    transport = Patient(module.web)
    async with (
        module.app.world(start=START) as transport.world,
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield transport.world, client


async def test_fastapi_reminders() -> None:
    async with opened(loaded("web_fastapi")) as (world, client):
        path = "/people/bob/reminders"
        tea = (await client.post(path, json={"text": "tea", "at": "2026-03-27T13:00:00Z"})).json()["name"]
        call = (await client.post(path, json={"text": "call", "at": "2026-03-30T09:00:00+02:00"})).json()["name"]
        assert (await client.post(path, json={"text": "when?", "at": "2026-03-27T13:00:00"})).status_code == 422
        assert (await client.get(path)).json() == {"waiting": sorted([tea, call]), "delivered": []}
        await world.advance(hours=2)
        assert (await client.get(path)).json() == {"waiting": [call], "delivered": ["tea"]}
        assert [(await client.delete(f"{path}/{call}")).status_code for _ in range(2)] == [204, 404]
        await world.advance(days=5)
        assert (await client.get(path)).json() == {"waiting": [], "delivered": ["tea"]}
        rows = (await client.get("/durable/v1/objects?class=Reminders")).json()["rows"]
        assert [row["key"] for row in rows] == ["bob"]


async def test_starlette_cron_per_tenant() -> None:
    async with opened(loaded("web_starlette")) as (world, client):
        job = {"when": "every weekday at 9am", "zone": "Asia/Tokyo", "url": "https://acme.example/report"}
        made = (await client.put("/tenants/acme/jobs/report", json=job)).json()
        assert made["next"].startswith("2026-03-30T00:0")  # nine in Tokyo, and at most two minutes
        sweep = job | {"when": "*/30 * * * *"}
        assert (await client.put("/tenants/globex/jobs/sweep", json=sweep)).status_code == 200
        wrong = await client.put("/tenants/acme/jobs/x", json=job | {"when": "61 * * * *"})
        assert (wrong.status_code, "61" in wrong.json()["error"]) == (422, True)
        await world.advance(days=3)
        assert (await client.post("/tenants/globex/jobs/sweep/pause")).status_code == 200
        before = (await client.get("/tenants/globex/jobs")).json()[0]["runs"]
        await world.advance(days=2)
        assert (await client.get("/tenants/acme/jobs")).json() == [{"name": "report", "state": "active", "runs": 3}]
        [swept] = (await client.get("/tenants/globex/jobs")).json()
        assert swept == {"name": "sweep", "state": "paused", "runs": before}
        assert before == 144
        for path in ("none/resume", "sweep/frobnicate"):
            assert (await client.post(f"/tenants/globex/jobs/{path}")).status_code == 404
        plain = {"when": "@daily", "url": "https://acme.example/x"}
        words = (await client.put("/tenants/acme/jobs/x", json=plain)).json()["words"]
        assert words.startswith("at 00:00 every day, UTC, spread over 2 minutes")


async def test_django_order_with_a_statechart() -> None:
    async with opened(loaded("web_django")) as (world, client):
        for order in ("o-1", "o-2"):
            assert (await client.post(f"/orders/{order}/place")).json()["state"] == "placed"
        assert (await client.get("/orders/o-3")).status_code == 404
        refused = await client.post("/orders/o-1/PAY?amount=5")
        assert (refused.status_code, refused.json()["error"]) == (409, "PAY is not for an order that is placed")
        await world.advance(hours=13)
        assert (await client.post("/orders/o-1/PAY?amount=40")).json() == {
            "order": "o-1",
            "state": "paid",
            "reminded": 1,
        }
        await world.advance(hours=12)
        assert (await client.get("/orders/o-2")).json() == {"order": "o-2", "state": "expired", "reminded": 1}
        assert (await client.get("/orders/o-1")).json()["state"] == "paid"
        assert (await client.get("/durable/v1/objects/Order/o-1/chart.svg")).text.startswith("<svg")


async def test_flask_agent_that_wakes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a real server, in real time: the waits are milliseconds."""

    def work(module: Any) -> None:
        with module.client:
            pages = module.web.test_client()
            asked = {"goal": "tickets for Sunday", "wait": 0.01}
            assert pages.post("/agents/ann", json=asked).status_code == 201
            for event in module.client.events(
                "run"
            ):  # of the agent's looks; those before the stream began are in told()
                if event["key"] == "ann" and pages.get("/agents/ann").json["state"] != "watching":
                    break
            told = pages.get("/agents/ann").json
            assert (told["goal"], told["state"]) == ("tickets for Sunday", "found")
            assert [note.partition(" ")[2] for note in told["notes"]] == ["not yet", "not yet", "yes"]
            refused = pages.get(f"/agents/{'n' * 600}")
            assert (refused.status_code, "[name.key]" in refused.json["error"]) == (422, True)
        assert pages.get("/agents/ann").status_code == 503  # the client is closed

    scratch = loaded("web_flask")
    async with scratch.app.run("memory:") as node, serving(scratch.app, node, "127.0.0.1:0") as place:
        monkeypatch.setenv("WAKEFUL_URL", place.url)
        module = loaded("web_flask")  # another process in real life: it runs no objects itself
        await in_thread(lambda: work(module))


@pytest.mark.parametrize("name", ["web_fastapi", "web_starlette", "web_django"])
async def test_the_one_line_is_enough(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a server does: it begins the lifespan, sends requests, ends it; and what was written is there the next time."""
    monkeypatch.setenv("WAKEFUL_STORE", f"sqlite:{tmp_path / 'app.db'}")
    paths = {
        "web_fastapi": ("POST", "/people/bob/reminders", {"text": "x", "at": "2099-01-01T00:00:00Z"}),
        "web_starlette": ("PUT", "/tenants/a/jobs/b", {"when": "@daily", "zone": "UTC", "url": "u"}),
        "web_django": ("POST", "/orders/o/place", {}),
    }
    for count in range(2):
        module = loaded(name)
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        said: asyncio.Queue[Any] = asyncio.Queue()
        life = asyncio.ensure_future(module.web({"type": "lifespan", "state": {}}, inbox.get, said.put))
        await inbox.put({"type": "lifespan.startup"})
        assert (await asyncio.wait_for(said.get(), 20))["type"] == "lifespan.startup.complete"
        async with httpx.AsyncClient(transport=httpx.ASGITransport(module.web), base_url="http://localhost") as client:
            rows = (await client.get("/durable/v1/objects")).json()["rows"]
            assert len(rows) == count
            method, path, body = paths[name]
            expected = (409,) if count and name == "web_django" else (200, 201)  # an order is placed once
            assert (await client.request(method, path, json=body)).status_code in expected
        await inbox.put({"type": "lifespan.shutdown"})
        assert (await asyncio.wait_for(said.get(), 20))["type"] == "lifespan.shutdown.complete"
        await life
