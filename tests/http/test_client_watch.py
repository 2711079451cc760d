"""The client's watch: states put together of patches, waiting for one, sending, through breaks and restarts of the server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.http.client_stage import Shop, client_of, in_thread, served
from tests.http.watch_stage import make_app
from wakeful import App, Client, Machine, assign, errors, guard
from wakeful.client import looks
from wakeful.machines.snapshot import Snapshot
from wakeful.server import serving


def counting() -> App:
    app = App()

    @app.object
    class Counter(Machine):
        chart = {
            "initial": "low",
            "context": {"n": 0, "lines": []},
            "states": {
                "low": {"always": {"guard": "is_high", "target": "high"}, "on": {"ADD": {"actions": "add"}}},
                "high": {},
            },
        }

        @guard
        def is_high(self, context: Any, event: Any) -> bool:
            return bool(context["n"] >= 20)

        @assign
        def add(self, context: Any, event: Any) -> Any:
            n = context["n"] + 1
            return {"n": n, "lines": [*context["lines"], {"n": n, "text": "a line of some length", "a/b~c": [n]}]}

    return app


async def test_states_are_put_together_of_patches_and_are_those_of_the_machine() -> None:
    async with served(counting()) as shop, client_of(shop) as client, client.watch("Counter", "c") as watch:
        seen: list[Any] = []

        async def look() -> None:
            async for news in watch:
                assert isinstance(news, Snapshot)
                seen.append(news)

        looking = asyncio.ensure_future(look())
        waiting = asyncio.ensure_future(watch.wait_for("high", timeout="30s"))
        last = None
        for _ in range(20):
            last = await client.get("Counter", "c").send("ADD")
        assert await waiting == last
        assert [one.context["n"] for one in seen if one.context] == list(range(21))
        looking.cancel()


async def test_wait_for_and_send_as_in_the_program() -> None:
    async with served(make_app()) as shop, client_of(shop) as client, client.watch("Door", "front") as door:
        sent = await door.send("OPEN")
        assert sent is not None
        assert sent.matches("open")
        assert (await door.wait_for("open", timeout="10s")).context["opened"] == 1
        with pytest.raises(errors.DeadlineExceeded, match="was not 'broken' within 50ms"):
            await door.wait_for("broken", timeout="50ms")
        with pytest.raises(errors.BadValue, match="no event"):
            await door.send({"no": "type"})
        assert door.snapshot == sent


async def test_what_is_sent_through_connections_that_break_is_taken_once() -> None:
    async with served(make_app()) as shop, client_of(shop, is_shaky=True) as client:
        watch = client.watch("Door", "front")
        shop.shaky.plan += ["cut", "drop"]
        sent = await watch.send("OPEN")
        assert sent is not None
        assert sent.context["opened"] == 1
        assert len(shop.shaky.keys()) == 3
        assert len(set(shop.shaky.keys())) == 1


async def test_the_server_is_restarted_while_somebody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "AGAIN_S", 0.05)
    monkeypatch.setattr(looks, "AGAIN_MAX_S", 0.1)
    store = f"sqlite:{tmp_path / 'w.db'}"
    app = counting()
    async with app.run(store) as node, serving(app, node, "127.0.0.1:0", dashboard=False) as place:
        client = Client(place.url)
        watch = client.watch("Counter", "c")
        for _ in range(5):
            await watch.send("ADD")
        assert (await watch.wait_for(lambda one: one.context.get("n") == 5, timeout="20s")).context["n"] == 5
        waiting = asyncio.ensure_future(watch.wait_for("high", timeout="60s"))
    app = counting()
    async with app.run(store) as node:
        for _ in range(10):  # which the client does not hear of
            await app.get(app.deployment.registry.by_name("Counter").cls, "c").send("ADD")  # type: ignore[attr-defined]
        async with serving(app, node, f"127.0.0.1:{place.port}", dashboard=False):
            for _ in range(5):
                await watch.send("ADD")
            found = await waiting
            assert (found.context["n"], len(found.context["lines"])) == (20, 20)
            await watch.aclose()
            await client.close()


async def test_a_patch_that_leads_on_from_elsewhere_is_never_applied() -> None:
    whole = {"value": "a", "context": {}, "status": "active", "tags": [], "output": None, "error": None}
    whole |= {"accepts": [], "refuses": [], "due": {}, "version": 1}
    frames = [
        ("snapshot", {"to": 1, "snapshot": whole}),
        ("patch", {"from": 2, "to": 3, "patch": [{"op": "replace", "path": "/value", "value": "c"}]}),
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        text = "".join(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in frames)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + text.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(url) as client, client.watch("Door", "front") as watch:
        assert isinstance(await anext(watch), Snapshot)
        with pytest.raises(errors.Unavailable, match="left out"):
            await anext(watch)
        assert watch.snapshot is not None
        assert watch.snapshot.value == "a"


async def test_the_same_without_awaiting() -> None:
    def work(shop: Shop) -> None:
        with Client.sync(shop.url) as client, client.watch("Door", "front") as door:
            assert door.snapshot is None
            assert door.send("OPEN").matches("open")
            assert door.wait_for("open", timeout="10s") == door.snapshot
            with pytest.raises(errors.DeadlineExceeded):
                door.wait_for("broken", timeout="20ms")
            assert next(iter(door)) is not None

    async with served(make_app()) as shop:
        await in_thread(lambda: work(shop))
