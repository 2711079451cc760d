"""A Worker's `fetch` to the world outside, against a server of the test's own."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Request, load
from wakeful.compat.workers.js_globals import AbortController
from wakeful.compat.workers.modules import modules
from wakeful.compat.workers.outbound import OutgoingSocket, fetch
from wakeful.compat.workers.site import request_in
from wakeful.compat.workers.site import serving as serve_worker


async def _echo(request: web.Request) -> web.Response:
    told = {"method": request.method, "host": request.host, "body": await request.text()}
    return web.json_response(told | {"headers": {name.lower(): value for name, value in request.headers.items()}})


async def _packed(request: web.Request) -> web.Response:
    answer = web.Response(text="hello " * 50, headers={"x-name": "日本"})
    answer.enable_compression(web.ContentCoding.gzip)
    return answer


async def _moved(request: web.Request) -> web.Response:
    raise web.HTTPFound("/echo")


_left: list[str] = []


async def _events(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    try:
        for number in range(1_000):
            await answer.write(b"%d " % number)
            await asyncio.sleep(0.01)
    except (ConnectionError, asyncio.CancelledError):
        _left.append("gone")
        raise
    return answer


async def _short(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-length": "1000000"})
    await answer.prepare(request)
    await answer.write(b"a part")
    assert request.transport is not None
    request.transport.close()
    return answer


async def _talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=["chat"])
    await socket.prepare(request)
    await socket.send_str(f"hello {request.headers.get('x-name', '')}")
    async for message in socket:
        if message.data == "end":
            await socket.close(code=4002, message=b"over")
        elif message.data == "break":
            assert request.transport is not None
            request.transport.abort()
        else:
            await (socket.send_str if isinstance(message.data, str) else socket.send_bytes)(message.data)
    _left.append(str(socket.close_code))
    return socket


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/echo", _echo)
    app.router.add_get("/packed", _packed)
    app.router.add_get("/events", _events)
    app.router.add_get("/short", _short)
    app.router.add_get("/talk", _talk)
    app.router.add_get("/moved", _moved)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_request_goes_out_and_its_answer_comes_back() -> None:
    async with serving() as origin:
        answer = await fetch(f"{origin}/echo", method="POST", headers={"x-a": "1"}, body=json.dumps({"a": 1}))
        assert (answer.status, answer.ok, answer.url, answer.redirected) == (200, True, f"{origin}/echo", False)
        told: Any = await answer.json()
        assert (told["method"], told["headers"]["x-a"], json.loads(told["body"])) == ("POST", "1", {"a": 1})


async def test_one_that_came_in_is_passed_on_without_what_was_about_its_way_here() -> None:
    async with serving() as origin:
        headers = [
            (b"host", b"shop.example"),
            (b"x-a", b"1"),
            (b"accept-encoding", b"br, zstd"),
            (b"content-length", b"4"),
        ]
        scope = {"type": "http", "method": "PUT", "path": "/x", "headers": headers, "scheme": "https"}
        incoming = request_in(scope, b"body")
        assert (incoming.url, incoming.redirect) == ("https://shop.example/x", "manual")
        told: Any = await (await fetch(Request(f"{origin}/echo", incoming))).json()
        assert (told["method"], told["host"], told["body"]) == ("PUT", origin.removeprefix("http://"), "body")
        assert told["headers"]["x-a"] == "1"
        assert "zstd" not in told["headers"]["accept-encoding"]  # who unpacks it says what can be unpacked


async def test_an_answer_is_unpacked_and_does_not_say_that_it_was_packed() -> None:
    async with serving() as origin:
        answer = await fetch(f"{origin}/packed")
        assert answer.headers.get("content-encoding") is None
        assert answer.headers.get("content-length") is None
        assert answer.headers.get("x-name") == "日本".encode().decode("latin-1")  # a byte a character, as there
        assert await answer.text() == "hello " * 50


async def test_where_to_go_is_followed_or_told_or_an_error() -> None:
    async with serving() as origin:
        followed = await fetch(f"{origin}/moved")
        assert (followed.url, followed.redirected) == (f"{origin}/echo", True)
        told = await fetch(f"{origin}/moved", redirect="manual")
        assert (told.status, told.headers.get("location")) == (302, "/echo")
        with pytest.raises(OSError, match="elsewhere"):
            await fetch(f"{origin}/moved", redirect="error")
        with pytest.raises(TypeError, match="redirect is"):
            await fetch(origin, redirect="sometimes")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "ftp://x/", "http://[bad/"])
async def test_nobody_there_is_an_os_error(url: str) -> None:
    with pytest.raises(OSError, match="GET"):
        await fetch(url)


async def test_an_object_can_ask_the_world_outside_in_an_event(tmp_path: Path) -> None:
    async with serving() as origin:
        code = """
            from workers import DurableObject, fetch

            class Sample(DurableObject):
                async def ask(self, url):
                    answer = await (await fetch(url, method="POST", body="from an object")).json()
                    await self.ctx.storage.put("answer", answer["body"])
                    return await self.ctx.storage.get("answer")
        """
        worker = load(write_worker(tmp_path, code))
        async with worker.app.run("memory:"):
            assert await worker.env.SAMPLE.getByName("x").ask(f"{origin}/echo") == "from an object"
        worker.unload()


async def test_what_is_not_here_is_said_where_it_is_imported(tmp_path: Path) -> None:
    folder = write_worker(tmp_path, "from js import EventTarget")
    with pytest.raises(ImportError, match=r"js.EventTarget is not here; docs/cloudflare.md"):
        async with played(folder):
            pass
    with pytest.raises(AttributeError, match=r"js.EventSource is not here"):
        _ = modules(None, _Context)["js"].EventSource


class _Context:
    waitUntil = None  # noqa: N815  the name there


async def test_an_answer_is_read_as_it_comes_and_left_when_nobody_wants_more() -> None:
    async with serving() as origin:
        for end in ("cancel", "drop"):
            _left.clear()
            answer = await asyncio.wait_for(fetch(f"{origin}/events"), 5)  # all of it takes ten seconds
            reader: Any = answer.body.getReader()  # type: ignore[union-attr]
            assert (await reader.read()).value.startswith(b"0 ")
            if end == "cancel":
                await reader.cancel()
            del answer, reader
            gc.collect()
            async with asyncio.timeout(5):
                while not _left:  # noqa: ASYNC110  the server is in another task, not of ours
                    await asyncio.sleep(0.01)


async def test_a_signal_ends_an_answer_that_is_being_read() -> None:
    async with serving() as origin:
        controller = AbortController()
        answer = await fetch(f"{origin}/events", signal=controller.signal)
        reading = asyncio.ensure_future(answer.text())
        await asyncio.sleep(0.05)
        controller.abort()
        with pytest.raises(OSError, match=r"broke off|aborted"):
            await asyncio.wait_for(reading, 5)


async def test_an_answer_that_breaks_off_is_an_error() -> None:
    async with serving() as origin:
        answer = await fetch(f"{origin}/short")
        with pytest.raises(OSError, match="broke off"):
            await answer.bytes()


async def test_a_stream_goes_out_as_a_body() -> None:
    async def made() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with serving() as origin:
        told: Any = await (await fetch(f"{origin}/echo", method="POST", body=made())).json()
        assert (told["body"], told["headers"]["transfer-encoding"]) == ("one two", "chunked")


class Heard:
    """What the listeners of a socket are told."""

    def __init__(self, socket: Any) -> None:
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        for kind in ("open", "message", "close", "error"):
            socket.addEventListener(kind, self._events.put_nowait)

    async def next(self) -> list[Any]:
        event = await asyncio.wait_for(self._events.get(), 10)
        names = {"message": ["data"], "close": ["code", "reason", "wasClean"]}.get(event.type, [])
        return [event.type, *(event[name] for name in names)]


async def test_a_socket_to_another_server_by_fetch() -> None:
    async with serving() as origin:
        headers = {"Upgrade": "websocket", "x-name": "bob", "Sec-WebSocket-Protocol": "chat"}
        answer = await fetch(f"{origin}/talk", headers=headers)
        socket = answer.web_socket
        assert (answer.status, socket.protocol) == (101, "chat")
        heard = Heard(socket)
        with pytest.raises(Exception, match="not open yet"):
            socket.send("too early")
        socket.accept()
        assert await heard.next() == ["message", "hello bob"]
        socket.send("a")
        socket.send(b"b")
        assert [await heard.next(), await heard.next()] == [["message", "a"], ["message", b"b"]]
        socket.send("end")
        end = await heard.next()
        assert (end[:2], end[3], socket.readyState) == (["close", 4002], True, 3)
        refused = await fetch(f"{origin}/echo", headers={"Upgrade": "websocket"})
        assert (refused.status, refused.web_socket) == (200, None)


async def test_a_socket_to_another_server_by_its_url() -> None:
    async with serving() as origin:
        socket: Any = OutgoingSocket.new(origin.replace("http", "ws") + "/talk")
        heard = Heard(socket)
        assert socket.readyState == 0
        assert [await heard.next(), await heard.next()] == [["open"], ["message", "hello "]]
        socket.send("break")
        assert [await heard.next(), await heard.next()] == [["error"], ["close", 1006, "", False]]
        _left.clear()
        socket = OutgoingSocket.new(origin.replace("http", "ws") + "/talk")
        heard = Heard(socket)
        await heard.next()
        socket.close(4000, "enough")
        with pytest.raises(TypeError, match="closed already"):
            socket.send("more")
        while (event := await heard.next())[0] != "close":
            pass
        assert (event[1], _left) == (1000, ["4000"]), "each is told what the other one said"
        nobody = Heard(OutgoingSocket.new("ws://127.0.0.1:1/"))
        assert [(await nobody.next())[0], (await nobody.next())[0]] == ["error", "close"]
        with pytest.raises(Exception, match="no URL of a socket"):
            OutgoingSocket.new("mailto:x")


PROXY = """
    from workers import DurableObject, Request, WorkerEntrypoint, fetch

    class Sample(DurableObject):
        async def fetch(self, request):
            return await fetch("ORIGIN/talk", headers=request.headers)

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "object" in request.url:
                return await self.env.SAMPLE.getByName("x").fetch(request)
            return await fetch(Request("ORIGIN/talk", request))
"""


@pytest.mark.parametrize("path", ["/", "/object"])
async def test_a_socket_is_passed_through(tmp_path: Path, path: str) -> None:
    async with serving() as origin:
        worker = load(write_worker(tmp_path, PROXY.replace("ORIGIN", origin)))
        async with (
            worker.app.run("memory:"),
            serve_worker(worker, "127.0.0.1:0") as url,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{url}{path}", headers={"x-name": "ann"}) as socket,
        ):
            assert await socket.receive_str(timeout=10) == "hello ann"
            await socket.send_bytes(b"raw")
            assert await socket.receive_bytes(timeout=10) == b"raw"
            await socket.send_str("end")
            assert (await socket.receive(timeout=10)).data == 4002
        worker.unload()
