"""The control socket: typed answers and errors, cancelling, and what nonsense on the wire may not do."""

import asyncio
import errno
import os
import socket
import ssl
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.yardstick import PATIENCE_S
from wakeful import App, DurableObject
from wakeful.runtime.node import Node
from wakeful.transport import addresses
from wakeful.transport.control import ControlClient
from wakeful.transport.frames import FRAME_BYTES_MAX, Cutter, Malformed, read_frame, write_frame
from wakeful.transport.messages import error_of, failed
from wakeful.values import errors
from wakeful.values.errors import (
    BadInput,
    BadName,
    BadOption,
    DeadlineExceeded,
    Fenced,
    LimitExceeded,
    TurnFailed,
    Unavailable,
    UnknownClass,
    UnknownMethod,
    WakefulError,
)


@dataclass
class Point:
    x: int
    y: int


def make_app() -> App:
    app = App()

    @app.object
    class Thing(DurableObject):
        async def add(self, n: int = 1, *, twice: bool = False) -> int:
            total = await self.storage.get("total", 0) + n * (2 if twice else 1)
            await self.storage.put("total", total)
            return total

        async def echo(self, *values: Any) -> Any:
            return list(values)

        async def fail(self) -> None:
            await self.storage.put("total", 1_000)
            raise ZeroDivisionError("by nothing")

        async def fail_ours(self) -> None:
            raise LimitExceeded("too many", code="limit.sample")

        async def big(self) -> bytes:
            return bytes(FRAME_BYTES_MAX + 1)

        async def wait(self) -> None:
            await self.storage.put("total", 1_000)
            await asyncio.Event().wait()

        async def odd(self) -> object:
            return object()

        async def alarm(self) -> None:
            raise RuntimeError("never works")

    return app


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[tuple[Node, ControlClient]]:
    async with make_app().run(f"sqlite:{tmp_path}/c.db") as node, ControlClient(node.address) as client:
        yield node, client


async def test_a_call_brings_its_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        assert await client.call("Thing", "a", "add", [2]) == 2
        assert await client.call("Thing", "a", "add", [3], {"twice": True}) == 8


async def test_values_keep_their_types_both_ways(tmp_path: Path) -> None:
    values = [None, 2**80, b"\x00", (1, 2), {3}, Decimal("1.10"), datetime(2026, 1, 2, tzinfo=UTC), Point(1, 2)]
    async with running(tmp_path) as (_, client):
        assert await client.call("Thing", "a", "echo", values) == values


async def test_the_objects_own_error_comes_with_its_type_and_traceback(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        with pytest.raises(TurnFailed, match="by nothing") as caught:
            await client.call("Thing", "a", "fail")
        assert caught.value.remote_type == "ZeroDivisionError"
        assert "in fail" in caught.value.remote_traceback
        assert await client.call("Thing", "a", "add") == 1  # what the failed turn wrote did not happen


@pytest.mark.parametrize(
    ("call", "kind", "code"),
    [
        (("Thing", "a", "fail_ours"), LimitExceeded, "limit.sample"),
        (("Thing", "a", "nope"), UnknownMethod, "method.unknown"),
        (("Thing", "a", "_add"), UnknownMethod, "method.unknown"),
        (("Thing", "a", "alarm"), UnknownMethod, "method.unknown"),
        (("Nope", "a", "add"), UnknownClass, "class.unknown"),
        (("No pe", "a", "add"), BadName, "name.class"),
        (("Thing", "", "add"), BadName, "name.key"),
        (("Thing", "a\nb", "add"), BadName, "name.key"),
        (("Thing", "k" * 600, "add"), BadName, "name.key"),
    ],
)
async def test_our_errors_keep_their_type_and_code(
    tmp_path: Path, call: tuple[str, str, str], kind: type[WakefulError], code: str
) -> None:
    async with running(tmp_path) as (_, client):
        with pytest.raises(kind) as caught:
            await client.call(*call)
        assert type(caught.value) is kind
        assert caught.value.code == code


async def test_an_answer_that_cannot_travel_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        with pytest.raises(BadInput):
            await client.call("Thing", "a", "odd")
        with pytest.raises(LimitExceeded):
            await client.call("Thing", "a", "big")
        assert await client.call("Thing", "a", "add") == 1


async def test_a_request_key_gives_the_first_answer_again(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        assert await client.call("Thing", "a", "add", request_key="once") == 1
        assert await client.call("Thing", "a", "add", request_key="once") == 1
        with pytest.raises(BadOption):
            await client.call("Thing", "a", "add", request_key="")


async def test_a_deadline_undoes_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        with pytest.raises(DeadlineExceeded):
            await client.call("Thing", "a", "wait", deadline_ms=30)
        with pytest.raises(BadOption):
            await client.call("Thing", "a", "add", deadline_ms=-1)
        assert await client.call("Thing", "a", "add") == 1


async def test_calls_of_one_connection_run_beside_each_other(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        waiting = asyncio.create_task(client.call("Thing", "slow", "wait", deadline_ms=2_000))
        assert await asyncio.gather(*[client.call("Thing", f"k{n}", "add", [n]) for n in range(300)]) == list(
            range(300)
        )
        waiting.cancel()


async def test_hanging_up_leaves_a_turn_that_has_begun_to_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, client):
        async with ControlClient(node.address) as other:
            call = asyncio.create_task(other.call("Thing", "a", "wait"))
            await _until(lambda: any(one.is_busy for one in node.awake.values()))
        with pytest.raises(Unavailable):
            await call
        assert any(one.is_busy for one in node.awake.values())
        assert await client.call("Thing", "b", "add") == 1  # others are free


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03\xc1\xc1\xc1",
        b"\x00\x00\x00\x01\x05",
        (16).to_bytes(4, "big") + b"\x91" * 16,
        b"\x00\x00\x00\x09half",
        len(body := msgspec.msgpack.encode({"type": "call", "number": "x"})).to_bytes(4, "big") + body,
        len(body := msgspec.msgpack.encode({"type": "drop", "number": 1})).to_bytes(4, "big") + body,
        os.urandom(2_000),
    ],
    ids=range(10),
)
async def test_nonsense_ends_the_connection_and_harms_nothing(tmp_path: Path, bytes_: bytes) -> None:
    async with running(tmp_path) as (node, client):
        reader, writer = await asyncio.open_unix_connection(addresses.path_of(node.address))
        writer.write(bytes_)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
        await writer.wait_closed()
        assert await client.call("Thing", "a", "add") == 1


async def test_arguments_that_are_no_values_are_an_error(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, client):
        reader, writer = await asyncio.open_unix_connection(addresses.path_of(node.address))
        call = {"type": "call", "number": 7, "cls": "Thing", "key": "a", "method": "add", "kwargs": b"\x01\x80"}
        for args in (b"", b"\x09", b"\x01\xc1", b"\x01\x80"):
            await write_frame(writer, call | {"args": args})
            reply = await read_frame(reader, msgspec.msgpack.Decoder())
            assert reply["number"] == 7
            assert reply["failure"]["type"] in ("Undecodable", "BadValue")
        writer.close()
        await writer.wait_closed()
        assert await client.call("Thing", "a", "add") == 1


async def test_status_says_how_the_node_is(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, client):
        await client.call("Thing", "a", "add")
        status = await client.status()
        assert status["node"] == node.name
        assert (status["state"], status["shards"], status["awake"], status["classes"]) == ("up", 256, 1, ["Thing"])
        assert status["commits"] >= status["groups"] >= 1
        assert status["unknown"] == []
        assert status["down_because"] is None


async def test_redrive_reports_each(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        with pytest.raises(BadOption):
            await client.redrive()
        assert await client.redrive(all=True) == []
        [row] = await client.redrive([4])
        assert (row["number"], row["ok"], row["problem"]) == (4, False, "is not parked")


async def test_the_socket_is_for_this_user_alone_and_goes_with_the_node(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, _):
        path = Path(str(addresses.path_of(node.address)))
        own, folder = os.stat(path), os.stat(path.parent)
        assert stat.S_IMODE(own.st_mode) == 0o600
        assert stat.S_IMODE(folder.st_mode) == 0o700
        assert folder.st_uid == os.getuid()
        assert str(os.getpid()) in path.name
        assert node.name in path.name
        assert [row.address for row in await node.store.nodes()] == [node.address]
        address = node.address
    assert not os.access(path, os.F_OK)
    with pytest.raises(Unavailable, match="nobody answers"):
        async with ControlClient(address):
            pass


async def test_sockets_of_dead_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home = addresses.folder()
    dead = home / "999999999-gone.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(dead))
    mine = home / f"{os.getpid()}-mine.sock"
    mine.touch()
    async with make_app().run(f"sqlite:{tmp_path}/s.db") as node:
        assert str(addresses.path_of(node.address)).startswith(str(home))
        assert not dead.exists()
        assert mine.exists()


async def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "wakeful").symlink_to(tmp_path)
    with pytest.raises(Unavailable, match="somebody else"):
        addresses.folder()
    async with make_app().run(f"sqlite:{tmp_path}/s.db") as node:  # runs all the same, without a socket
        assert node.address == ""


async def test_an_address_of_another_kind_is_refused() -> None:
    for address in ("", "tcp://host:1", "unix:/nowhere/at/all.sock"):
        with pytest.raises(Unavailable):
            async with ControlClient(address):
                pass


async def test_the_client_is_told_when_the_node_goes(tmp_path: Path) -> None:
    app = make_app()
    stack = app.run(f"sqlite:{tmp_path}/g.db")
    node = await stack.__aenter__()
    async with ControlClient(node.address) as client:
        assert await client.call("Thing", "a", "add") == 1
        await stack.__aexit__(None, None, None)
        with pytest.raises(Unavailable):
            await client.call("Thing", "a", "add")


def test_it_works_on_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_a_call_brings_its_answer(tmp_path))
        (tmp_path / "2").mkdir()
        runner.run(test_hanging_up_leaves_a_turn_that_has_begun_to_its_end(tmp_path / "2"))


@pytest.mark.parametrize("kind", [value for value in vars(errors).values() if isinstance(value, type)])
def test_every_error_of_ours_survives_the_trip(kind: type[BaseException]) -> None:
    if not issubclass(kind, WakefulError):
        return
    error = (
        kind("text", remote_type="X", remote_traceback="at") if kind is TurnFailed else kind("text", code="some.code")
    )
    failure = failed(1, error).failure
    assert failure is not None
    back = error_of(failure)
    assert type(back) is kind
    assert (back.message, back.code) == (error.message, error.code)


def test_losing_the_shard_is_unavailable_to_the_caller() -> None:
    failure = failed(1, Fenced(3, 4)).failure
    assert failure is not None
    assert type(error_of(failure)) is Unavailable


def test_a_programs_own_subclass_of_ours_is_text_on_the_other_side() -> None:
    class Mine(WakefulError):
        pass

    failure = failed(1, Mine("own", code="own.code")).failure
    assert failure is not None
    assert type(error_of(failure)) is TurnFailed


async def test_frames_have_a_bound() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(Malformed):
        await read_frame(reader, msgspec.msgpack.Decoder())


async def test_somebody_who_begins_tls_is_named_as_such() -> None:
    begun = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), begun, server_hostname="b").do_handshake()
    reader = asyncio.StreamReader()
    reader.feed_data(hello := begun.read())
    with pytest.raises(Malformed, match="speaks TLS"):
        await read_frame(reader, msgspec.msgpack.Decoder())
    cutter = Cutter(FRAME_BYTES_MAX)
    cutter.feed(hello)
    with pytest.raises(Malformed, match="speaks TLS"):
        cutter.next()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_a_full_disk_is_not_called_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for a temporary folder by writing into each, and finds none then."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(Unavailable, match=r"No usable temporary.*make room.*XDG_RUNTIME_DIR") as caught:
        addresses.folder()
    assert caught.value.code == "control.folder"
