"""The examples written for Cloudflare run as they are."""

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

from aiohttp import web
from django.conf import settings
from django.urls import clear_url_caches
from django.utils.functional import empty

from tests.compat.test_sockets import Client
from tests.compat.workers_stage import played
from wakeful.compat.workers import Request, load

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_counter_counts_by_name_and_keeps_its_value() -> None:
    async with played(EXAMPLES / "cloudflare_counter") as (worker, world):

        async def get(path: str) -> str:
            return await (await worker.fetch(Request(f"http://localhost{path}"))).text()

        assert await get("/") == "choose a counter with ?name=, for example ?name=a"
        assert await get("/increment?name=a") == "a: 1"
        assert await get("/increment?name=a") == "a: 2"
        assert await get("/decrement?name=b") == "b: -1"
        await world.advance("1h")
        await world.crash()
        await world.restart()
        assert await get("/?name=a") == "a: 2"
        assert (await worker.fetch(Request("http://localhost/nowhere?name=a"))).status == 404


async def test_the_alarm_handles_together_what_came_within_ten_seconds() -> None:
    async with played(EXAMPLES / "cloudflare_alarms") as (worker, world):

        async def post(text: str) -> object:
            return await (await worker.fetch(Request("http://localhost/", method="POST", body=text))).json()

        async def batches() -> object:
            return await (await worker.fetch(Request("http://localhost/"))).json()

        assert await post("a") == {"waiting": 1}
        await world.advance("9s")
        assert await post("b") == {"waiting": 2}
        assert await batches() == []
        await world.advance("2s")
        assert await batches() == [["a", "b"]]
        assert await post("poison") == {"waiting": 1}
        await world.advance("12s")
        assert await batches() == [["a", "b"]]
        await world.advance("10s")  # the second retry comes after 2 + 4 s and up to a quarter more
        assert await batches() == [["a", "b"], ["poison"]]
        verdicts = [run.verdict for run in await world.ledger(worker.classes["Batch"], "all")]
        assert verdicts == ["run", "failed", "failed", "run"]


async def test_many_events_share_one_alarm() -> None:
    async with played(EXAMPLES / "cloudflare_events") as (worker, world):
        agent = worker.env.AGENTS.getByName("bob")
        now = round(world.now().timestamp() * 1000)
        await agent.plan("once", now + 30_000)
        await agent.plan("often", now + 10_000, 10_000)
        await agent.plan("never", now + 15_000)
        await agent.drop("never")
        await world.advance("35s")
        assert await agent.done() == ["often", "often", "often", "once"]
        await world.crash()
        await world.restart(after="1m")
        await world.advance("15s")
        assert await agent.done() == ["often", "often", "often", "once", "often", "often"]


async def test_links_live_for_a_day_and_their_visits_are_counted() -> None:
    async with played(EXAMPLES / "cloudflare_links") as (worker, world):

        async def ask(path: str, **options: object) -> tuple[int, str]:
            answer = await worker.fetch(Request(f"http://localhost{path}", **options))
            return answer.status, answer.headers.get("location") or (await answer.text()).strip()

        assert (await ask("/"))[1].startswith("<!doctype html>")
        assert await ask("/docs") == (404, "no such link")
        assert await ask("/docs", method="POST", body="https://example.com/") == (201, "/docs")
        for _ in range(3):
            assert await ask("/docs") == (302, "https://example.com/")
        assert await ask("/docs/visits") == (200, '{"visits": 0}')
        await world.crash()
        await world.restart()
        await world.advance("2s")
        assert await ask("/docs/visits") == (200, '{"visits": 3}')
        await world.advance("1d")
        assert (await ask("/docs"))[0] == 404


async def test_words_come_one_by_one_and_are_kept_before_they_are_heard() -> None:
    async with played(EXAMPLES / "cloudflare_stream") as (worker, world):
        answer = await worker.fetch(Request("http://localhost/bob"))
        assert answer.headers.get("content-type") == "text/event-stream"
        reader = answer.body.getReader()  # type: ignore[union-attr]
        began = world.now()
        first = [(await reader.read()).value for _ in range(3)]
        assert first[:2] == [b'data: {"word": "streams"}\n\n', b'data: {"word": "leave"}\n\n']
        assert round((world.now() - began).total_seconds(), 1) == 1.5
        await reader.cancel("the client hung up")
        await world.crash()
        await world.restart()
        began = world.now()
        rest = await (await worker.fetch(Request("http://localhost/bob"))).text()
        assert rest.count("data:") == 14
        assert round((world.now() - began).total_seconds(), 1) == 5.0, "the first three were kept"


async def test_flask_keeps_its_guestbooks_in_objects() -> None:
    async with played(EXAMPLES / "cloudflare_flask") as (worker, world):
        for line in ("hello", "good bye"):
            answer = await worker.fetch(Request("http://localhost/inn", method="POST", body=line))
            assert answer.status == 201
        await world.advance("1h")
        assert await (await worker.fetch(Request("http://localhost/inn"))).json() == {"lines": ["hello", "good bye"]}
        assert await (await worker.fetch(Request("http://localhost/pub"))).json() == {"lines": []}


async def test_lists_are_kept_apart_and_ticked_off() -> None:
    async with played(EXAMPLES / "cloudflare_lists") as (worker, world):

        async def ask(path: str, method: str = "GET", body: str | None = None) -> Any:
            answer = await worker.fetch(Request(f"http://localhost{path}", method=method, body=body))
            return await answer.json() if answer.ok else answer.status

        milk = await ask("/shopping", "POST", "milk")
        assert milk == {"id": 1, "text": "milk", "done": 0}
        await ask("/shopping", "POST", "tea")
        await ask("/work", "POST", "write")
        assert (await ask("/shopping/1", "POST"))["done"] == 1
        assert await ask("/shopping/9", "POST") == 404
        await world.crash()
        await world.restart()
        assert [item["text"] for item in await ask("/shopping")] == ["tea", "milk"]
        assert await ask("/shopping", "DELETE") == {"removed": 1}
        assert [item["text"] for item in await ask("/shopping")] == ["tea"]
        assert [item["text"] for item in await ask("/work")] == ["write"]
        assert [await ask("/"), await ask("/work", "PATCH")] == [404, 405]


async def test_cron_triggers_read_and_report() -> None:
    async with played(EXAMPLES / "cloudflare_cron", start="2026-11-20T23:59Z") as (worker, world):  # a Friday
        await world.advance(days=3)
        reports = await (await worker.fetch(Request("http://localhost/"))).json()
        assert list(reports) == ["2026-11-23T06:00:00.000Z"], "a Monday: there is none on Saturday and Sunday"
        assert reports["2026-11-23T06:00:00.000Z"]["readings"] in (216, 217), "four an hour for 54 hours"
        await worker.env.REPORTS.getByName("all").write(1_795_413_600_000)
        assert await (await worker.fetch(Request("http://localhost/"))).json() == reports


async def test_a_chat_room_remembers_and_sends_away_who_is_silent() -> None:
    async with played(EXAMPLES / "cloudflare_chat") as (worker, world):
        assert (await worker.fetch(Request("http://localhost/tea"))).status == 426
        ann = Client(worker, "/tea", "name=ann")
        assert (await ann.hear())["type"] == "accept"
        ann.say("hello")
        assert json.loads(await ann.hear()) == {"from": "ann", "text": "hello"}
        bob = Client(worker, "/tea", "name=bob")
        await bob.hear()
        assert json.loads(await bob.hear()) == {"from": "ann", "text": "hello"}
        assert json.loads(await ann.hear()) == {"joined": "bob"}
        elsewhere = Client(worker, "/milk", "name=cy")
        await elsewhere.hear()
        await world.advance("50s")
        ann.say("ping")
        assert await ann.hear() == "pong"
        await world.advance("20s")
        gone = await bob.hear()
        assert (gone["type"], gone["code"]) == ("close", 4008)
        bob.leave(4008, "not heard of for a minute")
        assert json.loads(await ann.hear()) == {"left": "bob"}
        ann.leave(1000, "bye")
        await world.settle()


async def test_flags_are_listed_by_user_and_some_end() -> None:
    async with played(EXAMPLES / "cloudflare_flags") as (worker, world):

        async def ask(path: str, method: str = "GET", **options: Any) -> Any:
            answer = await worker.fetch(Request(f"http://localhost{path}", method=method, **options))
            return await answer.json() if answer.status == 200 else answer.status

        assert await ask("/ann") == {"dark": "off"}
        assert await ask("/ann/dark", "PUT", body="on", headers={"x-by": "cy"}) == 204
        assert await ask("/ann/beta?for=3600", "PUT", body="yes") == 204
        assert await ask("/ann") == {"dark": "on", "beta": "yes"}
        assert await ask("/ann/dark") == {"value": "on", "by": "cy"}
        await world.advance("2h")
        assert await ask("/ann") == {"dark": "on"}
        assert await ask("/ann/beta") == 404
        assert await ask("/ann/dark", "DELETE") == 204
        assert [await ask("/ann"), await ask("/bob")] == [{"dark": "off"}] * 2


async def test_a_site_has_pages_code_before_some_and_a_page_for_what_is_not_there() -> None:
    async with played(EXAMPLES / "cloudflare_site") as (worker, _):

        async def ask(path: str, **headers: str) -> tuple[int, str]:
            answer = await worker.fetch(Request(f"http://localhost{path}", headers=headers))
            return answer.status, await answer.text()

        assert "Welcome" in (await ask("/"))[1]
        assert json.loads((await ask("/api/greeting"))[1]) == {"greeting": "hello", "to": "somebody"}
        assert (await ask("/api/nothing"))[0] == 404
        assert (await ask("/members/"))[0] == 401
        status, text = await ask("/members/", authorization="Bearer open sesame")
        assert (status, "Hello, member" in text) == (200, True)
        status, text = await ask("/nowhere")
        assert (status, "no such page" in text) == (404, True)


async def test_django_asks_objects() -> None:
    settings._wrapped = empty  # a test before it may have had a project in this process
    clear_url_caches()
    async with played(EXAMPLES / "cloudflare_django") as (worker, world):

        async def ask(path: str, method: str = "GET") -> Any:
            answer = await worker.fetch(Request(f"http://localhost/polls/{path}", method=method))
            return await answer.json() if answer.ok else answer.status

        await ask("drink?question=What%3F&choice=tea&choice=milk", "PUT")
        for choice in ("tea", "milk", "tea"):
            await ask(f"drink?choice={choice}", "POST")
        assert await ask("drink?choice=rum", "POST") == 404
        await world.crash()
        await world.restart()
        assert await ask("drink") == {"question": "What?", "votes": {"tea": 2, "milk": 1}}


async def test_fastapi_in_an_object_sells_no_more_than_there_is() -> None:
    async with played(EXAMPLES / "cloudflare_fastapi") as (worker, world):

        async def ask(path: str, method: str = "GET", data: Any = None) -> tuple[int, Any]:
            body = None if data is None else json.dumps(data)
            headers = {"content-type": "application/json"}
            answer = await worker.fetch(Request(f"http://shop/{path}", method=method, body=body, headers=headers))
            return answer.status, await answer.json()

        assert await ask("north/stock/tea?count=3", "PUT") == (200, {"item": "tea", "count": 3})
        ordered = await asyncio.gather(*(ask("north/orders", "POST", {"item": "tea", "count": 2}) for _ in range(2)))
        assert sorted(status for status, _ in ordered) == [201, 409]
        assert (await ask("north/orders", "POST", {"item": "tea", "count": 0}))[0] == 422
        assert (await ask("south/orders", "POST", {"item": "tea"}))[0] == 409
        await world.crash()
        await world.restart()
        assert await ask("north/orders") == (200, [{"id": 1, "item": "tea", "count": 2}])


async def test_a_session_of_mcp_gets_its_answers_over_its_stream() -> None:
    async with played(EXAMPLES / "cloudflare_mcp") as (worker, _):
        stream = await worker.fetch(Request("http://mcp/sse"))
        reader = stream.body.getReader()  # type: ignore[union-attr]
        endpoint = bytes((await reader.read()).value).decode().partition("data: ")[2].strip()
        number = 0

        async def ask(method: str, **params: Any) -> Any:
            nonlocal number
            number += 1
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            sent = Request(f"http://mcp{endpoint}", method="POST", body=json.dumps(message))
            assert (await worker.fetch(sent)).status == 202
            event = json.loads(bytes((await reader.read()).value).decode().partition("data: ")[2])
            assert event["id"] == number
            return event.get("result") or event["error"]

        assert (await ask("initialize", protocolVersion="2025-06-18"))["serverInfo"]["name"] == "notes"
        assert [tool["name"] for tool in (await ask("tools/list"))["tools"]] == ["remember", "recall"]
        await ask("tools/call", name="remember", arguments={"note": "tea is at four"})
        assert (await ask("tools/call", name="recall"))["content"][0]["text"] == "tea is at four"
        assert (await ask("tools/sing"))["code"] == -32601
        await reader.cancel("the client left")


async def test_players_hear_where_all_are_ten_times_a_second() -> None:
    async with played(EXAMPLES / "cloudflare_game") as (worker, world):
        ann, bob = Client(worker, "/arena"), Client(worker, "/arena")
        for number, player in enumerate((ann, bob), 1):
            assert (await player.hear())["type"] == "accept"
            assert await player.hear() == bytes([3, number])
        ann.say(struct.pack("!Bhh", 1, 5, -7))
        await world.advance("200ms")
        state = b""
        while state != b"\x02" + struct.pack("!Bhh", 1, 5, -7) + struct.pack("!Bhh", 2, 0, 0):
            state = await bob.hear()
        ann.leave(1000, "bye")
        await world.advance("200ms")
        assert await bob.hear() == b"\x02" + struct.pack("!Bhh", 2, 0, 0)
        bob.say(b"nonsense")
        assert (await bob.hear())["code"] == 1003
        bob.leave(1003, "")
        await world.advance("1s")


async def test_a_bucket_of_tokens_fills_again_and_is_forgotten() -> None:
    async with played(EXAMPLES / "cloudflare_limiter") as (worker, world):

        async def ask(address: str | None = "192.0.2.1") -> tuple[int, str | None]:
            headers = {} if address is None else {"CF-Connecting-IP": address}
            answer = await worker.fetch(Request("http://localhost/", headers=headers))
            return answer.status, answer.headers.get("retry-after")

        assert [(await ask())[0] for _ in range(6)] == [200] * 5 + [429]
        assert await ask() == (429, "1")
        assert [(await ask("192.0.2.2"))[0], (await ask(None))[0]] == [200, 400]
        await world.advance("2s")
        assert [(await ask())[0] for _ in range(3)] == [200, 200, 429]
        await world.advance("1m")
        assert await world.rows(worker.classes["Bucket"], "192.0.2.1") == {}
        assert [(await ask())[0] for _ in range(6)] == [200] * 5 + [429]


async def test_a_session_is_lent_to_who_knows_the_pin() -> None:
    async with played(EXAMPLES / "cloudflare_sessions") as (worker, world):

        async def ask(pin: str, amounts: str) -> Any:
            answer = await worker.fetch(Request(f"http://bank/ann/{pin}", method="POST", body=amounts))
            return await answer.json() if answer.ok else (answer.status, await answer.text())

        assert await ask("12", "50 -20") == {"told": [50, 30], "balance": 30}
        assert await ask("13", "1000") == (403, "another pin")
        assert await ask("12", "-10 -30") == (409, "there is 20, and not 30")
        await world.crash()
        await world.restart()
        assert await ask("12", "5") == {"told": [25], "balance": 25}


async def test_a_firehose_is_read_from_where_it_was_left() -> None:
    asked: list[str | None] = []

    async def source(request: web.Request) -> web.WebSocketResponse:
        asked.append(request.query.get("cursor"))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        first = int(asked[-1] or 0)
        for number in range(first + 1, first + 151):
            await socket.send_json({"kind": "post" if number % 2 else "like", "time_us": number})
        await socket.close()
        return socket

    server = web.Application()
    server.router.add_get("/subscribe", source)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    worker = load(EXAMPLES / "cloudflare_firehose")
    try:
        async with worker.app.run("memory:"):
            with worker.env._patch(SOURCE=f"ws://127.0.0.1:{port}/subscribe?a=1"):
                reader = worker.env.READER.getByName("one")
                for total in (150, 300):
                    await reader.start()
                    async with asyncio.timeout(20):
                        while sum((seen := await reader.seen())["counts"].values()) < total or seen["is_connected"]:  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
                await reader.stop()
                assert seen["counts"] in (
                    {"post": 150, "like": 150},
                    {"post": 151, "like": 149},
                    {"post": 149, "like": 151},
                )
                assert asked == [None, "100"]
    finally:
        worker.unload()
        await runner.cleanup()


async def test_a_page_of_another_server_gets_tags_for_its_preview() -> None:
    async def page(_: web.Request) -> web.Response:
        answer = web.Response(
            text="<html><HEAD><meta property='og:title' content=old><title>é</title></HEAD><p>x</html>",
            content_type="text/html",
        )
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    server = web.Application()
    server.router.add_get("/{name}", page)
    runner = web.AppRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    worker = load(EXAMPLES / "cloudflare_opengraph")
    try:
        async with worker.app.run("memory:"):
            with worker.env._patch(ORIGIN=f"http://127.0.0.1:{runner.addresses[0][1]}"):
                answer = await worker.fetch(Request("http://localhost/two-words?a=1&b"))
                assert (answer.headers.get("content-type"), answer.headers.get("content-length")) == (
                    "text/html; charset=utf-8",
                    None,
                )
                assert await answer.text() == (
                    '<html><HEAD><title>é</title><meta property="og:title" content="Two words">'
                    '<meta property="og:type" content="article">'
                    '<meta property="og:url" content="http://localhost/two-words?a=1&amp;b"></HEAD><p>x</html>'
                )
    finally:
        worker.unload()
        await runner.cleanup()


async def test_an_expense_waits_for_a_person_and_is_paid_once() -> None:
    async with played(EXAMPLES / "cloudflare_workflow") as (worker, world):

        async def ask(path: str, body: Any = None) -> Any:
            options = {} if body is None else {"method": "POST", "body": json.dumps(body)}
            return await (await worker.fetch(Request(f"http://localhost{path}", **options))).json()

        assert await ask("/?id=lunch", {"amount": 12, "currency": "EUR"}) == {"id": "lunch"}
        assert await ask("/?id=car", {"amount": 900, "currency": "CHF"}) == {"id": "car"}
        assert await ask("/?id=late", {"amount": 900, "currency": "CHF"}) == {"id": "late"}
        assert await ask("/?id=odd", {"amount": 1, "currency": "gold"}) == {"id": "odd"}
        await world.advance("1d")
        lunch = {"paid": 12.0, "by": None, "receipt": "receipt lunch, attempt 1"}
        assert await ask("/?id=lunch") == {"status": "complete", "error": None, "output": lunch}
        assert (await ask("/?id=odd"))["error"]["name"] == "NonRetryableError"
        assert (await ask("/?id=car"))["status"] == "waiting"
        await world.crash()
        await world.restart(after="1h")
        await ask("/allow?id=car", {"by": "eve"})
        await world.advance("8d")
        car = {"paid": 990.0, "by": "eve", "receipt": "receipt car, attempt 1"}
        assert (await ask("/?id=car"))["output"] == car
        assert (await ask("/?id=late"))["output"] == {"paid": None, "why": "nobody allowed it"}
