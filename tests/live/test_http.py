"""The server on real sockets: how it starts, what it bears, and in which order it ends."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.http_stage import make_app
from tests.yardstick import PATIENCE_S
from wakeful import App
from wakeful.server import Served, serving
from wakeful.server.embedded_server import bind, parse_address
from wakeful.server.guard import Guarded
from wakeful.values.errors import AddressInUse, BadAddress, NoToken, WrongCertificate


@contextlib.asynccontextmanager
async def served(app: App | None = None, **options: Any) -> AsyncIterator[Served]:
    app = app or make_app()
    async with app.run("memory:") as node, serving(app, node, "127.0.0.1:0", **options) as server:
        yield server


class Wire:
    """A connection by hand."""

    def __init__(self, server: Served) -> None:
        self._port = server.port

    async def __aenter__(self) -> "Wire":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += ["content-type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def answer(self) -> tuple[int, Any]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await self.reader.readexactly(length)
        return int(head[9:12]), json.loads(body) if body else None

    async def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        """The other side hangs up; what it says before is passed over."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(within_s):
                while await self.reader.read(65_536):
                    pass
        return True


async def test_calls_over_a_connection_that_stays_open() -> None:
    async with served() as server, Wire(server) as wire:
        for number in range(1, 4):
            wire.send("POST", "/v1/objects/Shop/a%2Fb/add")
            assert await wire.answer() == (200, {"result": number})
        wire.send("POST", "/v1/objects/Shop/a%2Fb/add", b"[1", **{"Idempotency-Key": "k"})
        status, problem = await wire.answer()
        assert (status, problem["code"]) == (400, "body.json")


async def test_requests_that_come_before_the_answer_are_answered_in_order() -> None:
    async with served() as server, Wire(server) as wire:
        for _ in range(300):  # far more than are read ahead
            wire.send("POST", "/v1/objects/Shop/a/add")
        assert [(await wire.answer())[1]["result"] for _ in range(300)] == list(range(1, 301))
        texts = [str(number) * 2_000 for number in range(30)]
        for text in texts:
            wire.send("POST", "/v1/objects/Shop/a/echo", json.dumps([text]).encode())
        assert [(await wire.answer())[1]["result"] for _ in texts] == texts


async def test_a_body_may_come_in_pieces_and_has_a_bound() -> None:
    async with served() as server, Wire(server) as wire:
        wire.send("POST", "/v1/objects/Shop/a/add", b"[3]")
        assert (await wire.answer())[1] == {"result": 3}
        head = b"POST /v1/objects/Shop/a/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        wire.writer.write(head + b"transfer-encoding: chunked\r\n\r\n1\r\n[\r\n")
        await asyncio.sleep(0.05)
        wire.writer.write(b"2\r\n4]\r\n0\r\n\r\n")
        assert (await wire.answer())[1] == {"result": 7}
        wire.writer.write(head + b"content-length: 99999999\r\n\r\n")
        assert (await wire.answer())[0] == 413


async def test_the_order_of_the_end() -> None:
    app = make_app()
    async with app.run("memory:") as node, contextlib.AsyncExitStack() as wires:
        async with asyncio.timeout(PATIENCE_S), serving(app, node, "127.0.0.1:0") as server:
            slow, stream, idle = [await wires.enter_async_context(Wire(server)) for _ in range(3)]
            slow.send("POST", "/v1/objects/Shop/a/slow", b"[0.5]")
            stream.send("GET", "/v1/events")
            await stream.reader.readuntil(b"retry: ")
            idle.send("GET", "/healthz")
            await idle.answer()
        assert await slow.answer() == (200, {"result": "late"})  # what was under way is finished
        assert b"event: gone" in await stream.reader.read()
        assert await idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        assert node.state == "up"  # the node goes after its server
        assert await app.get(app.deployment.registry.by_name("Shop").cls, "a").total() == 0


async def test_signals_stay_the_program_s() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with served():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_a_client_that_says_nothing_or_too_little_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "request_s", 0.3)
    async with served() as server, Wire(server) as silent, Wire(server) as half, Wire(server) as body:
        half.writer.write(b"POST /v1/objects/Shop/a/add HTTP/1.1\r\nhost: loc")
        body.send("POST", "/v1/objects/Shop/a/add", b"[1]")
        await body.answer()
        body.writer.write(b"POST /v1/objects/Shop/a/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n[")
        for wire in (silent, half, body):
            assert await wire.is_closed()
        async with Wire(server) as other:
            other.send("POST", "/v1/objects/Shop/a/total")
            assert (await other.answer())[1] == {"result": 1}
            await asyncio.sleep(0.6)  # one that has had its answer is idle, not slow
            other.send("POST", "/v1/objects/Shop/a/total")
            assert (await other.answer())[1] == {"result": 1}


async def test_a_head_that_is_too_large_is_refused() -> None:
    async with served() as server, Wire(server) as wire:
        wire.writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
        for number in range(33):
            wire.writer.write(b"x-%d: " % number + b"y" * 1_000 + b"\r\n")
            await asyncio.sleep(0)
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431")
        assert await wire.is_closed()


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "stall_s", 0.3)
    app = make_app()
    async with served(app) as server:
        text = json.dumps(["x" * 400_000]).encode()
        async with Wire(server) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            with contextlib.suppress(OSError):
                for _ in range(200):
                    wire.send("POST", "/v1/objects/Shop/a/echo", text)
                    await asyncio.wait_for(wire.writer.drain(), PATIENCE_S)
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await wire.is_closed()
        async with Wire(server) as other:
            other.send("POST", "/v1/objects/Shop/a/add")
            assert (await other.answer())[0] == 200


async def test_more_connections_than_there_may_be_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "connections_max", 2)
    async with served() as server, Wire(server) as one, Wire(server) as two:
        for wire in (one, two):
            wire.send("GET", "/healthz")
            assert (await wire.answer())[0] == 200
        async with Wire(server) as third:
            assert (await third.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 503")
            assert await third.is_closed()


async def test_a_port_that_is_taken() -> None:
    app = make_app()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with app.run("memory:") as node:
            with pytest.raises(AddressInUse, match=str(port)):
                async with serving(app, node, f"127.0.0.1:{port}"):
                    pass
            async with serving(app, node, f"127.0.0.1:{port}", next_port=True) as server:
                assert port < server.port <= port + 20
                assert server.url == f"http://127.0.0.1:{server.port}"


async def test_without_a_token_only_this_machine_is_listened_to(tmp_path: Path) -> None:
    app = make_app()
    async with app.run("memory:") as node:
        for host in ("0.0.0.0", "[::]", "192.0.2.1"):
            with pytest.raises(NoToken, match="wakeful tokens create"):
                async with serving(app, node, f"{host}:0"):
                    pass
        (tmp_path / "cert.pem").write_text("rubbish")
        with pytest.raises(WrongCertificate, match=r"cert\.pem"):
            async with serving(
                app, node, "127.0.0.1:0", certificate=str(tmp_path / "cert.pem"), key=str(tmp_path / "k")
            ):
                pass


def test_addresses() -> None:
    assert parse_address("127.0.0.1:7420") == ("127.0.0.1", 7420)
    assert parse_address("[::1]:80") == ("::1", 80)
    for text in ("", "7420", ":7420", "host:", "host:x", "host:70000", "host:-1"):
        with pytest.raises(BadAddress):
            parse_address(text)
    with pytest.raises(BadAddress):
        bind("192.0.2.1", 0)


async def test_a_flood_is_answered_or_refused_and_timers_go_on() -> None:
    app = make_app()
    async with app.run("memory:") as node, serving(app, node, "127.0.0.1:0", requests_max=20) as server:
        shop = app.deployment.registry.by_name("Shop").cls
        statuses: list[int] = []

        async def client() -> None:
            async with Wire(server) as wire:
                for _ in range(10):
                    wire.send("POST", "/v1/objects/Shop/a/slow", b"[0.01]")
                    statuses.append((await wire.answer())[0])

        await app.get(shop, "clock").alarm_soon(0.05)
        await asyncio.gather(*(client() for _ in range(50)))
        assert set(statuses) == {200, 429}
        assert len(statuses) == 500
        async with asyncio.timeout(PATIENCE_S):
            while not (await node.store.find_entries(_of_clock())):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


def _of_clock() -> Any:
    from wakeful.store.protocol import Query

    return Query(cls="Shop", key="clock", limit=1)
