"""Who may link: proofs that work once, refusals that both ends understand, and strangers that get nothing."""

import asyncio
import contextlib
import os
import socket
from typing import Any

import msgspec
import pytest

from tests.unit.links_stage import SECRET, Sample, a_call, real, until
from tests.yardstick import PATIENCE_S
from wakeful.transport import handshake
from wakeful.transport.frames import Malformed
from wakeful.transport.handshake import Challenge, Hello, Identity, Proof, Welcome, accept, dial
from wakeful.transport.tcp import Bounds
from wakeful.values.errors import (
    BadOption,
    ClusterError,
    LinkLost,
    NoSecret,
    WakefulError,
    WrongCluster,
    WrongNode,
    WrongSecret,
    WrongVersion,
)

A = Identity("a", "c", SECRET)
B = Identity("b", "c", SECRET)


class Pipe:
    """One end of a conversation; everything said is kept."""

    def __init__(self, inbox: asyncio.Queue[bytes], outbox: asyncio.Queue[bytes], said: list[bytes]) -> None:
        self._inbox, self._outbox, self._said = inbox, outbox, said

    def send_body(self, body: bytes) -> None:
        self._said.append(body)
        self._outbox.put_nowait(body)

    async def next_body(self) -> bytes:
        return await self._inbox.get()


async def converse(a: Identity, b: Identity, *, expects: str | None = "b") -> tuple[Any, Any, list[bytes]]:
    """What each end made of it, and what was said."""
    said: list[bytes] = []
    one: asyncio.Queue[bytes] = asyncio.Queue()
    two: asyncio.Queue[bytes] = asyncio.Queue()
    dialled = dial(Pipe(one, two, said), a, nonce=os.urandom(32), expects=expects, address="tcp:b:1")
    accepted = accept(Pipe(two, one, said), b, nonce=os.urandom(32), window=7)
    async with asyncio.timeout(PATIENCE_S):
        found = await asyncio.gather(dialled, accepted, return_exceptions=True)
    return found[0], found[1], said


async def test_both_learn_who_the_other_is_and_the_secret_is_not_said() -> None:
    challenge, hello, said = await converse(A, B)
    assert (challenge.node, challenge.window, challenge.version, hello.node) == ("b", 7, 1, "a")
    assert len(said) == 4
    assert not any(SECRET.encode() in body for body in said)
    again = await converse(A, B)
    assert not set(said) & set(again[2])  # nothing said once is ever said again


@pytest.mark.parametrize(
    ("a", "b", "expects", "kind"),
    [
        (A, Identity("b", "c", "another secret, as long"), "b", WrongSecret),
        (A, Identity("b", "c", None), "b", WrongSecret),
        (Identity("a", "c", None), B, "b", WrongSecret),
        (A, Identity("b", "other", SECRET), "b", WrongCluster),
        (A, Identity("b", "c", SECRET, 2, 3), "b", WrongVersion),
        (Identity("a", "c", SECRET, 4, 5), Identity("b", "c", SECRET, 2, 3), "b", WrongVersion),
        (A, Identity("z", "c", SECRET), "b", WrongNode),
    ],
)
async def test_a_refusal_has_the_same_type_at_both_ends_and_names_both(
    a: Identity, b: Identity, expects: str, kind: type[WakefulError]
) -> None:
    dialled, accepted, said = await converse(a, b, expects=expects)
    assert type(dialled) is type(accepted) is kind
    assert dialled.code == accepted.code == kind.default_code
    for error in (dialled, accepted):
        assert b.node in error.message
        assert SECRET not in error.message
    assert not any(isinstance(msgspec.msgpack.decode(body, type=handshake.Greeting), Welcome) for body in said)


async def test_the_newest_version_that_both_know_is_spoken() -> None:
    challenge, hello, _ = await converse(Identity("a", "c", SECRET, 1, 4), Identity("b", "c", SECRET, 2, 3))
    assert challenge.version == 3
    assert hello.newest == 4


class Script:
    """The other end, saying what it is told to; each line may depend on what was heard."""

    def __init__(self, *lines: Any) -> None:
        self.heard: list[bytes] = []
        self._lines = list(lines)

    def send_body(self, body: bytes) -> None:
        self.heard.append(body)

    async def next_body(self) -> bytes:
        line = self._lines.pop(0)
        made = line(self.heard) if callable(line) else line
        return made if isinstance(made, bytes) else msgspec.msgpack.encode(made)


def hello_of(node: str = "a", nonce: bytes = b"1" * 32) -> Hello:
    return Hello("wakeful", 1, 1, "c", node, "b", True, nonce)


async def accepted_by(script: Script) -> Hello:
    return await accept(script, B, nonce=b"2" * 32, window=7)


async def test_a_recorded_proof_is_worth_nothing_on_another_connection() -> None:
    _, _, said = await converse(A, B)
    with pytest.raises(WrongSecret):
        await accepted_by(Script(said[0], said[2]))


async def test_a_proof_of_the_other_role_is_none() -> None:
    hello = msgspec.msgpack.encode(hello_of())

    def reflected(heard: list[bytes]) -> Proof:
        return Proof(B.prove(b"acceptor", hello, heard[0]))

    with pytest.raises(WrongSecret):
        await accepted_by(Script(hello, reflected))


async def test_a_proof_covers_every_word() -> None:
    hello = msgspec.msgpack.encode(hello_of())
    other = msgspec.msgpack.encode(hello_of(node="z"))

    def signed(body: bytes) -> Any:
        return lambda heard: Proof(A.prove(b"dialler", body, heard[0]))

    assert (await accepted_by(Script(hello, signed(hello)))).node == "a"
    with pytest.raises(WrongSecret):
        await accepted_by(Script(other, signed(hello)))


async def test_ones_own_nonce_or_a_short_one_is_refused() -> None:
    with pytest.raises(Malformed):
        await accepted_by(Script(hello_of(nonce=b"2" * 32)))
    with pytest.raises(Malformed):
        await accepted_by(Script(hello_of(nonce=b"")))


async def test_a_node_that_cannot_prove_itself_is_not_believed() -> None:
    challenge = Challenge(1, "c", "b", 7, True, b"2" * 32)
    for welcome in (Welcome(b""), Welcome(b"x" * 32), lambda heard: Welcome(_proof_in(heard))):
        script = Script(challenge, welcome)
        with pytest.raises(WrongSecret):
            await dial(script, A, nonce=b"1" * 32, expects="b", address="tcp:b:1")


def _proof_in(heard: list[bytes]) -> bytes:
    """The dialler's own proof, sent back to it."""
    return msgspec.msgpack.decode(heard[1], type=Proof).proof


async def test_a_node_that_is_not_the_expected_one_gets_no_proof() -> None:
    script = Script(Challenge(1, "c", "evil", 7, True, b"2" * 32))
    with pytest.raises(WrongNode):
        await dial(script, A, nonce=b"1" * 32, expects="b", address="tcp:b:1")
    assert not any(isinstance(msgspec.msgpack.decode(body, type=handshake.Greeting), Proof) for body in script.heard)


@pytest.mark.parametrize("first", [b"", b"\xc1", b"GET / HTTP/1.1", {"a": 1}, Proof(b"x"), Welcome(b"y")])
async def test_a_greeting_that_makes_no_sense_is_malformed(first: Any) -> None:
    with pytest.raises(Malformed):
        await accepted_by(Script(first))


async def test_what_a_stranger_says_cannot_write_into_a_log() -> None:
    with pytest.raises(ClusterError) as caught:
        await accepted_by(Script(hello_of(), handshake.Refusal("x", "a\nb\x1b[0m")))
    assert "a?b?[0m" in caught.value.message
    assert SECRET not in repr(A)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"secret": "another secret, as long"}, WrongSecret),
        ({"secret": None}, WrongSecret),
        ({"cluster": "other"}, WrongCluster),
    ],
)
async def test_a_node_that_does_not_belong_gets_no_link(
    options: dict[str, Any], kind: type[WakefulError], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = real("a", **options), real("b")
    handler = Sample()
    address = await b.serve(handler)
    with pytest.raises(kind):
        await a.connect(address, expect_node="b")
    await until(lambda: b.refused[kind.default_code] == 1)
    assert [getattr(record, "code", "") for record in caplog.records] == [kind.default_code]
    link = await real("c").connect(address, expect_node="b")  # those who belong are not disturbed
    assert (await link.ask(a_call("echo", b"x"), timeout_ms=2_000)).answer == b"x"
    assert len(handler.calls) == 1
    with pytest.raises(WrongNode) as caught:
        await real("c").connect(address, expect_node="z")
    assert not caught.value.was_sent  # so it is safe to look for the right one and ask that
    await link.close()
    await b.close()


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x03\xc1\xc1\xc1",
        b"\xff" * 100,
        b"\x00\x00\x10\x00" + b"x" * 70_000,
    ],
)
async def test_garbage_and_silence_are_hung_up_on(words: bytes) -> None:
    b = real("b", bounds=Bounds(greeting_ms=100))
    address = await b.serve(Sample())
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(words)
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    await b.close()


async def test_strangers_are_bounded_and_cannot_call() -> None:
    b = real("b", bounds=Bounds(greeting_ms=400, strangers=3))
    handler = Sample()
    port = int((await b.serve(handler)).rpartition(":")[2])
    strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
    body = msgspec.msgpack.encode(a_call("echo", number=1))
    for _, writer in strangers:
        writer.write(len(body).to_bytes(4, "big") + body)
    await until(lambda: b.refused.total() == 5)
    assert b.refused["link.strangers"] == 2
    assert handler.calls == []
    for _, writer in strangers:
        writer.close()
    await b.close()


async def test_a_node_that_accepts_and_says_nothing_is_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        a = real("a", bounds=Bounds(greeting_ms=100))
        with pytest.raises(LinkLost, match="did not say who it is in time") as caught:
            await a.connect(f"tcp:127.0.0.1:{silent.getsockname()[1]}")
        assert not caught.value.was_sent


async def test_without_a_secret_nothing_leaves_the_machine() -> None:
    with pytest.raises(NoSecret, match="WAKEFUL_SECRET"):
        await real("a", "0.0.0.0:0", secret=None).serve(Sample())
    with pytest.raises(NoSecret):
        await real("a", secret=None).connect("10.1.2.3:7400")
    with pytest.raises(BadOption, match="can be guessed"):
        real("a", secret="short")
    b = real("b", secret=None)
    link = await real("a", secret=None).connect(await b.serve(Sample()))
    await link.close()
    await b.close()
