"""A machine that is over begins anew, from outside: over HTTP, by the client and on its page, with an audit row."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened, problem
from tests.unit.dashboard_stage import Stage
from wakeful import App, DurableObject, Machine, errors
from wakeful.security.gate import Gate

LAMP = "/v1/objects/Lamp/eu:a"


def make_app() -> App:
    app = App()

    @app.object
    class Lamp(Machine):
        chart = {
            "initial": "on",
            "context": {"$call": "born"},
            "states": {"on": {"on": {"BREAK": "broken"}}, "broken": {"type": "final"}},
        }

        def born(self, context: Any, event: Any) -> Any:
            return {"with": event["input"]}

    @app.object
    class Box(DurableObject):
        async def put(self) -> None:
            await self.storage.put("a", 1)

    return app


async def test_it_begins_anew_over_http_and_leaves_a_row() -> None:
    async with opened(make_app()) as stage:
        await stage.ask("POST", f"{LAMP}/send", json=["BREAK"])
        answer = await stage.ask("POST", f"{LAMP}/machine/reset", json={"input": 5})
        assert answer.json() == {"class": "Lamp", "key": "eu:a", "value": "on", "status": "active"}
        assert (await stage.get(LAMP))["machine"]["context"] == {"with": 5}
        problem(await stage.ask("POST", f"{LAMP}/machine/reset"), 409, "machine.active")
        assert (await stage.ask("POST", f"{LAMP}/machine/reset", json={"force": True})).status_code == 200
        problem(await stage.ask("POST", "/v1/objects/Lamp/none/machine/reset"), 404, "object.unknown")
        await stage.ask("POST", "/v1/objects/Box/b/put")
        problem(await stage.ask("POST", "/v1/objects/Box/b/machine/reset"), 404, "method.unknown")
        rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
        assert [(row["act"], row["target"], row["outcome"]) for row in rows] == [
            ("machine.reset", "Box/b", "failed"),
            ("machine.reset", "Lamp/eu:a", "done"),
            ("machine.reset", "Lamp/eu:a", "failed"),
            ("machine.reset", "Lamp/eu:a", "done"),
        ]


async def test_who_may() -> None:
    async with opened(make_app()) as stage:
        await stage.ask("POST", f"{LAMP}/send", json=["BREAK"])
        reads, us = await stage.token("reads", "read"), await stage.token("us", "operate", tenant="us:")
        eu = await stage.token("eu", "operate", tenant="eu:")
        problem(await stage.ask("POST", f"{LAMP}/machine/reset", token=reads), 403, "denied.scope")
        assert (await stage.ask("POST", f"{LAMP}/machine/reset", token=us)).status_code in (403, 404)
        assert (await stage.ask("POST", f"{LAMP}/machine/reset", token=eu)).status_code == 200


async def test_a_caller_may_not_by_the_name_of_the_method_and_is_told_the_way() -> None:
    async with opened(make_app()) as stage:
        await stage.ask("POST", f"{LAMP}/send", json=["BREAK"])
        job = {"class": "Lamp", "key": "eu:a", "method": "reset"}
        daily = {"spec": "@daily", "handler": "reset"}
        asks: list[tuple[str, str, Any]] = [("POST", f"{LAMP}/reset", {"force": True}), ("POST", "/v1/jobs", job)]
        asks.append(("PUT", f"{LAMP}/schedules/daily", daily))
        for method, path, body in asks:  # whoever is on this machine may do everything, and not this way either
            answer = await stage.ask(method, path, json=body)
            found = problem(answer, 404, "method.operators")
            assert "/machine/reset" in found["detail"]
            assert "wakeful reset" in found["detail"]
        assert (await stage.get(LAMP))["machine"]["status"] == "done"
        lamp = stage.app.deployment.registry.by_name("Lamp").cls
        with pytest.raises(errors.UnknownMethod, match="machine/reset"):
            await stage.app.token(lamp, "eu:a", methods=["reset"])
        text = await stage.app.token(lamp, "eu:a")
        problem(await stage.ask("POST", f"{LAMP}/reset", token=text), 403, "denied.method")
        listed = await stage.get("/v1/classes")
        assert "reset" not in str(listed)
        assert "/v1/objects/Lamp/{key}/reset" not in (await stage.get("/openapi.json"))["paths"]
        assert (await stage.world.get(lamp, "eu:a").reset()).status == "active"  # the program itself may


async def test_the_client_does_it_as_an_operator_and_not_as_a_caller() -> None:
    async with served(make_app()) as shop, client_of(shop) as client:
        await client.get("Lamp", "a").send("BREAK")
        assert (await client.reset("Lamp", "a", 7))["value"] == "on"
        with pytest.raises(errors.Conflict):
            await client.reset("Lamp", "a")
        with pytest.raises(errors.UnknownMethod, match="wakeful reset"):
            await client.get("Lamp", "a").reset(8, force=True)
        assert (await client.object("Lamp", "a"))["machine"]["context"] == {"with": 7}


@asynccontextmanager
async def lit() -> AsyncIterator[tuple[Stage, Any]]:
    """The dashboard of a world with a lamp that is on."""
    app = make_app()
    gate = Gate(app.deployment)
    site = app.asgi(gate=gate)
    async with app.world() as world:
        lamp: Any = world.get(app.deployment.registry.by_name("Lamp").cls, "a")
        await lamp.start()
        transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield Stage(app, world, client, gate), lamp


PAGE = "/object?class=Lamp&key=a"
FORM = {"class": "Lamp", "key": "a"}


async def test_its_page_has_a_button_once_it_is_over() -> None:
    async with lit() as (stage, lamp):
        assert "/machine/reset" not in await stage.text(PAGE)
        await lamp.send("BREAK")
        assert "/machine/reset" in await stage.text(PAGE)
        answer = await stage.post("/machine/reset", **FORM)
        assert (answer.status_code, "said=reset" in answer.headers["location"]) == (303, True)
        assert (await lamp.snapshot()).value == "on"
        assert "machine.reset" in await stage.text("/audit")


async def test_who_only_reads_has_no_button() -> None:
    async with lit() as (stage, lamp):
        await lamp.send("BREAK")
        await stage.login(await stage.token("reads", "read"))
        assert "/machine/reset" not in await stage.text(PAGE)
        assert (await stage.post("/machine/reset", **FORM)).status_code == 403
