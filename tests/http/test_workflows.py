"""A workflow from outside: seen, started, sent events, paused, cancelled, retried and forked, over HTTP and by the client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.http.client_stage import client_of, served
from tests.http.events_reader import Reader
from tests.http.http_stage import opened, problem
from tests.unit.dashboard_stage import Stage
from wakeful import App, DurableObject, RetryPolicy, Step, Workflow, errors
from wakeful.security.gate import Gate

FLOW = "/v1/objects/Flow/eu:a"


def make_app(broken: list[bool] | None = None) -> App:
    app = App()

    async def work() -> str:
        if broken:
            raise OSError("down")
        return "worked"

    @app.object
    class Flow(Workflow):
        async def run(self, step: Step, n: int) -> Any:  # type: ignore[override]
            found = await step("work", work, retry=RetryPolicy(1))
            return [n, found, await step.wait_for("go")]

    @app.object
    class Box(DurableObject):
        async def put(self) -> None:
            await self.storage.put("a", 1)

        async def pause(self) -> None:
            await self.storage.put("paused", True)

    return app


async def test_it_is_started_with_what_the_annotations_of_its_body_say() -> None:
    app = App()

    @app.object
    class Visit(Workflow):
        async def run(self, step: Step, when: datetime, *days: timedelta, price: Decimal = Decimal(1)) -> str:  # type: ignore[override]
            return f"{when:%d.%m.} {price + 1} {sum(days, timedelta())}"

    async with opened(app) as stage:
        visit = "/v1/objects/Visit"
        assert (
            await stage.ask("POST", f"{visit}/a/start", json={"when": "2030-01-02T00:00Z", "price": 0.1})
        ).status_code == 200
        assert (await stage.ask("POST", f"{visit}/b/start", json=["2030-01-02T00:00Z", "5m", 60])).status_code == 200
        await stage.world.settle()
        assert (await stage.ask("POST", f"{visit}/a/result")).json() == {"result": "02.01. 1.1 0:00:00"}
        assert (await stage.ask("POST", f"{visit}/b/result")).json() == {"result": "02.01. 2 0:06:00"}
        for body, code in (
            ({"when": "soon"}, "arguments.type"),
            ([5], "arguments.type"),
            ([], "workflow.input"),
            ({"when": "2030-01-02T00:00Z", "where": 1}, "workflow.input"),
        ):
            problem(await stage.ask("POST", f"{visit}/c/start", json=body), 422, code)
        paths = (await stage.get("/openapi.json"))["paths"]
        asked = json.dumps(paths["/v1/objects/Visit/{key}/start"]["post"]["requestBody"])
        assert ('"when"' in asked, '"price"' in asked, '"queue"' in asked) == (True, True, True)


async def test_it_is_seen_without_being_woken_and_operated() -> None:
    broken = [True]
    async with opened(make_app(broken)) as stage:
        problem(await stage.ask("GET", f"{FLOW}/workflow"), 404, "object.unknown")
        assert (await stage.ask("POST", f"{FLOW}/start", json=[3])).status_code == 200
        await stage.world.settle()
        row = await stage.get(f"{FLOW}/workflow")
        assert (row["state"], row["error"]) == ("failed", "StepFailed: step 'work': OSError: down")
        assert [(step["name"], step["state"], step["error"]) for step in row["steps"]] == [
            ("work", "failed", "OSError: down")
        ]
        broken.clear()
        assert (await stage.ask("POST", f"{FLOW}/workflow/retry", json={"from_step": "work"})).json()[
            "state"
        ] == "running"
        await stage.world.settle()
        assert (await stage.get(f"{FLOW}/workflow"))["waits_for"] == ["go"]
        assert (await stage.ask("POST", f"{FLOW}/workflow/pause")).json()["state"] == "paused"
        assert (await stage.ask("POST", f"{FLOW}/workflow/resume", json={})).json()["state"] == "running"
        await stage.world.settle()
        await stage.ask("POST", f"{FLOW}/workflow/fork", json={"key": "eu:b"})
        await stage.ask("POST", f"{FLOW}/send", json=["go", {"n": 5}])
        await stage.world.settle()
        assert (await stage.ask("POST", f"{FLOW}/result")).json()["result"] == [3, "worked", {"n": 5}]
        assert (await stage.ask("POST", "/v1/objects/Flow/eu:b/workflow/cancel")).json()["is_cancelling"]
        await stage.world.settle()
        assert (await stage.get("/v1/objects/Flow/eu:b/workflow"))["state"] == "cancelled"
        problem(await stage.ask("POST", "/v1/objects/Flow/eu:b/result"), 409, "workflow.cancelled")
        rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
        acts = ["cancel", "fork", "resume", "pause", "retry"]
        assert [(row["act"], row["outcome"]) for row in rows] == [(f"workflow.{act}", "done") for act in acts]


async def test_who_may_and_of_what() -> None:
    async with opened(make_app()) as stage:
        await stage.ask("POST", f"{FLOW}/start", json=[3])
        answer = await stage.ask("POST", f"{FLOW}/cancel")  # not by the name of the method
        assert "/workflow/cancel" in problem(answer, 404, "method.operators")["detail"]
        await stage.ask("POST", "/v1/objects/Box/b/put")
        problem(await stage.ask("POST", "/v1/objects/Box/b/workflow/pause"), 404, "workflow.class")
        assert (await stage.ask("POST", f"{FLOW}/workflow/retry", json={"from": "work"})).status_code in (400, 422)
        problem(await stage.ask("POST", f"{FLOW}/workflow/retry"), 409, "workflow.state")
        await stage.ask("POST", "/v1/objects/Flow/us:a/start", json=[3])
        reads, us = await stage.token("reads", "read"), await stage.token("us", "operate", tenant="us:")
        problem(await stage.ask("POST", f"{FLOW}/workflow/cancel", token=reads), 403, "denied.scope")
        assert (await stage.ask("POST", f"{FLOW}/workflow/cancel", token=us)).status_code in (403, 404)
        fork = "/v1/objects/Flow/us:a/workflow/fork"
        problem(await stage.ask("POST", fork, json={"key": "eu:b"}, token=us), 403, "denied.tenant")
        assert (await stage.ask("POST", fork, json={"key": "us:b"}, token=us)).status_code == 200


async def test_the_client_does_the_same() -> None:
    async with served(make_app()) as stage, client_of(stage) as client:
        flow = client.get("Flow", "a")
        await flow.start(7)
        assert (await client.pause_workflow("Flow", "a"))["state"] == "paused"
        await client.resume_workflow("Flow", "a")
        await client.fork_workflow("Flow", "a", "b")
        await flow.send("go", 1)
        assert await flow.result() == [7, "worked", 1]
        assert (await client.workflow("Flow", "a"))["state"] == "done"
        assert (await client.restart_workflow("Flow", "a"))["state"] == "running"
        with pytest.raises(errors.Conflict):
            await client.retry_workflow("Flow", "a", "work")
        await client.cancel_workflow("Flow", "a")
        with pytest.raises(errors.WorkflowCancelled):
            await flow.result()


PAGE = "/object?class=Flow&key=a"
FORM = {"class": "Flow", "key": "a"}


@asynccontextmanager
async def dashboard(broken: list[bool]) -> AsyncIterator[Stage]:
    """The dashboard of a world with one workflow."""
    app = make_app(broken)
    gate = Gate(app.deployment)
    site = app.asgi(gate=gate)
    async with app.world() as world:
        await world.get(app.deployment.registry.by_name("Flow").cls, "a").start(3)  # type: ignore[attr-defined]
        await world.settle()
        transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield Stage(app, world, client, gate)


async def test_its_page_has_a_timeline_and_what_can_be_done_as_it_stands() -> None:
    broken = [True]
    async with dashboard(broken) as stage:
        page = await stage.text(PAGE)
        assert all(part in page for part in ("Workflow", "OSError: down", 'value="retry"', "<rect x="))
        assert 'value="pause"' not in page
        broken.clear()
        answer = await stage.post("/workflow/act", **FORM, act="retry")
        assert (answer.status_code, "said=flow-retry" in answer.headers["location"]) == (303, True)
        await stage.world.settle()
        page = await stage.text(PAGE)
        assert "waits for" in page
        assert 'value="pause"' in page
        await stage.world.advance(minutes=1)
        assert (await stage.post("/workflow/act", **FORM, act="cancel")).status_code == 303
        await stage.world.settle()
        assert "cancelled" in await stage.text(PAGE)
        assert (await stage.post("/workflow/act", **FORM, act="explode")).status_code == 400


async def test_who_only_reads_has_no_button() -> None:
    async with dashboard([True]) as stage:
        await stage.login(await stage.token("reads", "read"))
        assert "/workflow/act" not in await stage.text(PAGE)
        assert (await stage.post("/workflow/act", **FORM, act="restart")).status_code == 403


async def test_they_are_listed_by_class_and_state() -> None:
    async with opened(make_app([True])) as stage:
        for key in ("eu:a", "eu:b", "us:c"):
            await stage.ask("POST", f"/v1/objects/Flow/{key}/start", json=[3])
        await stage.ask("POST", "/v1/objects/Box/eu:box/put")
        await stage.world.settle()
        rows = (await stage.get("/v1/workflows"))["rows"]
        assert [(row["key"], row["state"]) for row in rows] == [(key, "failed") for key in ("eu:a", "eu:b", "us:c")]
        assert "OSError: down" in rows[0]["error"]
        assert (await stage.get("/v1/workflows?state=waiting"))["rows"] == []
        assert [row["key"] for row in (await stage.get("/v1/workflows?class=Flow&prefix=us"))["rows"]] == ["us:c"]
        page = await stage.get("/v1/workflows?limit=2&state=failed")
        rest = await stage.get(f"/v1/workflows?limit=2&state=failed&cursor={page['cursor']}")
        assert ([row["key"] for row in rest["rows"]], rest["cursor"]) == (["us:c"], None)
        problem(await stage.ask("GET", "/v1/workflows?state=asleep"), 400, "query.value")
        problem(await stage.ask("GET", "/v1/workflows?cursor=x"), 400, "cursor")


def frames_of(text: str) -> list[tuple[str | None, str, Any]]:
    """Id, kind and data of each event of a stream."""
    frames = [dict(line.partition(": ")[::2] for line in frame.splitlines()) for frame in text.split("\n\n")]
    return [(one.get("id"), one["event"], json.loads(one["data"])) for one in frames if "data" in one]


async def test_what_it_publishes_is_streamed_and_goes_on_where_it_broke() -> None:
    app = App()

    @app.object
    class Count(Workflow):
        async def run(self, step: Step) -> None:  # type: ignore[override]
            for n in range(3):
                await step.publish({"n": n})
                await step.sleep("a bit", "10s")

    path = "/v1/objects/Count/a/watch"
    async with opened(app) as stage:
        problem(await stage.ask("GET", path), 409, "workflow.unstarted")
        await stage.ask("POST", "/v1/objects/Count/a/start")
        async with Reader(stage, path) as reader:
            await stage.world.advance(seconds=15)
            frames = frames_of(reader.text)
            assert [(kind, data) for _, kind, data in frames] == [("published", {"value": {"n": n}}) for n in (0, 1)]
        async with Reader(stage, path, {"last-event-id": str(frames[-1][0])}) as reader:
            await stage.world.advance(minutes=1)
            rest = [(kind, data) for _, kind, data in frames_of(reader.text)]
            assert rest == [("published", {"value": {"n": 2}}), ("over", {"state": "done"})]
        problem(await stage.ask("GET", path, headers={"last-event-id": "x"}), 400, "events.id")
        problem(await stage.ask("GET", f"{path}?patches=true"), 400, "query.value")
        reading = await stage.token("reader", "read")
        assert (await stage.ask("GET", path, token=reading)).status_code == 403


async def test_a_client_is_told_what_it_publishes() -> None:
    app = App()

    @app.object
    class Count(Workflow):
        async def run(self, step: Step) -> None:  # type: ignore[override]
            for n in range(3):
                await step.publish(n)

    async with served(app) as server, client_of(server) as client:
        await client.get(Count, "a").start()
        assert [value async for value in client.published(Count, "a")] == [0, 1, 2]
        with pytest.raises(errors.Conflict):
            await anext(client.published(Count, "none"))
