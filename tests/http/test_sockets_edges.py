"""What a WebSocket server must bear beside plain traffic: bad text, long turns, floods of small frames, ends of all kinds."""

import asyncio
import logging
from typing import Any

import pytest

from tests.http.served_stage import CLOSE, PING, PONG, TEXT, WAIT_S, Place, connect, frame
from tests.telemetry.spans_seen import Watch
from wakeful.http.protocol import SLICE, SocketProtocol
from wakeful.server.site import Site

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def protocols(place: Place) -> list[SocketProtocol]:
    assert place.server is not None
    return [one for one in place.server.server_state.connections if isinstance(one, SocketProtocol)]


@pytest.mark.parametrize("behind", [b"", frame(TEXT, b"more"), frame(CLOSE, b"\x03\xe8"), frame(PING, b"x") * 3])
async def test_text_that_is_no_utf_8_is_closed_with_1007_and_logged_nowhere(
    behind: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    place = Place()
    async with place.served():
        client = await connect(place)
        assert await client.text() == "welcome"
        client.writer.write(frame(TEXT, b"ok \xff") + behind)
        end = await client.end()
        assert end is not None
        _, code, _, _ = await place.over()
        assert end.code == code
        assert code == (1000 if behind == frame(CLOSE, b"\x03\xe8") else 1007)
        assert place.heard == []
        await client.close()
    assert caplog.records == []


async def test_a_client_is_not_given_up_while_its_message_waits_for_the_object() -> None:
    place = Place()
    async with place.served(ws_ping_interval=0.25, ws_ping_timeout=0.25):
        client = await connect(place)
        assert await client.text() == "welcome"
        reading = asyncio.ensure_future(_answer_pings(client, "behind it"))
        await client.send("wait")
        await client.send("behind it")  # from here on nothing more is read of it for now, answers to pings either
        await asyncio.wait({reading}, timeout=2.5)  # ten times what a ping is given
        assert not reading.done()
        place.gate.set()
        await asyncio.wait_for(reading, WAIT_S)
        assert place.closed.qsize() == 0
        await client.close()


async def _answer_pings(client: Any, until: str) -> None:
    while (found := await client.receive()).data != until.encode():
        if found.opcode == PING:
            await client.send(found.data, opcode=PONG)


async def test_small_frames_that_come_together_are_not_all_unpacked_at_once_and_come_in_order() -> None:
    place = Place(socket_messages_per_s=1_000_000)
    async with place.served():
        client = await connect(place)
        assert await client.text() == "welcome"
        await client.send("wait")
        count = 6_000
        client.writer.write(b"".join(frame(TEXT, b"%d" % number) for number in range(count)))
        reading = asyncio.ensure_future(_read(client, count))
        for _ in range(20):
            await asyncio.sleep(0.01)
            (protocol,) = protocols(place)
            assert protocol.queue.qsize() <= SLICE // 6
        place.gate.set()
        got = await asyncio.wait_for(reading, WAIT_S)
        assert got == ["waited", *map(str, range(count))]
        await client.close()


async def _read(client: Any, count: int) -> list[str]:
    texts: list[str] = []
    while len(texts) <= count:
        found = await client.receive()
        if found.opcode == PING:  # on a slow machine it takes long enough for one
            await client.send(found.data, opcode=PONG)
        else:
            texts.append(found.data.decode())
    return texts


@pytest.mark.parametrize("who", ["server", "client"])
async def test_a_closed_connection_to_a_client_that_does_not_read_is_let_go(who: str) -> None:
    class Hasty(SocketProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.close_timeout = 0.1

    place = Place(socket_queue_bytes=64 << 20)
    async with place.served(ws=Hasty):
        client = await connect(place)
        assert await client.text() == "welcome"
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        (protocol,) = protocols(place)
        # More than the kernel takes, less than makes a writer wait.
        protocol.transport.set_write_buffer_limits(high=64 << 20)
        for _ in range(200):
            if protocol.transport.get_write_buffer_size() > 1 << 20:
                break
            protocol.transport.write(frame(2, b"x" * 65_000, masked=False))
            await asyncio.sleep(0.001)
        assert protocol.transport.get_write_buffer_size() > 1 << 20
        await client.send("close" if who == "server" else b"\x03\xe8", opcode=TEXT if who == "server" else CLOSE)
        assert (await place.over())[1] == (4002 if who == "server" else 1000)
        for _ in range(int(WAIT_S / 0.02)):
            if not protocols(place):
                break
            await asyncio.sleep(0.02)
        assert protocols(place) == []
        client.writer.transport.abort()


async def test_connecting_belongs_to_the_trace_of_the_request_and_each_message_is_one_of_its_own_linked_to_it() -> None:
    place = Place()
    seen = Watch(place.app)
    async with place.served():
        client = await connect(place, traceparent=PARENT)
        assert await client.text() == "welcome"
        for message in ("one", "two"):
            await client.send(message)
            assert await client.text() == message
        await client.close()
        await place.over()
    trace = int(PARENT[3:35], 16)
    assert seen.one("turn Room.sockets.connect").trace == trace
    one, two = seen.named("turn Room.sockets.message")
    assert len({one.trace, two.trace, trace}) == 3
    assert one.linked == two.linked == [trace]


async def test_the_object_hears_of_a_socket_whose_request_the_server_cancels_or_breaks() -> None:
    place = Place()
    async with place.app.run("memory:"):
        for breaks in (False, True):
            accepted = asyncio.Event()
            task = asyncio.ensure_future(_bare(Site(place.app, dashboard=False), accepted, breaks=breaks))
            await asyncio.wait_for(accepted.wait(), WAIT_S)
            if not breaks:
                task.cancel()
            with pytest.raises(RuntimeError if breaks else asyncio.CancelledError):
                await task
            assert (await place.over())[1:] == (1006, "", False)
            assert place.held == 0


async def _bare(site: Site, accepted: asyncio.Event, *, breaks: bool) -> None:
    """As some ASGI servers do it: the request's task is cancelled when the client is gone, or `receive` raises."""
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    events.put_nowait({"type": "websocket.connect"})

    async def receive() -> dict[str, Any]:
        if breaks and events.empty():
            raise RuntimeError("the server's own fault")
        return await events.get()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.accept":
            accepted.set()

    scope = {
        "type": "websocket",
        "path": "/v1/objects/Room/r/socket",
        "raw_path": b"/v1/objects/Room/r/socket",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "subprotocols": [],
        "scheme": "ws",
    }
    await site(scope, receive, send)
