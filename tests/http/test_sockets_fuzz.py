"""Whatever bytes a client sends over a socket: nobody else notices, and nothing of it stays."""

import asyncio
import logging
import random

import pytest

from tests.http.served_stage import WAIT_S, Client, Place, Refused, connect, frame

CLIENTS = 240
AT_ONCE = 24


def _payload(dice: random.Random) -> bytes:
    size = dice.choice([0, 1, 2, 5, 125, 126, 127, 300, 2_000, 70_000])
    kind = dice.randrange(4)
    if kind == 0:
        return b"x" * size
    if kind == 1:
        return dice.randbytes(size)
    if kind == 2:
        return ("ü€😀" * size).encode()[:size]
    return dice.choice([b"fail", b"close", b"\x03\xe8", b"\x03\xecx", b"\xff\xff"])


def _bytes(dice: random.Random) -> bytes:
    """A few frames, some of them broken: in a flag, in the length, in the mask, or just cut off."""
    parts = []
    for _ in range(dice.randrange(1, 6)):
        opcode = dice.choice([0, 0, 1, 1, 2, 8, 9, 10, dice.randrange(16)])
        is_good = dice.random() < 0.7
        data = frame(
            opcode,
            _payload(dice),
            fin=dice.random() < 0.7,
            masked=is_good or dice.random() < 0.5,
            rsv=0 if is_good else dice.randrange(8),
        )
        if dice.random() < 0.3:
            broken = bytearray(data)
            for _ in range(dice.randrange(1, 4)):
                broken[dice.randrange(min(len(broken), 14))] = dice.randrange(256)
            data = bytes(broken)
        if dice.random() < 0.2:
            data = data[: dice.randrange(len(data) + 1)]
        parts.append(data)
    return dice.randbytes(dice.randrange(1, 400)) if dice.random() < 0.1 else b"".join(parts)


async def _misbehave(place: Place, number: int) -> None:
    dice = random.Random(number)
    client = await connect(place, f"/v1/objects/Room/k{number % 7}/socket")
    data = _bytes(dice)
    try:
        while data:  # in pieces that cut through frames
            size = dice.randrange(1, len(data) + 1)
            client.writer.write(data[:size])
            data = data[size:]
            await client.writer.drain()
        if dice.random() < 0.5:
            await _read_some(client, dice)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the server has hung up
    if dice.random() < 0.3:
        client.writer.transport.abort()
    else:
        await client.close()


async def _read_some(client: Client, dice: random.Random) -> None:
    for _ in range(dice.randrange(3)):
        try:
            await asyncio.wait_for(client._frame(), 0.05)
        except TimeoutError:
            return


async def test_frames_of_any_kind_harm_nobody(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(socket_message_bytes=66_000)
    caplog.set_level(logging.WARNING, logger="wakeful")
    async with place.served():
        honest = await connect(place, "/v1/objects/Room/honest/socket")
        assert await honest.text() == "welcome"
        tasks_before = len(asyncio.all_tasks())
        for first in range(0, CLIENTS, AT_ONCE):
            await asyncio.wait_for(
                asyncio.gather(*(_misbehave(place, number) for number in range(first, first + AT_ONCE))), WAIT_S
            )
            await honest.send(f"after {first}")
            assert await honest.text() == f"after {first}"
        for _ in range(int(WAIT_S / 0.02)):
            if place.held == 1 and place.closed.qsize() == CLIENTS and len(asyncio.all_tasks()) <= tasks_before:
                break
            await asyncio.sleep(0.02)
        assert place.held == 1
        assert place.closed.qsize() == CLIENTS  # each was connected, so each was told once
        assert len(asyncio.all_tasks()) <= tasks_before
        await honest.close()
    ours = [one for one in caplog.records if one.name.startswith("wakeful") and "on_message failed" not in one.message]
    assert ours == []
    assert len(place.requests) == CLIENTS + 1


async def test_handshakes_of_any_kind_get_an_answer_or_an_end() -> None:
    place = Place()
    dice = random.Random(7)
    good = "GET /v1/objects/Room/r/socket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    good += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    async with place.served():
        for number in range(120):
            broken = bytearray(good.encode())
            for _ in range(dice.randrange(1, 5)):
                at = dice.randrange(len(broken) - 4)
                if number % 3 == 0:
                    del broken[at : at + dice.randrange(1, 20)]
                elif number % 3 == 1:
                    broken[at] = dice.randrange(256)
                else:
                    broken[at:at] = dice.randbytes(dice.randrange(1, 30))
            broken += b"\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(bytes(broken))
            writer.write_eof()
            head = await asyncio.wait_for(reader.read(64), WAIT_S)
            assert not head.startswith(b"HTTP/1.1 500"), bytes(broken)
            writer.close()
        with pytest.raises(Refused):
            await connect(place, "/v1/objects/Room/r/socket", Sec_WebSocket_Version="12")
        client = await connect(place)
        assert await client.text() == "welcome"
        await client.close()
