"""Hibernating WebSockets of a Worker's objects."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Worker, load
from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.site import WorkerSite, serving
from wakeful.sockets import records as keeping
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import SocketRequest as SocketRequest
from wakeful.values.ids import ObjectId

CODE = """
    import asyncio, json
    from js import Object, WebSocketPair, WebSocketRequestResponsePair
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.count = 0
            ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))

        async def fetch(self, request):
            if request.headers.get("Upgrade") != "websocket":
                return Response("a socket, please", status=426)
            client, server = Object.values(WebSocketPair.new())
            self.ctx.acceptWebSocket(server, ["all", request.url[-1]])
            server.serializeAttachment({"name": request.url[-1]})
            server.send(f"welcome, {len(self.ctx.getWebSockets())} here")
            return Response(None, status=101, web_socket=client)

        async def webSocketMessage(self, ws, message):
            self.count += 1
            name = ws.deserializeAttachment().name
            if message == "raise":
                self.ctx.storage.put("raised", 1)
                raise ValueError("stays open")
            if message == "state":
                found = [await self.ctx.storage.list(), ws.deserializeAttachment(), self.ctx.getTags(ws), self.count]
                ws.send(json.dumps([*found, self.ctx.getWebSocketAutoResponse().request]))
            elif message == "leave":
                ws.close(4000, "as you wish")
            elif message == "slowly":
                for number in range(4):
                    ws.send(str(number))
                    await self.ctx.storage.put("sent", number)
                    await asyncio.sleep(30)
            elif message == "later":
                self.ctx.waitUntil(self.later(ws))
            else:
                for other in self.ctx.getWebSockets("all"):
                    other.send(message if isinstance(message, bytes) else f"{name}: {message}")

        async def later(self, ws):
            await asyncio.sleep(20)
            ws.send("later")

        async def webSocketClose(self, ws, code, reason, was_clean):
            ws.close(code, reason)
            await self.ctx.storage.put("left", [code, reason, was_clean, ws.deserializeAttachment()])

        async def alarm(self):
            for ws in self.ctx.getWebSockets():
                ws.send("ring")

        async def ring(self):
            await self.ctx.storage.setAlarm(1)

        async def names(self):
            return [ws.deserializeAttachment().name for ws in self.ctx.getWebSockets()]

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "forbidden" in request.url:
                return Response("no", status=403)
            return await self.env.SAMPLE.getByName("room").fetch(request)
"""


class Client:
    """A client of the Worker, on the other side of ASGI."""

    def __init__(self, worker: Worker, path: str, query: str = "") -> None:
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self._incoming.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "scheme": "ws", "path": path, "headers": [(b"host", b"there")]}
        scope |= {"extensions": {"websocket.http.response": {}}, "query_string": query.encode(), "subprotocols": []}
        site = WorkerSite(worker)
        self.task = asyncio.get_running_loop().create_task(
            site(scope, self._incoming.get, self._outgoing.put)  # type: ignore[arg-type]
        )

    def say(self, message: str | bytes) -> None:
        kind = "text" if isinstance(message, str) else "bytes"
        self._incoming.put_nowait({"type": "websocket.receive", kind: message})

    def leave(self, code: int, reason: str) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    async def hear(self) -> Any:
        event = await asyncio.wait_for(self._outgoing.get(), 60)
        kind = event["type"].removeprefix("websocket.")
        return event.get("text", event.get("bytes")) if kind == "send" else {**event, "type": kind}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def test_sockets_of_an_object_talk_to_each_other_over_its_sleep(folder: Path) -> None:
    async with played(folder) as (worker, world):
        one, two = Client(worker, "/a"), None
        assert (await one.hear())["type"] == "accept"
        assert await one.hear() == "welcome, 1 here"
        two = Client(worker, "/b")
        assert (await two.hear())["type"] == "accept"
        assert await two.hear() == "welcome, 2 here"
        one.say("hello")
        assert [await one.hear(), await two.hear()] == ["a: hello"] * 2
        two.say(b"\0\1")
        assert [await one.hear(), await two.hear()] == [b"\0\1"] * 2
        await world.advance("1m")  # it sleeps, the sockets stay
        one.say("state")
        assert json.loads(await one.hear()) == [{}, {"name": "a"}, ["all", "a"], 1, "ping"]
        assert await worker.env.SAMPLE.getByName("room").names() == ["a", "b"]
        one.leave(4001, "bye")
        await one.task
        two.say("state")
        rows = json.loads(await two.hear())[0]
        assert rows == {"left": [4001, "bye", True, {"name": "a"}]}
        two.leave(1000, "")
        await two.task


async def test_what_is_sent_arrives_while_the_handler_runs_and_no_deadline_ends_that(folder: Path) -> None:
    async with played(folder) as (worker, world):
        client = Client(worker, "/a")
        assert [(await client.hear())["type"], await client.hear()] == ["accept", "welcome, 1 here"]
        client.say("slowly")
        heard = []
        for _ in range(4):
            said = await client.hear()
            heard.append((said, round(world.now().timestamp()) - (heard[0][1] if heard else 0)))
        assert [said for said, _ in heard] == ["0", "1", "2", "3"]
        assert [at for _, at in heard[1:]] == [30, 60, 90]
        assert await worker.env.SAMPLE.getByName("room").names() == ["a"], "others are answered meanwhile"
        client.say("ping")
        before = world.now()
        assert [await client.hear(), world.now()] == ["pong", before], "an automatic answer waits for no handler"
        client.say("state")
        assert json.loads(await client.hear())[0] == {"sent": 3}
        client.leave(1000, "")
        await client.task


async def test_a_text_is_answered_without_waking_the_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        client = Client(worker, "/a")
        assert [(await client.hear())["type"], await client.hear()] == ["accept", "welcome, 1 here"]
        await world.advance("1m")
        client.say("ping")
        assert await client.hear() == "pong"
        client.say("state")
        assert json.loads(await client.hear())[3] == 1, "the first message that it has seen"
        client.leave(1000, "")
        await client.task


async def test_a_handler_that_raises_leaves_the_socket_open_and_its_writes(folder: Path) -> None:
    async with played(folder) as (worker, _):
        client = Client(worker, "/a")
        assert [(await client.hear())["type"], await client.hear()] == ["accept", "welcome, 1 here"]
        client.say("raise")
        client.say("state")
        assert json.loads(await client.hear())[0] == {"raised": 1}
        client.say("leave")
        assert await client.hear() == {"type": "close", "code": 4000, "reason": "as you wish"}
        client.leave(4000, "as you wish")
        await client.task


async def test_an_alarm_and_work_after_the_answer_reach_the_client(folder: Path) -> None:
    async with played(folder) as (worker, world):
        client = Client(worker, "/a")
        assert [(await client.hear())["type"], await client.hear()] == ["accept", "welcome, 1 here"]
        client.say("later")
        assert await client.hear() == "later"
        await world.advance("1m")
        await worker.env.SAMPLE.getByName("room").ring()
        assert await client.hear() == "ring"
        client.leave(1001, "")
        await client.task


async def test_what_the_worker_refuses_is_refused(folder: Path) -> None:
    async with played(folder) as (worker, _):
        client = Client(worker, "/forbidden")
        start, body = await client.hear(), await client.hear()
        assert (start["status"], body["body"]) == (403, b"no")
        await client.task


async def test_nobody_comes_past_the_workers_fetch(folder: Path) -> None:
    async with played(folder) as (_, world):
        gateway = feature_of(world.node).gateway
        with pytest.raises(Exception, match="through the Worker's fetch"):
            await gateway.connect(ObjectId("Sample", "room"), SocketRequest(headers={"pair": ""}), None)  # type: ignore[arg-type]


SENDS_ONLY = """
    from js import WebSocketPair
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.found = [[ws.deserializeAttachment(), ctx.getTags(ws)] for ws in ctx.getWebSockets()]

        async def fetch(self, request):
            client, server = WebSocketPair.new().object_values()
            self.ctx.acceptWebSocket(server, ["all"])
            server.serializeAttachment(request.url[-1])
            return Response(None, status=101, web_socket=client)

        async def tell(self, text):
            for ws in self.ctx.getWebSockets():
                ws.send(text)
            return self.found

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            return await self.env.SAMPLE.getByName("room").fetch(request)
"""


async def test_an_object_that_only_sends_has_sockets_too_and_its_constructor_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = keeping.scan

    async def scanned(*args: Any, **kwargs: Any) -> Any:  # by a store that has to be waited for
        await asyncio.sleep(0)
        return await scan(*args, **kwargs)

    monkeypatch.setattr(keeping, "scan", scanned)
    async with played(write_worker(tmp_path, SENDS_ONLY)) as (worker, world):
        room = worker.env.SAMPLE.getByName("room")
        assert await room.tell("to nobody") == []
        client = Client(worker, "/a")
        assert (await client.hear())["type"] == "accept"
        client.say("nobody listens")
        assert await room.tell("one") == []
        assert await client.hear() == "one"
        await world.advance("1m")
        assert await room.tell("two") == [["a", ["all"]]]
        assert await client.hear() == "two"
        client.leave(1000, "")
        await client.task
        await world.settle()
        assert await room.tell("to nobody") == [["a", ["all"]]]
        await world.advance("1m")
        assert await room.tell("to nobody") == []


async def test_a_client_that_never_came_is_not_awaited_for_ever(tmp_path: Path) -> None:
    async with played(
        write_worker(tmp_path, SENDS_ONLY.replace("return self.found", "return len(self.ctx.getWebSockets())"))
    ) as (worker, world):
        room = worker.env.SAMPLE.getByName("room")
        answer = await room.fetch("http://there/a")  # and nobody makes the connection
        assert (answer.status, await room.tell("anybody?")) == (101, 1)
        for _ in range(13):  # it stays awake
            await world.advance("5s")
            found = await room.tell("anybody?")
        assert found == 0


async def test_sockets_are_served_with_the_limits_of_all_others(folder: Path) -> None:
    worker = load(folder)
    async with (
        worker.app.run("memory:"),
        serving(worker, "127.0.0.1:0") as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/a", compress=15) as socket,
    ):
        assert await socket.receive_str(timeout=30) == "welcome, 1 here"
        assert socket.compress == 0, "a window of 32 KiB for each idle socket"
        await socket.send_bytes(b"x" * 900_000)
        assert len(await socket.receive_bytes(timeout=30)) == 900_000
        await socket.send_bytes(b"x" * (worker.app.deployment.limits.socket_message_bytes + 1))
        assert (await socket.receive(timeout=30)).data == 1009
    worker.unload()


EVENTS = """
    import asyncio
    from js import Object, WebSocketPair, WebSocketRequestResponsePair
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        async def fetch(self, request):
            client, server = Object.values(WebSocketPair.new())
            self.ctx.acceptWebSocket(server)
            self.ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))
            return Response(None, status=101, web_socket=client)

        async def webSocketMessage(self, ws, message):
            if message == "leave":
                ws.close(1009, "as you wish")
            if message == "slowly":
                await self.ctx.storage.put("began", 1)
                await asyncio.sleep(30)
                await self.ctx.storage.put("ended", 1)

        async def webSocketClose(self, ws, code, reason, was_clean):
            await self.ctx.storage.put("closed", [code, was_clean])

        async def webSocketError(self, ws, error):
            await self.ctx.storage.put("broken", [str(error), ws.readyState])

        def limit(self, ms=None):
            self.ctx.setHibernatableWebSocketEventTimeout(ms)

        def limit_now(self):
            return self.ctx.getHibernatableWebSocketEventTimeout()

        def answered(self):
            found = [self.ctx.getWebSocketAutoResponseTimestamp(ws) for ws in self.ctx.getWebSockets()]
            return [None if one is None else one.getTime() for one in found]

        async def stored(self):
            return await self.ctx.storage.list()

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            return await self.env.SAMPLE.getByName("room").fetch(request)
"""


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (1002, "", {"broken": ["Error: the connection broke with 1002: no WebSocket frame", 2]}),
        (1009, "too long", {"broken": ["Error: the connection broke with 1009: too long", 2]}),
        (1006, "", {"closed": [1006, False]}),
        (1001, "bye", {"closed": [1001, True]}),
    ],
)
async def test_a_connection_that_breaks_for_what_was_said_is_an_error_and_one_that_is_left_a_close(
    tmp_path: Path, code: int, reason: str, told: dict[str, Any]
) -> None:
    async with played(write_worker(tmp_path, EVENTS)) as (worker, world):
        client = Client(worker, "/")
        assert (await client.hear())["type"] == "accept"
        client.leave(code, reason)
        await world.settle()
        assert await worker.env.SAMPLE.getByName("room").stored() == told


async def test_a_code_that_the_object_itself_closes_with_is_no_error(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, EVENTS)) as (worker, world):
        client = Client(worker, "/")
        await client.hear()
        client.say("leave")
        assert (await client.hear())["code"] == 1009
        client.leave(1009, "as you wish")
        await world.settle()
        assert await worker.env.SAMPLE.getByName("room").stored() == {"closed": [1009, True]}


async def test_when_the_automatic_answer_was_had_last_is_known_wherever_the_client_is(tmp_path: Path) -> None:
    for nodes in (None, 3):
        async with played(write_worker(tmp_path, EVENTS), **({} if nodes is None else {"nodes": nodes})) as (
            worker,
            world,
        ):
            sample = worker.env.SAMPLE.getByName("room")
            client, silent = Client(worker, "/"), Client(worker, "/")
            await client.hear()
            await silent.hear()
            assert await sample.answered() == [None, None]
            await world.advance("1m")
            client.say("ping")
            assert await client.hear() == "pong"
            at = round(world.now().timestamp() * 1000)
            await world.advance("1m")
            [answered] = [one for one in await sample.answered() if one is not None]
            assert abs(answered - at) < 1_000


async def test_a_handler_runs_for_as_long_as_the_object_says_also_after_its_sleep(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, EVENTS)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("room")
        await sample.limit(5_000)
        for bad in (-1, 1.5, 604_800_001, "5"):
            with pytest.raises(JsException, match="milliseconds"):
                await sample.limit(bad)
        client = Client(worker, "/")
        await client.hear()
        await world.crash()
        await world.restart()
        assert await sample.limit_now() == 5_000
        client = Client(worker, "/")
        await client.hear()
        client.say("slowly")
        await world.advance("1m")
        assert "ended" not in await sample.stored()
        await sample.limit()
        client.say("slowly")
        await world.advance("1m")
        assert (await sample.stored())["ended"] == 1
