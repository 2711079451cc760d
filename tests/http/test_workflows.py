"""A workflow from outside: seen, started, sent events, paused, cancelled, retried and forked, over HTTP and by the client."""

from typing import Any

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened, problem
from wakeful import App, DurableObject, RetryPolicy, Step, Workflow, errors

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
        problem(await stage.ask("POST", "/v1/objects/Flow/eu:b/result"), 424, "workflow.cancelled")
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
        reads, us = await stage.token("reads", "read"), await stage.token("us", "operate", tenant="us:")
        problem(await stage.ask("POST", f"{FLOW}/workflow/cancel", token=reads), 403, "denied.scope")
        assert (await stage.ask("POST", f"{FLOW}/workflow/cancel", token=us)).status_code in (403, 404)


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
