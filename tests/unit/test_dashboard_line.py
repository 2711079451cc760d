"""What waits to be tried after crashes, as people see it: the page Due, `wakeful why`, `wakeful nodes`, the HTTP API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from wakeful import App, DurableObject
from wakeful.cli.nodes import load_words
from wakeful.cli.why import _put_head
from wakeful.runtime.status import status_of
from wakeful.security.gate import Gate
from wakeful.testing.world import World
from wakeful.values.ids import ObjectId
from wakeful.views.schedules import line_words, show
from wakeful.views.view import View

WHY = "its process died twice while it ran or waited: tried one at a time, behind "


class Mill(DurableObject):
    """Grinds for half a minute."""

    async def open(self, after: str) -> None:
        await self.schedules.add(f"after {after}", "grind", name="grinding")

    async def grind(self) -> None:
        await asyncio.sleep(30)


@asynccontextmanager
async def twice_dead() -> AsyncIterator[tuple[World, httpx.AsyncClient]]:
    """Three schedules that two processes died of; one of them is being tried."""
    app = App()
    mill = app.object(type("Mill", (Mill,), {}))
    site = app.asgi(gate=Gate(app.deployment))
    async with app.world(start="2026-01-01T00:00:00+00:00") as world:
        for number, key in enumerate(("a", "b", "c")):
            await world.get(mill, key).open(f"{number + 1}s")
        for _ in range(2):
            await world.advance(seconds=10)
            await world.crash()
            await world.restart()
        await world.advance(seconds=10)
        transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield world, client


async def test_the_page_due_says_running_of_the_one_that_runs_and_why_the_others_wait() -> None:
    async with twice_dead() as (_, client):
        page = (await client.get("/")).text
        assert page.count(f"{WHY}Mill/a schedule grinding") == 2
        running, overdue = page.index("Running</th"), page.index("Overdue</th")
        assert running < overdue
        assert page[running:overdue].count("<tr data-id=") == 1
        assert page[running:].count("<tr data-id=") == 3
        rows = (await client.get("/v1/due")).json()["rows"]
        assert [(row["key"], row["is_running"]) for row in rows] == [("a", True), ("b", False), ("c", False)]


async def test_why_and_nodes_say_who_waits_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with twice_dead() as (world, client):
        view, id = View.of_node(world.node), ObjectId("Mill", "b")
        assert (await show(view, id, "grinding"))["held_by"] == f"{WHY}another"
        assert (await show(view, ObjectId("Mill", "a"), "grinding"))["held_by"] is None
        _put_head(id, "grinding", None, view.now(), await line_words(view, id, "grinding", is_named=True))
        assert f"what is due waits: {WHY}Mill/a schedule grinding" in " ".join(capsys.readouterr().out.split())
        words = load_words(status_of(world.node))
        assert words.endswith("1 timer running, 2 in line behind Mill/a schedule grinding")
        answer: dict[str, Any] = (await client.get("/v1/objects/Mill/b/schedules/grinding/why")).json()
        assert answer["held_by"] == f"{WHY}another"
