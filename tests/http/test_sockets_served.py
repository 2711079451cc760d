"""WebSockets through a real server: the handshake, what refuses it, frames and how they end."""

import asyncio
from typing import Any

import pytest

from tests.http.served_stage import BINARY, CLOSE, PING, PONG, TEXT, WAIT_S, Client, Place, Refused, connect, frame


async def until(condition: Any) -> None:
    for _ in range(int(WAIT_S / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


async def test_text_bytes_fragments_and_pings() -> None:
    place = Place()
    async with place.served():
        client = await connect(place)
        assert await client.text() == "welcome"
        await client.send("grüß")
        assert await client.text() == "grüß"
        await client.send(b"\x00\xff")
        assert await client.receive() == (BINARY, b"\x00\xff")
        await client.send("a", fin=False)
        await client.send(b"p", opcode=PING)
        await client.send(b"b", opcode=0, fin=False)
        await client.send(b"c", opcode=0)
        assert await client.receive() == (PONG, b"p")
        assert await client.text() == "abc"
        await client.send(b"\x0f\xa1bye", opcode=CLOSE)
        assert (await client.receive()).code == 4001
        assert await place.over() == ("r", 4001, "bye", True)
        await client.close()


async def test_the_object_sees_the_request_but_not_the_token() -> None:
    place = Place()
    async with place.served():
        client = await connect(
            place, "/v1/objects/Room/a%2Fb%20c/socket?q=1&q2=%C3%BC", X_Mine="yes", Authorization="Bearer x"
        )
        assert await client.text() == "welcome"
        request = place.requests[0]
        assert request.query == {"q": "1", "q2": "ü"}
        assert request.headers["x-mine"] == "yes"
        assert "authorization" not in request.headers
        assert request.address == "127.0.0.1"
        await client.close()
        assert (await place.over())[:2] == ("a/b c", 1006)


async def test_the_protocol_that_the_object_chooses_is_spoken() -> None:
    place = Place()
    async with place.served():
        path = "/v1/objects/Room/r/socket?protocol=v2"
        client = await connect(place, path, Sec_WebSocket_Protocol="v1, v2")
        assert "sec-websocket-protocol: v2" in client.head.lower()
        await client.close()
        with pytest.raises(Refused) as refused:
            await connect(place, path, Sec_WebSocket_Protocol="v1")
        assert refused.value.status == 403


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/objects/Room/r/socket?refuse=1", 403, "socket.refused"),
        ("/v1/objects/Deaf/r/socket", 404, "socket.unknown"),
        ("/v1/objects/Nobody/r/socket", 404, "class.unknown"),
        ("/v1/objects/Room/r/sockets", 404, "path.unknown"),
        ("/v1/objects/Room/a/b/socket", 404, "path.unknown"),
        ("/v1/objects/Room/%FF/socket", 400, "path.encoding"),
        ("/v1/objects/Room/%00/socket", 400, "name.key"),
        ("/v1/objects/Ro%20om/r/socket", 400, "name.class"),
        ("/v1/objects/wakeful.Gateways/all/socket", None, None),
        ("/v1/objects/Room/" + "k" * 9_000 + "/socket", 400, "socket.handshake"),
    ],
)
async def test_what_is_refused_is_told_as_a_problem(path: str, status: int | None, code: str | None) -> None:
    place = Place()
    async with place.served():
        with pytest.raises(Refused) as refused:
            await connect(place, path)
        assert 400 <= refused.value.status < 500
        if status is not None:
            assert (refused.value.status, refused.value.body["code"]) == (status, code)
        assert place.held == 0
        assert place.heard == []


async def test_a_page_of_another_site_is_refused() -> None:
    place = Place()
    async with place.served():
        with pytest.raises(Refused) as refused:
            await connect(place, Origin="https://evil.example")
        assert refused.value.status == 403
        client = await connect(place, Origin=f"http://127.0.0.1:{place.port}")
        await client.close()


async def test_a_token_comes_in_the_header_or_as_a_protocol() -> None:
    place = Place()
    async with place.served():
        text = await place.token("web")
        with pytest.raises(Refused) as refused:
            await connect(place)
        assert refused.value.status == 401
        with pytest.raises(Refused) as refused:
            await connect(place, Sec_WebSocket_Protocol="wakeful, wakeful.bearer.wk_wrong")
        assert refused.value.status == 401
        for headers in (
            {"Authorization": f"Bearer {text}"},
            {"Sec_WebSocket_Protocol": f"wakeful, wakeful.bearer.{text}"},
        ):
            client = await connect(place, **headers)
            assert await client.text() == "welcome"
            assert text not in client.head
            assert place.requests[-1].caller == "token:web"
            assert text not in repr(place.requests[-1])
            await client.close()
            await place.over()


async def test_a_failing_object_closes_with_1011_and_one_that_closes_with_its_own_code() -> None:
    place = Place()
    async with place.served():
        for word, code, reason in (("fail", 1011, "the object failed"), ("close", 4002, "as asked")):
            client = await connect(place)
            await client.send(word)
            end = await client.end()
            assert end is not None
            assert (end.code, end.data[2:].decode()) == (code, reason)
            await client.send(end.data, opcode=CLOSE)
            assert await place.over() == ("r", code, reason, True)
            await client.close()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"\xc3", fin=False) + frame(0, b"\x28"), 1007),
        (frame(TEXT, b"x" * 1_001), 1009),
        (frame(TEXT, b"x" * 600, fin=False) + frame(0, b"x" * 600), 1009),
        (frame(TEXT, b"x", masked=False), 1002),
        (frame(TEXT, b"x", rsv=4), 1002),
        (frame(3, b"x"), 1002),
        (frame(0, b"x"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xed"), 1002),
        (bytes([0x81, 0xFF]) + b"\xff" * 12, 1002),
    ],
)
async def test_frames_that_can_not_be_end_their_own_socket_and_no_other(data: bytes, code: int) -> None:
    place = Place(socket_message_bytes=1_000)
    async with place.served():
        other = await connect(place, "/v1/objects/Room/other/socket")
        assert await other.text() == "welcome"
        client = await connect(place)
        client.writer.write(data)
        end = await client.end()
        assert end is not None
        assert end.code in ((code, 1009) if code == 1002 and len(data) == 14 else (code,))
        await client.close()
        assert (await place.over())[0] == "r"
        assert place.heard == []
        await other.send("still here")
        assert await other.text() == "still here"
        await other.close()


async def test_a_client_that_does_not_read_is_cut_off_and_nothing_of_it_stays() -> None:
    place = Place(socket_queue_bytes=262_144)
    async with place.served():
        slow = await connect(place)
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        fast = await connect(place)
        assert await fast.text() == "welcome"
        for _ in range(200):
            await fast.send("flood")
            await fast.receive()
        assert await place.over() == ("r", 1013, "the client reads too slowly", False)
        assert place.held == 1
        await fast.send("still here")
        assert await fast.text() == "still here"
        for client in (slow, fast):
            await client.close()


async def test_a_client_that_pings_and_does_not_read_is_cut_off() -> None:
    place = Place()
    async with place.served():
        client = await connect(place)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        ping = frame(PING, b"x" * 125) * 500

        async def flood() -> None:
            for _ in range(2_000):
                client.writer.write(ping)
                await client.writer.drain()

        with pytest.raises((ConnectionError, TimeoutError)):
            await asyncio.wait_for(flood(), WAIT_S)
        key, code, _, _ = await place.over()
        assert (key, code in (1006, 1008)) == ("r", True), code  # for what waits for it, or for so many pings
        await client.close()


async def test_a_client_that_does_not_answer_pings_is_given_up() -> None:
    place = Place()
    async with place.served(ws_ping_interval=0.1, ws_ping_timeout=0.1):
        client = await connect(place)
        assert (await place.over())[0] == "r"
        await until(lambda: place.held == 0)
        await client.close()


async def test_a_server_that_stops_sends_its_clients_away_with_1012() -> None:
    place = Place()
    async with place.served():
        client = await connect(place)
        assert await client.text() == "welcome"
    end = await client.end()
    assert end is not None
    assert end.code == 1012
    assert (await place.over())[:2] == ("r", 1012)
    await client.close()


async def test_a_client_that_is_gone_before_it_is_let_in_leaves_nothing() -> None:
    place = Place()
    async with place.served():
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", place.port)
            head = f"GET /v1/objects/Room/r/socket HTTP/1.1\r\nHost: 127.0.0.1:{place.port}\r\nUpgrade: websocket\r\n"
            key = "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            writer.write((head + key).encode())
            await writer.drain()
            writer.transport.abort()
        await until(lambda: len(place.requests) + place.closed.qsize() == 2 * len(place.requests) and place.held == 0)
        client: Client = await connect(place)
        assert await client.text() == "welcome"
        await client.close()


@pytest.mark.parametrize("ws", ["websockets-sansio"])
async def test_any_server_will_do(ws: str) -> None:
    """One that knows nothing of ours: the socket of a client that does not read ends, if later."""
    place = Place(socket_queue_bytes=262_144)
    async with place.served(ws=ws):
        slow = await connect(place)
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        fast = await connect(place)
        await fast.send("hello")
        assert [await fast.text(), await fast.text()] == ["welcome", "hello"]
        for _ in range(200):
            await fast.send("flood")
            await fast.receive()
        assert (await place.over())[:2] == ("r", 1013)
        assert place.held == 1
        for client in (slow, fast):
            await client.close()
