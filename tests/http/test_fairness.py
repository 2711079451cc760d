"""One who asks for too much is refused, and everybody else is served as if they were alone."""

import asyncio
import logging
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.http.http_stage import BASE, Stage, make_app, opened, problem
from wakeful.http.api import ACTS_MAX, REQUESTS_MAX
from wakeful.server import Site

LONG = {"Wakeful-Deadline": "15m"}


async def flood(stage: Stage, count: int, **options: Any) -> list[asyncio.Task[httpx.Response]]:
    """So many calls to one slow object, of which those that are refused are back when this is."""
    keys, api = options.pop("keys", ["slow"]), stage.site.api
    before = api.requests
    tasks = [
        asyncio.ensure_future(stage.call(keys[number % len(keys)], "slow", [800], headers=LONG, **options))
        for number in range(count)
    ]
    for _ in range(20):
        await stage.world.advance(milliseconds=500)  # a few begin at a time
        if api.requests + sum(task.done() for task in tasks) >= before + count:
            return tasks
    raise AssertionError("they neither begin nor end")


async def over(stage: Stage, tasks: list[asyncio.Task[httpx.Response]]) -> Counter[int]:
    """How all of them were answered, a quarter of an hour later."""
    await stage.world.advance(minutes=16)
    return Counter([(await task).status_code for task in tasks])


async def test_530_calls_of_a_quarter_of_an_hour_take_only_the_places_of_who_makes_them() -> None:
    async with opened() as stage:
        one, other = await stage.token("one", "call"), await stage.token("other", "call")
        boss = await stage.token("boss", "admin")
        pages = httpx.AsyncClient(transport=httpx.ASGITransport(Site(stage.app, gate=stage.site.gate)), base_url=BASE)
        tasks = await flood(stage, 530, token=one)
        refused = [task.result() for task in tasks if task.done()]
        assert REQUESTS_MAX / 2 < 530 - len(refused) < REQUESTS_MAX  # most of them, never all
        said = problem(refused[0], 429, "server.share")
        assert f"of {REQUESTS_MAX} places for calls" in said["detail"]
        assert "jobs" in said["detail"]
        assert int(refused[0].headers["retry-after"]) >= 1
        assert Counter(answer.status_code for answer in refused) == {429: len(refused)}
        for _ in range(3):
            assert await stage.result("mine", "add", token=other) > 0
        assert (await stage.ask("GET", "/readyz")).json() == {"status": "ready"}
        assert (await stage.ask("GET", "/healthz")).status_code == 200
        assert (await stage.ask("GET", "/metrics", token=boss)).status_code == 200
        assert (await stage.ask("GET", "/v1/objects", token=boss)).status_code == 200
        made = await stage.call("clock", "plan", token=boss)
        assert made.status_code == 200
        paused = await stage.ask("POST", "/v1/objects/Shop/clock/schedules/nightly/pause", token=boss)
        assert paused.status_code == 200, paused.text
        async with pages:
            assert (await pages.post("/login", data={"token": boss}, headers={"origin": BASE})).status_code == 303
            page = await pages.get("/")
            assert page.status_code == 200, page.text
        counts = await over(stage, tasks)
        assert counts[429] == len(refused)
        assert stage.site.api.requests == 0


async def test_a_second_and_a_third_who_want_all_of_it_leave_some_to_a_fourth() -> None:
    async with opened() as stage:
        tokens = [await stage.token(f"t{number}", "call") for number in range(5)]
        tasks, counts = list[Any](), list[int]()
        for token in tokens[:4]:
            before = stage.site.api.requests
            tasks += await flood(stage, 600, token=token)
            counts.append(stage.site.api.requests - before)
        assert all(counts)
        assert counts == sorted(counts, reverse=True)
        assert await stage.result("mine", "add", token=tokens[4]) == 1
        await over(stage, tasks)


async def test_tokens_of_one_tenant_share_what_it_has() -> None:
    async with opened() as stage:
        first = await stage.token("t1", "call", tenant="eu/")
        second = await stage.token("t2", "call", tenant="eu/")
        other = await stage.token("t3", "call", tenant="us/")
        tasks = await flood(stage, 600, token=first, keys=["eu/slow"])
        alone = stage.site.api.requests
        tasks += await flood(stage, 600, token=second, keys=["eu/slow"])
        assert stage.site.api.requests < REQUESTS_MAX * 7 / 8  # what one house may have
        assert stage.site.api.requests > alone  # the second of it was not shut out by the first
        before = stage.site.api.requests
        tasks += await flood(stage, 100, token=other, keys=["us/slow"])
        assert stage.site.api.requests - before > 10
        await over(stage, tasks)


async def test_one_token_that_calls_for_many_tenants_is_not_taken_by_one_of_them() -> None:
    async with opened() as stage:
        token = await stage.token("backend", "call")
        tasks = await flood(stage, 530, token=token, keys=["acme/slow"])
        assert await stage.result("bob/1", "add", token=token) == 1
        await over(stage, tasks)


async def test_many_tenants_of_one_token_have_no_more_than_it() -> None:
    async with opened() as stage:
        token, other = await stage.token("backend", "call"), await stage.token("other", "call")
        tasks = await flood(stage, 700, token=token, keys=[f"t{number}/slow" for number in range(300)])
        assert stage.site.api.requests < REQUESTS_MAX * 7 / 8
        assert await stage.result("mine", "add", token=other) == 1
        await over(stage, tasks)


async def test_when_really_all_is_taken_readyz_says_so() -> None:
    async with opened(site={"requests_max": 4}) as stage:
        tokens = [await stage.token(f"t{number}", "call") for number in range(3)]
        tasks = await flood(stage, 2, token=tokens[0])
        assert (await stage.ask("GET", "/readyz")).status_code == 200
        tasks += await flood(stage, 2, token=tokens[1])
        problem(await stage.call("mine", "add", token=tokens[2]), 503, "server.busy")
        answer = await stage.ask("GET", "/readyz")
        said = {"status": "not ready", "reason": "every place for requests is taken"}
        assert (answer.status_code, answer.json()) == (503, said)
        assert (await stage.ask("GET", "/healthz")).status_code == 200
        await over(stage, tasks)
        assert (await stage.ask("GET", "/readyz")).status_code == 200


async def test_operators_acts_have_places_of_their_own() -> None:
    async with opened(site={"requests_max": 1}) as stage:
        one, boss = await stage.token("one", "call"), await stage.token("boss", "admin")
        assert (await stage.call("clock", "plan", token=one)).status_code == 200
        tasks = await flood(stage, 1, token=one)
        problem(await stage.call("mine", "add", token=boss), 503, "server.busy")
        paused = await stage.ask("POST", "/v1/objects/Shop/clock/schedules/nightly/pause", token=boss)
        assert paused.status_code == 200, paused.text
        assert ACTS_MAX > 1
        await over(stage, tasks)


async def test_the_log_says_once_a_minute_who_it_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="wakeful.http")
    async with opened(site={"requests_max": 16}) as stage:
        token = await stage.token("one", "call")
        tasks = await flood(stage, 40, token=token)
        lines = [record for record in caplog.records if getattr(record, "code", "") == "server.share"]
        assert len(lines) == 1
        assert "token:" in lines[0].getMessage()
        assert token.split("_")[2] not in lines[0].getMessage()
        await stage.world.advance(minutes=2)
        await stage.call("slow", "slow", [1], token=token)
        assert len([record for record in caplog.records if getattr(record, "code", "") == "server.share"]) == 2
        await over(stage, tasks)


async def test_an_object_that_asks_the_server_it_is_called_by_is_refused_and_does_not_wait_for_ever() -> None:
    from wakeful import DurableObject

    app = make_app()
    clients: list[httpx.AsyncClient] = []

    @app.object
    class Deep(DurableObject):
        async def dive(self, depth: int) -> int:
            """How deep it came; each level holds a place while it waits for the next."""
            answer = await clients[0].post(f"/v1/objects/Deep/{depth}/dive", json=[depth + 1])
            return int(answer.json()["result"]) if answer.status_code == 200 else depth

    async with opened(app, site={"requests_max": 16}) as stage:
        clients.append(stage.client)
        asked = asyncio.ensure_future(stage.ask("POST", "/v1/objects/Deep/0/dive", json=[1]))
        await stage.world.advance(seconds=5)
        answer = await asyncio.wait_for(asked, 60)
        assert answer.status_code == 200
        assert 2 < answer.json()["result"] <= 16


async def test_one_who_reads_lists_all_the_time_does_not_stand_before_everybody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from wakeful.views import objects

    async with opened() as stage:
        one, other = await stage.token("one", "read"), await stage.token("other", "read")
        go, order = asyncio.Event(), list[str]()
        read = objects.page

        async def slow(*args: Any, **options: Any) -> Any:
            await go.wait()
            return await read(*args, **options)

        monkeypatch.setattr(objects, "page", slow)

        async def ask(name: str, token: str) -> int:
            answer = await stage.ask("GET", "/v1/objects", token=token)
            order.append(name)
            return answer.status_code

        many = [asyncio.ensure_future(ask("one", one)) for _ in range(300)]
        await stage.world.advance(seconds=5)
        assert stage.site.api.looks + sum(task.done() for task in many) == 300
        assert any(task.done() for task in many)  # those that were too many
        order.clear()
        alone = asyncio.ensure_future(ask("other", other))
        await stage.world.advance(seconds=1)
        go.set()
        assert await alone == 200
        assert order.index("other") <= 2
        assert set(await asyncio.gather(*many)) == {200, 429}
