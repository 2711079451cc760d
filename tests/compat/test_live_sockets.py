"""Sockets that are listened to in memory: `accept()` in an object and in the Worker itself."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.compat.test_sockets import Client
from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import load
from wakeful.compat.workers.conduits import conduits_of
from wakeful.compat.workers.live_sockets import LiveSocket
from wakeful.compat.workers.site import LiveConnection, serving
from wakeful.compat.workers.streams import ReadableStream
from wakeful.http.stops import Stops

CODE = """
    import asyncio, json
    from js import WebSocketPair
    from pyodide.ffi import create_proxy
    from workers import DurableObject, Response, WorkerEntrypoint

    log = []

    class Sample(DurableObject):
        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.clients = []

        async def fetch(self, request):
            client, server = WebSocketPair.new().object_values()
            server.accept()
            self.clients.append(server)
            server.addEventListener("message", create_proxy(self.on_message))
            def on_close(event):
                log.append(["close", event.code, event.reason, event.wasClean, server.readyState])
                self.clients.remove(server)
            server.onclose = on_close
            server.send(f"welcome, {len(self.clients)} here")
            return Response(None, status=101, web_socket=client)

        async def on_message(self, event):
            if event.data == "leave":
                event.target.close(4000, "as you wish")
                try:
                    event.target.send("more")
                except TypeError as error:
                    log.append("TypeError")
                return
            if event.data == "bare":
                return event.target.close()
            if event.data == "slow":
                await asyncio.sleep(5)
            if event.data == "raise":
                raise ValueError("stays open")
            n = (await self.ctx.storage.get("n") or 0) + 1
            await self.ctx.storage.put("n", n)
            for client in self.clients:
                client.send(event.data if isinstance(event.data, bytes) else f"{n}: {event.data}")

        async def count(self):
            return len(self.clients)

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "worker" in request.url:
                client, server = WebSocketPair.new().object_values()
                server.accept()
                server.addEventListener("message", lambda event: server.send(event.data.upper()))
                return Response(None, status=101, web_socket=client)
            if "open" in request.url:
                return Response(None, status=101, web_socket=WebSocketPair.new()[0])
            return await self.env.SAMPLE.getByName("room").fetch(request)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def begun(client: Client) -> None:
    assert (await client.hear())["type"] == "accept"


@pytest.mark.parametrize(("nodes", "name"), [(1, "room"), (3, "hall")])
async def test_an_object_listens_in_memory_and_stays_awake_for_it(tmp_path: Path, nodes: int, name: str) -> None:
    folder = write_worker(tmp_path, CODE.replace('"room"', f'"{name}"'))
    async with played(folder, **({"nodes": nodes} if nodes > 1 else {})) as (worker, world):
        one, two = Client(worker, "/a"), Client(worker, "/b")
        await begun(one)
        await begun(two)
        assert await one.hear() == "welcome, 1 here"
        assert await two.hear() == "welcome, 2 here"
        one.say("slow")  # which holds nobody up
        two.say("hello")
        assert [await one.hear(), await two.hear()] == ["1: hello"] * 2
        assert [await one.hear(), await two.hear()] == ["2: slow"] * 2
        await world.advance("10m")
        assert await worker.env.SAMPLE.getByName(name).count() == 2
        is_here = any(id.key == name for id in worker.app.deployment.node.awake)  # type: ignore[union-attr]
        assert is_here == (nodes == 1), "or it would not show how it is between nodes"
        two.say(b"\0\1")
        assert [await one.hear(), await two.hear()] == [b"\0\1"] * 2
        one.say("raise")
        one.say("leave")
        assert await one.hear() == {"type": "close", "code": 4000, "reason": "as you wish"}
        one.leave(4000, "as you wish")
        await one.task
        two.leave(1001, "bye")
        await two.task
        await world.settle()
        assert worker.module.log == [
            "TypeError",
            ["close", 4000, "as you wish", True, 3],
            ["close", 1001, "bye", True, 3],
        ]
        assert await worker.env.SAMPLE.getByName(name).count() == 0
        await world.advance("2m")
        everywhere = [member.node for member in world.members] or [world.node]
        assert not any(node.awake for node in everywhere)  # type: ignore[union-attr]


async def test_the_worker_itself_listens(folder: Path) -> None:
    async with played(folder) as (worker, _):
        client = Client(worker, "/worker")
        await begun(client)
        client.say("hello")
        assert await client.hear() == "HELLO"
        client.leave(1000, "")
        await client.task


async def test_a_pair_that_nobody_accepted_is_an_error(folder: Path) -> None:
    async with played(folder) as (worker, _):
        client = Client(worker, "/open")
        with pytest.raises(TypeError, match="accept the other end"):
            await client.task


async def test_a_client_that_does_not_read_is_closed_and_its_object_goes_on(folder: Path) -> None:
    async with played(folder) as (worker, world):
        conduits = conduits_of(worker.app.deployment.node)
        socket = LiveSocket()
        socket.accept()
        closed: list[Any] = []

        class Wire:
            async def send(self, message: Any) -> None:
                await asyncio.sleep(3600)

            async def close(self, code: int, reason: str) -> None:
                closed.append((code, reason))

        events: asyncio.Queue[Any] = asyncio.Queue()
        connection = LiveConnection(conduits, conduits.offer(ReadableStream(socket.out), None, socket.hear), 1_000)

        async def accept(event: Any) -> None: ...

        carrying = asyncio.ensure_future(connection.carry(Stops(), "", Wire(), events.get, accept))
        socket.send("first")
        await world.advance("1s")
        for _ in range(17):
            with suppress(ValueError, TypeError):
                socket.send(b"x" * (1 << 20))
        await world.advance("2h")
        assert closed == [(1013, "the client reads too slowly")]
        events.put_nowait({"type": "websocket.disconnect", "code": 1013})
        await carrying
        assert socket.readyState == 3


async def test_a_close_without_a_code_is_one_without_a_code(folder: Path) -> None:
    worker = load(folder)
    async with (
        worker.app.run("memory:"),
        serving(worker, "127.0.0.1:0") as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/a", autoclose=False) as socket,
    ):
        assert await socket.receive_str(timeout=30) == "welcome, 1 here"
        await socket.send_str("bare")
        end = await socket.receive(timeout=30)
        assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 0)  # how aiohttp says that there is none
    worker.unload()


async def test_what_is_wrong_with_a_close_is_said() -> None:
    socket = LiveSocket()
    with pytest.raises(TypeError, match="a code with the reason"):
        socket.close(None, "why")
    for code in (999, 1005, 1006, 5000):
        with pytest.raises(TypeError, match="close code"):
            socket.close(code)
    with pytest.raises(Exception, match="not open yet"):
        socket.send("x")
    told: list[Any] = []
    socket.addEventListener("message", told.append)
    socket.accept()
    await socket.hear([0, "a"])
    await asyncio.sleep(0.01)
    socket.removeEventListener("message", told.append)
    await socket.hear([0, "b"])
    await asyncio.sleep(0.01)
    assert [event.data for event in told] == ["a"]


CLOSING = """
    import json
    from js import WebSocketPair
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        async def fetch(self, request):
            client, server = WebSocketPair.new().object_values()
            self.ctx.acceptWebSocket(server, ["all"])
            return Response(None, status=101, web_socket=client)

        async def webSocketMessage(self, ws, message):
            if message == "tag":
                try:
                    self.ctx.acceptWebSocket(WebSocketPair.new()[1], [""])
                except Exception as error:
                    ws.send(str(error))
                return
            ws.close(4001, "done")
            try:
                ws.send("more")
            except TypeError:
                await self.ctx.storage.put("after", [ws.readyState, len(self.ctx.getWebSockets())])

        async def webSocketClose(self, ws, code, reason, was_clean):
            there = [one is ws for one in self.ctx.getWebSockets("all")]
            await self.ctx.storage.put("in", [code, ws.readyState, there])
            ws.close(4002, "seen")
            self.last = ws

        async def kept(self):
            return [await self.ctx.storage.get("after"), await self.ctx.storage.get("in"), self.last.readyState,
                    len(self.ctx.getWebSockets())]

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            return await self.env.SAMPLE.getByName("room").fetch(request)
"""


async def test_a_socket_that_closes_is_there_until_its_object_was_told(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CLOSING)) as (worker, world):
        client = Client(worker, "/")
        await begun(client)
        client.say("tag")
        assert "a tag is text of 1 to 256 characters" in str(await client.hear())
        client.say("close")
        assert await client.hear() == {"type": "close", "code": 4001, "reason": "done"}
        client.leave(4001, "done")
        await client.task
        await world.settle()
        found = json.loads(json.dumps(await worker.env.SAMPLE.getByName("room").kept()))
        assert found == [[2, 1], [4001, 2, [True]], 3, 0]
