"""Watching a machine from outside: its snapshots and events over HTTP, as far as its class lets the caller see them."""

import asyncio
import json
from typing import Any

import pytest

from tests.http.client_stage import Shop, client_of, in_thread, served
from tests.http.events_reader import Reader
from tests.http.http_stage import opened
from tests.http.watch_stage import PATH, PATH_OF, Socket, make_app, send, short, told
from wakeful import Client, errors
from wakeful.client import looks
from wakeful.http.machine_watch import plain_snapshot
from wakeful.machines.snapshot import Snapshot
from wakeful.security.tokens import ALL


async def test_snapshots_and_emitted_events_as_they_come() -> None:
    async with opened(make_app()) as stage, Reader(stage, PATH) as reader:
        assert reader.status == 200
        assert short(told(reader)[0]) == (None, {})
        assert told(reader)[0][1]["status"] == "new"
        await send(stage, "OPEN")
        await stage.world.settle()
        news = told(reader)
        assert [short(one) for one in news[1:]] == [
            ("shut", {"code": 1234, "opened": 0}),
            ("emitted", {"type": "creak"}),
            ("open", {"code": 1234, "opened": 1}),
        ]
        assert news[-1][1]["due"] == {"xstate.after.10s.Door.open": "2026-01-01T00:00:10+00:00"}
        await stage.world.advance(seconds=60)
        assert short(told(reader)[-1]) == ("shut", {"code": 1234, "opened": 1})
        assert ": still here" in reader.text  # proxies close what is silent
        await stage.ask("POST", f"{PATH_OF}snapshot")
        await stage.world.settle()
        assert len(told(reader)) == 5  # a look is no news


async def test_a_caller_sees_what_the_class_lets_its_token_see() -> None:
    async with opened(make_app()) as stage:
        tokens = {name: await stage.token(name, "call") for name in ("owner", "guest", "stranger")}
        headers = {name: {"authorization": f"Bearer {token}"} for name, token in tokens.items()}
        async with (
            Reader(stage, PATH, headers["owner"]) as owner,
            Reader(stage, PATH, headers["guest"]) as guest,
            Reader(stage, PATH, headers["stranger"]) as stranger,
        ):
            await send(stage, "OPEN", token=tokens["owner"])
            await stage.world.settle()
            assert [short(one) for one in told(owner)[1:]] == [
                ("shut", {"code": 1234, "opened": 0}),
                ("emitted", {"type": "creak"}),
                ("open", {"code": 1234, "opened": 1}),
            ]
            assert [short(one) for one in told(guest)[1:]] == [("shut", {"opened": 0}), ("open", {"opened": 1})]
            assert (stranger.status, told(stranger)) == (200, [])
            assert "1234" not in guest.text + stranger.text


async def test_what_calls_answer_is_what_the_caller_may_see() -> None:
    async with opened(make_app()) as stage:
        owner, guest, stranger = [await stage.token(name, "call") for name in ("owner", "guest", "stranger")]
        assert (await send(stage, "OPEN", token=guest))["context"] == {"opened": 1}
        for token, seen in ((owner, {"code": 1234, "opened": 1}), (guest, {"opened": 1})):
            answer = await stage.ask("POST", f"{PATH_OF}snapshot", token=token)
            assert answer.json()["result"]["context"] == seen
        assert (await stage.ask("POST", f"{PATH_OF}snapshot", token=stranger)).json() == {"result": None}
        job = await stage.ask(
            "POST", "/v1/jobs", json={"class": "Door", "key": "front", "method": "snapshot"}, token=guest
        )
        await stage.world.advance(seconds=5)
        answer = await stage.ask("GET", f"/v1/jobs/{job.json()['id'].replace('/', '%2F')}/wait", token=guest)
        assert answer.json()["result"]["context"] == {"opened": 1}, answer.text


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/objects/Plain/p/watch", 404, "machine.class"),
        ("/v1/objects/Nobody/p/watch", 404, "machine.class"),
        ("/v1/objects/Door/front/watch?x=1", 400, "query.unknown"),
    ],
)
async def test_what_can_not_be_watched_has_a_status(path: str, status: int, code: str) -> None:
    async with opened(make_app()) as stage:
        answer = await stage.ask("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_who_may_not_call_may_not_watch() -> None:
    async with opened(make_app()) as stage:
        reading = await stage.token("reader", "read")
        bound = await stage.token("bound", "call", tenant="eu/")
        for token, code in ((reading, "scope"), (bound, "tenant")):
            answer = await stage.ask("GET", PATH, token=token)
            assert answer.status_code == 403
            assert code in answer.json()["code"]


async def test_head_is_short_and_a_stop_says_gone() -> None:
    async with opened(make_app()) as stage:
        answer = await stage.ask("HEAD", PATH)
        assert answer.headers["content-type"].startswith("text/event-stream")
        async with Reader(stage, PATH) as reader:
            stage.site.hang_up()
            await stage.world.settle()
            assert told(reader)[-1] == ("gone", {})


async def test_the_same_over_a_websocket() -> None:
    async with opened(make_app()) as stage:
        await send(stage, "OPEN")
        guest = await stage.token("guest", "call")
        owner = await stage.token("owner", "call")
        async with (
            Socket(stage, authorization=f"Bearer {owner}") as wide,
            Socket(stage, authorization=f"Bearer {guest}") as narrow,
        ):
            assert wide.sent[0]["type"] == "websocket.accept"
            await stage.world.advance(seconds=10)
            await send(stage, "OPEN", token=owner)
            await stage.world.settle()
            seen = [one["snapshot"]["context"] if one["kind"] == "snapshot" else one["event"] for one in wide.texts]
            full = [{"code": 1234, "opened": n} for n in (1, 1, 2)]
            assert seen == [*full[:2], {"type": "creak"}, full[2]]
            assert [one["snapshot"]["context"] for one in narrow.texts] == [{"opened": n} for n in (1, 1, 2)]
            narrow.say({"type": "websocket.receive", "text": "OPEN"})
            await stage.world.settle()
            assert (narrow.sent[-1]["type"], narrow.sent[-1]["code"]) == ("websocket.close", 1003)
        async with Socket(stage) as nobody:
            assert (nobody.sent[0]["type"], nobody.sent[0]["status"]) == ("websocket.http.response.start", 401)
        async with Socket(stage, "/v1/objects/Plain/p/watch", authorization=f"Bearer {owner}") as plain:
            assert plain.sent[0]["status"] == 404


async def test_a_token_that_is_over_ends_what_it_opened() -> None:
    async with opened(make_app()) as stage:
        token = await stage.token("owner", "call")
        headers = {"authorization": f"Bearer {token}"}
        async with Reader(stage, PATH, headers) as reader, Socket(stage, **headers) as socket:
            await stage.world.node.send(ALL, "revoke", ("owner",), {})
            await stage.world.advance(seconds=5)
            assert told(reader)[-1] == ("gone", {})
            assert (socket.sent[-1]["type"], socket.sent[-1]["code"]) == ("websocket.close", 1008)


async def test_the_client_watches_too() -> None:
    async with served(make_app()) as shop, client_of(shop) as client:
        news = client.watch("Door", "front")
        first = await anext(news)
        assert isinstance(first, Snapshot)
        assert (first.status, first.value) == ("new", None)
        sent = await client.get("Door", "front").send("OPEN")
        seen = [await anext(news) for _ in range(3)]
        assert seen[1:] == [{"type": "creak"}, sent]
        assert list(sent.due) == ["xstate.after.10s.Door.open"]
        await news.aclose()  # type: ignore[attr-defined]
        with pytest.raises(errors.WakefulError, match="no Machine"):
            await anext(client.watch("Plain", "p"))


async def test_after_a_connection_that_broke_only_what_changed_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "AGAIN_S", 0.01)
    unfit = {"status": 409, "code": "chart.unfit", "error": "Conflict", "detail": "Door/front does not fit its chart"}
    answers = [
        [("snapshot", told_of(1))],
        [("snapshot", told_of(1)), ("emitted", {"type": "creak"}), ("snapshot", told_of(2))],
        [("snapshot", told_of(2)), ("problem", unfit)],
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        frames = [f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in answers.pop(0)]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + "".join(frames).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        news = client.watch("Door", "front")
        seen: list[Any] = [await anext(news) for _ in range(3)]
        assert [seen[0].context["n"], seen[1]["type"], seen[2].context["n"]] == [1, "creak", 2]
        with pytest.raises(errors.Conflict, match="does not fit"):
            await anext(news)


def told_of(n: int) -> dict[str, Any]:
    return {"to": 1, "snapshot": plain_snapshot(Snapshot(value="open", context={"n": n}, status="active"))}


async def test_the_blocking_client_watches_too() -> None:
    def work(shop: Shop) -> None:
        with Client.sync(shop.url) as client:
            client.get("Door", "front").send("OPEN")
            for news in client.watch("Door", "front"):
                assert isinstance(news, Snapshot)
                assert news.matches("open")
                break

    async with served(make_app()) as shop:
        await in_thread(lambda: work(shop))
