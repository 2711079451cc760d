"""Requests are counted by the route of the table that they took, and only answers have a duration."""

import asyncio
from typing import Any

import httpx

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, opened
from wakeful.http.rows import ROWS

CALL = "/v1/objects/{class}/{key}/{method}"


def counted(stage: Stage) -> dict[tuple[str, ...], int]:
    return {labels: one.value for labels, one in stage.world.node.meter.http.items()}


def timed(stage: Stage) -> dict[str, int]:
    return {labels[0]: one.count for labels, one in stage.world.node.meter.http_durations.items()}


async def test_the_label_is_the_route_of_the_table() -> None:
    async with opened() as stage:
        await stage.result("a", "add")
        await stage.get("/v1/objects")
        await stage.get("/v1/objects/Shop/a/timers")
        for path in ("/v1/objects/Shop/a/x/y/z", "/v1/nothing", "/v1/jobs/a/b/c"):
            assert (await stage.ask("GET", path)).status_code == 404
        assert (await stage.ask("GET", "/openapi.json")).status_code == 200
        assert counted(stage) == {
            ("POST", CALL, "200"): 1,
            ("GET", "/v1/objects", "200"): 1,
            ("GET", "/v1/objects/{class}/{key}/timers", "200"): 1,
            ("GET", "other", "404"): 3,
            ("GET", "/openapi.json", "200"): 1,
        }
        assert {route for _, route, _ in counted(stage)} <= {row.path for row in ROWS} | {"other", "/openapi.json"}


async def test_streams_and_waits_are_counted_and_have_no_duration() -> None:
    async with opened() as stage:
        async with Reader(stage):
            await stage.world.advance(seconds=60)
        async with Reader(stage, "/v1/objects/Lamp/l/watch"):
            await stage.world.advance(seconds=60)
        body = {"class": "Shop", "key": "a", "method": "add", "after": 20}
        job: dict[str, Any] = (await stage.ask("POST", "/v1/jobs", json=body)).json()
        wait = f"/v1/jobs/{job['id'].replace('%', '%25').replace('/', '%2F')}/wait"
        task = asyncio.ensure_future(stage.ask("GET", wait))
        await stage.world.advance(seconds=30)
        answer: httpx.Response = await task
        assert answer.status_code == 200, answer.text
        found = counted(stage)
        assert found["GET", "/v1/events", "200"] == 1
        assert found["GET", "/v1/objects/{class}/{key}/watch", "200"] == 1
        assert found["GET", "/v1/jobs/{id}/wait", "200"] == 1
        assert timed(stage) == {"/v1/jobs": 1}
