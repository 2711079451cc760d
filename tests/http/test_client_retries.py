"""A client and a network that loses things: what may be repeated is, once in effect; what may not be is not."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from tests.http.client_stage import busy, client_of, served
from wakeful import Client, JobSpec, errors

LOST = [["cut"], ["drop"], ["cut", "cut", "drop", "cut"]]


@pytest.mark.parametrize("plan", LOST)
async def test_a_call_whose_answer_is_lost_happens_once(plan: list[str]) -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        shop.shaky.plan = [*plan]
        assert await client.get(shop.cls, "a").add(5) == 5
        assert await shop.app.get(shop.cls, "a").total() == 5
        assert len(shop.shaky.requests) == len(plan) + 1
        assert len(set(shop.shaky.keys())) == 1


@pytest.mark.parametrize("plan", LOST)
async def test_a_job_whose_answer_is_lost_is_there_once(plan: list[str]) -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        stub = client.get("Shop", "a")
        shop.shaky.plan = [*plan]
        job = await client.jobs.schedule(stub.add, 1, after="1h")
        shop.shaky.plan = [*plan]
        await client.jobs.schedule_many([JobSpec(stub.add, (2,), after="1h"), JobSpec(stub.add, (3,), after="1h")])
        jobs = await shop.app.jobs.list()
        assert len(jobs) == 3
        assert job.id in {one.id for one in jobs}


async def test_a_schedule_whose_answer_is_lost_is_there_once() -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        shop.shaky.plan = ["cut", "cut"]
        made = await client.schedules(shop.cls, "a").add("0 3 * * *", "nightly")
        assert [one.name for one in await shop.app.schedules(shop.cls, "a").list()] == [made.name]


async def test_readers_are_repeated_and_leave_no_key() -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        shop.shaky.plan = ["cut", "drop"]
        assert await client.get(shop.cls, "a").total() == 0
        assert shop.shaky.keys() == []
        shop.shaky.plan = ["cut"]
        assert await client.objects() == []


async def test_what_may_not_be_repeated_is_not() -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        own = client.schedules(shop.cls, "a")
        await own.add("0 3 * * *", "nightly", name="n")
        shop.shaky.plan = ["cut"]
        with pytest.raises(errors.OutcomeUnknown) as caught:
            await own.trigger("n")
        assert caught.value.code == "client.lost"
        shop.shaky.plan = [busy(503, "OutcomeUnknown", "commit.unknown")]
        with pytest.raises(errors.OutcomeUnknown):
            await own.trigger("n")
        async with asyncio.timeout(20):
            while not (runs := await own.history("n")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert len(runs) == 1


@pytest.mark.parametrize(
    "refusal", [busy(503, "", "server.busy"), busy(429, "TooMany", "denied.rate"), busy(503, "", "server.bodies")]
)
async def test_what_was_refused_untouched_is_sent_again_whatever_it_is(refusal: bytes) -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        own = client.schedules(shop.cls, "a")
        await own.add("0 3 * * *", "nightly", name="n")
        shop.shaky.plan = [refusal, refusal]
        assert len(await own.trigger("n")) == 1


@pytest.mark.parametrize("error", ["Unavailable", "StoreDown", "LinkLost", "NotRunning"])
async def test_a_server_that_is_down_for_a_moment(error: str) -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        shop.shaky.plan = [busy(503, error, "x"), b"HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n"]
        assert await client.get("Shop", "a").add(1) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (busy(409, "KeyTaken", "request.key"), errors.KeyTaken),
        (busy(429, "QuotaExceeded", "quota"), errors.QuotaExceeded),
        (busy(504, "DeadlineExceeded", "call.deadline"), errors.DeadlineExceeded),
        (busy(500, "", "http.bug"), errors.WakefulError),
        (busy(418, "", "tea"), errors.BadInput),
        (busy(418, "NoSuchError", "tea"), errors.BadInput),
        (b"HTTP/1.1 404 No\r\ncontent-length: 2\r\ncontent-type: text/html\r\n\r\nhi", errors.CallFailed),
        (b"HTTP/1.1 302 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", errors.Unavailable),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/html\r\n\r\nhi", errors.Unavailable),
    ],
)
async def test_what_will_not_get_better_is_said_at_once(answer: bytes, kind: type[Exception]) -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        shop.shaky.plan = [answer]
        with pytest.raises(kind):
            await client.get("Shop", "a").add(1)
        assert len(shop.shaky.requests) == 1


async def test_it_waits_as_long_as_it_is_asked_to_and_not_longer_than_it_has() -> None:
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        loop = asyncio.get_running_loop()
        shop.shaky.plan = [busy(429, "TooMany", "denied.rate", wait=1)]
        began = loop.time()
        await client.get("Shop", "a").add(1)
        assert loop.time() - began >= 0.7
        shop.shaky.plan = [busy(429, "TooMany", "denied.rate", wait=600)]
        with pytest.raises(errors.TooMany) as caught:
            await client.get("Shop", "a", deadline="5s").add(1)
        assert caught.value.retry_after_s == 600
        assert loop.time() - began < 300, "half of what it was asked to wait"


async def test_nobody_there_is_tried_until_the_time_has_passed() -> None:
    async with Client("http://127.0.0.1:1", timeout="1s") as client:
        with pytest.raises(errors.Unavailable) as caught:
            await client.get("Shop", "a").add(1)
        assert caught.value.code == "client.connect"
        assert client._wire.repeats >= 1


async def test_without_retries_nothing_is_sent_twice_and_no_key_is_made() -> None:
    async with served() as shop, client_of(shop, is_shaky=True, retries=False) as client:
        shop.shaky.plan = ["cut"]
        with pytest.raises(errors.OutcomeUnknown):
            await client.get("Shop", "a").add(1)
        assert (shop.shaky.keys(), len(shop.shaky.requests)) == ([], 1)


async def test_a_server_under_a_path() -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from tests.http.http_stage import make_app

    class Quiet(uvicorn.Server):
        def capture_signals(self) -> Any:
            return nullcontext()  # they are the test runner's

    app = make_app()
    site = Starlette(routes=[Mount("/durable/objects", app.asgi())], lifespan=app.lifespan("memory:"))
    server = Quiet(uvicorn.Config(site, port=0, log_config=None))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}/durable/objects/") as client:
            assert await client.get("Shop", "a/b").add(2) == 2
            assert [row["key"] for row in await client.objects("Shop")] == ["a/b"]
            job = await client.jobs.schedule(client.get("Shop", "a/b").total)
            assert await client.jobs.wait(job) == 2
    finally:
        server.should_exit = True
        await serving


async def test_a_closed_client_and_one_of_another_loop_say_so() -> None:
    async with served() as shop:
        client = Client(shop.url)
        assert await client.get("Shop", "a").add(1) == 1
        errors_: list[Any] = []

        def elsewhere() -> None:
            try:
                asyncio.run(_add(client))
            except errors.NotRunning as error:
                errors_.append(error.code)

        await asyncio.to_thread(elsewhere)
        await client.close()
        await client.close()
        with pytest.raises(errors.NotRunning) as caught:
            await client.get("Shop", "a").add(1)
        assert [*errors_, caught.value.code] == ["client.loop", "client.closed"]


async def _add(client: Client) -> None:
    await client.get("Shop", "a").add(1)
