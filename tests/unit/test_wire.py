"""A link's bytes, handed to it as a socket would: in pieces, many messages at once, and up to the very end."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from tests.unit.links_stage import Sample, a_call
from wakeful.transport.frames import put_frame
from wakeful.transport.link_client import LinkClient
from wakeful.transport.link_server import Answerer
from wakeful.transport.protocol import Homeward, Outward, PeerReply
from wakeful.transport.pulse import Pace
from wakeful.transport.wire import MESSAGES_A_PASS, SocketWire

MANY = 3 * MESSAGES_A_PASS + 5
HOMEWARD: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Homeward)
OUTWARD: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Outward)


class Socket:
    """What a wire needs of asyncio's transport; keeps what is written, and with how many calls begun."""

    def __init__(self, sample: Sample | None = None) -> None:
        self.sample = sample
        self.written: list[bytes] = []
        self.begun: list[int] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))
        self.begun.append(len(self.sample.calls) if self.sample else 0)

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def close(self) -> None: ...


def wired(sample: Sample | None = None) -> tuple[SocketWire, Socket]:
    wire, socket = SocketWire(Pace()), Socket(sample)
    wire.connection_made(cast("asyncio.Transport", socket))
    return wire, socket


def frames(*messages: Any) -> bytes:
    out = bytearray()
    for message in messages:
        put_frame(out, message)
    return bytes(out)


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_answers_that_came_before_the_end_are_answers() -> None:
    wire, _ = wired()
    caller = LinkClient(wire, node="b", window=1024, pace=Pace())
    wire.begin(caller, HOMEWARD)
    asks = [asyncio.ensure_future(caller.ask(a_call(), timeout_ms=60_000)) for _ in range(MANY)]
    await passes(2)
    wire.data_received(frames(*[PeerReply(number, b"%d" % number) for number in range(1, MANY + 1)]))
    wire.connection_lost(None)
    replies = await asyncio.gather(*asks)
    assert [reply.answer for reply in replies] == [b"%d" % number for number in range(1, MANY + 1)]


@pytest.mark.parametrize("piece", [7, 1_000_000])
async def test_calls_are_answered_in_order_whatever_the_pieces_they_come_in(piece: int) -> None:
    sample = Sample()
    socket = await answered(sample, piece)
    assert len(sample.calls) == MANY
    assert b"".join(socket.written) == frames(*[PeerReply(number, b"") for number in range(1, MANY + 1)])


async def test_the_first_answers_leave_while_the_last_calls_are_still_unread() -> None:
    socket = await answered(Sample(), 1_000_000)
    assert MESSAGES_A_PASS <= socket.begun[0] <= 2 * MESSAGES_A_PASS


async def answered(sample: Sample, piece: int) -> Socket:
    """Many calls at once, in pieces of so many bytes."""
    wire, socket = wired(sample)
    answerer = Answerer(wire, sample, node="a", pace=Pace())
    wire.begin(answerer, OUTWARD)
    data = frames(*[a_call(number=number) for number in range(1, MANY + 1)])
    for at in range(0, len(data), piece):
        wire.data_received(data[at : at + piece])
    await passes(12)
    await answerer.close()
    return socket


async def test_nothing_is_read_after_what_makes_no_sense(caplog: pytest.LogCaptureFixture) -> None:
    sample = Sample()
    wire, socket = wired(sample)
    answerer = Answerer(wire, sample, node="a", pace=Pace())
    wire.begin(answerer, OUTWARD)
    wire.data_received(frames(a_call(number=1), ["no", "message"], a_call(number=2)))
    wire.data_received(frames(a_call(number=3)))
    await passes(4)
    assert socket.is_aborted
    assert len(sample.calls) == 1
    assert "hung up on node a" in caplog.text
    wire.connection_lost(None)
    await answerer.close()
