"""Strangers at the port between nodes keep no member out, and put no words of theirs into metrics."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.unit.links_stage import SECRET, Sample, real, until
from tests.yardstick import PATIENCE_S
from wakeful.transport import handshake
from wakeful.transport.handshake import Challenge, Refusal
from wakeful.transport.tcp import Bounds, SocketTransport, Strangers, place_of
from wakeful.values.errors import ClusterError, LinkLost, WrongCluster


@asynccontextmanager
async def served(**bounds: int) -> AsyncIterator[tuple[SocketTransport, int]]:
    b = real("b", bounds=Bounds(**{"greeting_ms": 20_000, **bounds}))
    try:
        yield b, int((await b.serve(Sample())).rpartition(":")[2])
    finally:
        await b.close()


@asynccontextmanager
async def silence(port: int) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Makes so many more connections that say nothing."""
    silent: list[asyncio.StreamWriter] = []

    async def more(count: int) -> None:
        silent.extend([(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(count)])

    try:
        yield more
    finally:
        for writer in silent:
            writer.transport.abort()
        await asyncio.sleep(0)


def frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


async def test_sixty_four_silent_connections_keep_no_member_out() -> None:
    async with served() as (b, port), silence(port) as more:
        await more(200)
        await until(lambda: b.refused["link.strangers"] >= 100)
        try:
            link = await real("a").connect(f"tcp:127.0.0.1:{port}")
        except LinkLost as error:
            raise AssertionError(f"a member was kept out: {error}") from None
        assert not link.is_closed
        # However many more come, whoever has proved who it is stays.
        await more(200)
        await until(lambda: b.refused["link.strangers"] >= 300)
        assert not link.is_closed
        await link.close()


async def test_one_address_has_a_share_and_its_oldest_silent_one_goes_first() -> None:
    async with served(strangers=8, of_one=2) as (b, port):
        silent = []
        for _ in range(3):
            silent.append(await asyncio.open_connection("127.0.0.1", port))
            await asyncio.sleep(0.02)
        await until(lambda: b.refused["link.strangers"] == 1)
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                assert await silent[0][0].read() == b"", "the oldest"
        for _, writer in silent:
            writer.close()


def test_who_goes_when_there_is_no_room() -> None:
    class Wire:
        def __init__(self, host: str, has_spoken: bool = False) -> None:
            self.host, self.has_spoken = host, has_spoken

    crowd: Strangers[Any] = Strangers(5, of_one=3)
    many = [Wire("6.6.6.6") for _ in range(3)]
    few = [Wire("10.0.0.7"), Wire("10.0.0.8", has_spoken=True)]
    for wire in (*few, *many):
        assert crowd.room_for(wire, place_of(wire.host)) is None
    # Of the address with most, the oldest that has said nothing.
    many[0].has_spoken = True
    assert crowd.room_for(Wire("10.0.0.9"), "10.0.0.9") is many[1]
    assert crowd.room_for(Wire("10.0.0.10"), "10.0.0.10") is many[2]
    # One each, and one more: the oldest silent one of all.
    assert crowd.room_for(Wire("10.0.0.11"), "10.0.0.11") is few[0]
    crowd.leave(few[1])
    assert crowd.room_for(Wire("10.0.0.12"), "10.0.0.12") is None


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a connection", "a connection"),
    ],
)
def test_addresses_that_one_party_has_in_any_number_are_one_place(host: str, place: str) -> None:
    assert place_of(host) == place


async def test_a_strangers_first_frame_names_no_metric_of_its_own() -> None:
    told: list[str] = []
    async with served() as (b, port):
        b.on_refused = lambda peer, code, why: told.append(code)
        for number in range(300):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(Refusal(f"code.{number}", "x" * 100)))
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        await until(lambda: len(told) == 300)
        assert set(told) == {"link.stranger"}
        assert set(b.refused) == {"link.stranger"}


@pytest.mark.parametrize(
    ("code", "kind", "found"), [("cluster.name", WrongCluster, "cluster.name"), ("evil.7", ClusterError, "cluster")]
)
async def test_whoever_is_dialled_names_no_code_of_its_own_either(
    code: str, kind: type[ClusterError], found: str
) -> None:
    """It is what `wakeful_links_failures_total` has for a label."""

    class Liar:
        def send_body(self, body: bytes) -> None:
            pass

        async def next_body(self) -> bytes:
            return msgspec.msgpack.encode(Refusal(code, "no"))

    me = handshake.Identity("a", "", SECRET)
    with pytest.raises(kind) as raised:
        await handshake.dial(Liar(), me, nonce=b"n" * 32, expects=None, address="x:1")
    assert type(raised.value) is kind
    assert raised.value.code == found


async def test_a_refusal_in_the_place_of_a_proof_is_still_told() -> None:
    """The one that dialled may find that it is in another cluster; its reason is one of four."""
    said = [msgspec.msgpack.encode(handshake.Hello("wakeful", 1, 9, "", "a", "", True, b"m" * 32))]
    said.append(msgspec.msgpack.encode(Refusal("made.up", "no")))

    class Dialler:
        def send_body(self, body: bytes) -> None:
            msgspec.msgpack.decode(body, type=Challenge | Refusal)

        async def next_body(self) -> bytes:
            return said.pop(0)

    with pytest.raises(ClusterError) as raised:
        await handshake.accept(Dialler(), handshake.Identity("b", "", SECRET), nonce=b"n" * 32, window=1)
    assert raised.value.code == "cluster"
