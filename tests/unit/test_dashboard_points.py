"""The page of an object's history: points, what each changed, and going back to one after a look at what that undoes."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import httpx

from tests.unit.dashboard_stage import Stage
from wakeful import App, DurableObject
from wakeful.dashboard.points import ROWS
from wakeful.security.gate import Gate


class Shelf(DurableObject):
    history = "30d"

    async def put(self, key: str) -> None:
        await self.storage.put(key, 1)

    async def ring(self) -> None:
        await self.storage.set_alarm(4_000_000_000_000)

    async def alarm(self) -> None: ...


class Box(DurableObject):
    async def put(self, key: str) -> None:
        await self.storage.put(key, 1)


@asynccontextmanager
async def library() -> AsyncIterator[Stage]:
    app = App()
    app.object(Shelf)
    app.object(Box)
    gate = Gate(app.deployment)
    site = app.asgi(gate=gate)
    async with app.world() as world:
        for key in ("a", "<b>"):
            await world.get(Shelf, "eu/oak").put(key)
        await world.get(Shelf, "eu/oak").ring()
        await world.get(Box, "plain").put("x")
        await world.sleep_all()
        transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield Stage(app, world, client, gate)


def path_of(**query: object) -> str:
    return f"/points?{urlencode({'class': 'Shelf', 'key': 'eu/oak', **query})}"


async def marks(stage: Stage) -> list[str]:
    return re.findall(r'data-id="point-([^"]+)"', await stage.text(path_of()))


async def rows(stage: Stage) -> set[str]:
    return set(await stage.world.rows(Shelf, "eu/oak"))


async def test_it_lists_points_the_object_leads_to_it_and_nobody_wakes() -> None:
    async with library() as stage:
        assert html.escape(path_of()) in await stage.text("/object?class=Shelf&key=eu%2Foak")
        assert "/points" not in await stage.text("/object?class=Box&key=plain")
        assert "There is no history" in await stage.text("/points?class=Box&key=plain")
        text = await stage.text(path_of())
        assert [part for part in ("&lt;b&gt;", "alarm", "back to here") if part not in text] == []
        assert len(await marks(stage)) == 3
        await stage.text("/points?class=Shelf&key=none", 404)
        assert list(stage.world.node.awake) == []


async def test_going_back_says_first_what_it_undoes_and_then_does_it_with_a_row() -> None:
    async with library() as stage:
        first = (await marks(stage))[-1]
        text = await stage.text(path_of(to=first))
        assert "2 commits would be undone" in text
        assert await rows(stage) == {"a", "<b>"}
        form = {"class": "Shelf", "key": "eu/oak", "to": first}
        answer = await stage.post("/points/restore", **form)
        assert (answer.status_code, "said=restored" in answer.headers["location"]) == (303, True)
        assert await rows(stage) == {"a"}
        assert len(await stage.world.due()) == 1  # not ticked: timers stay
        points = await marks(stage)
        await stage.post("/points/restore", **(form | {"to": points[1], "timers": "yes"}))
        assert await rows(stage) == {"a", "<b>"}
        audit = await stage.text("/audit")
        assert "history.restore" in audit
        assert "Nothing has changed since" in await stage.text(path_of(to=(await marks(stage))[0]))
        await stage.text(path_of(to="2999-01-01T00:00Z"), 404)


async def test_who_only_reads_sees_no_button_and_others_see_nothing() -> None:
    async with library() as stage:
        await stage.login(await stage.token("reads", "read"))
        first = (await marks(stage))[-1]
        text = await stage.text(path_of(to=first))
        assert ("would be undone" in text, "/points/restore" in text) == (True, False)
        assert (await stage.post("/points/restore", to=first, key="eu/oak", **{"class": "Shelf"})).status_code == 403
        await stage.login(await stage.token("us", "operate", tenant="us/"))
        assert (await stage.client.get(path_of())).status_code in (403, 404)


async def test_many_points_are_pages() -> None:
    async with library() as stage:
        for number in range(ROWS):
            await stage.world.get(Shelf, "eu/oak").put(f"k{number}")
        text = await stage.text(path_of())
        assert "next page" in text
        assert len(re.findall("data-id=", text)) == ROWS
