"""A client and servers that are away, not trusted, or behind a proxy; and what it must not send by itself."""

import asyncio
import datetime
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.http.client_stage import busy, client_of, served
from tests.yardstick import Yardstick
from wakeful import Client, errors
from wakeful.client import looks


@pytest.mark.parametrize("plan", ["cut", "drop"])
async def test_a_cancel_whose_answer_is_lost_is_not_sent_again(plan: str) -> None:
    """The HTTP library repeats a DELETE by itself, and the second answer is that there was nothing to cancel."""
    async with served() as shop, client_of(shop, is_shaky=True) as client:
        own = client.schedules(shop.cls, "a")
        await own.add("0 3 * * *", "nightly", name="n")
        shop.shaky.plan = [plan]
        with pytest.raises(errors.OutcomeUnknown) as caught:
            await own.cancel("n")
        assert caught.value.code == "client.lost"
        assert sum(head.startswith(b"DELETE") for head in shop.shaky.requests) == 1


async def test_waiting_for_a_job_of_a_server_that_is_away_ends_in_time() -> None:
    async with served() as shop, client_of(shop) as client:
        job = await client.jobs.schedule(client.get(shop.cls, "a").total, after="1h")
    async with Client("http://127.0.0.1:1") as client:
        began = time.monotonic()
        with Yardstick() as machine, pytest.raises(errors.Unavailable) as caught:
            await client.jobs.wait(job, timeout="100ms")
        assert type(caught.value) is errors.Unavailable, "a class that callers can name"
        assert time.monotonic() - began < machine.allows(8), "it used to be the grace of a poll, 15 s"


async def test_a_body_that_is_too_large_is_a_limit() -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(errors.LimitExceeded):
            await client.get(shop.cls, "a").add("x" * 3_000_000)


def _certificate(folder: Path) -> ssl.SSLContext:
    """A server's side with a certificate that nobody trusts."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


@pytest.mark.parametrize("is_tls", [True, False])
async def test_a_server_that_is_not_trusted_is_said_at_once(tmp_path: Path, is_tls: bool) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=_certificate(tmp_path) if is_tls else None)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(f"https://127.0.0.1:{port}") as client:
        with pytest.raises(errors.WrongCertificate) as caught:
            await asyncio.wait_for(client.get("Shop", "a").add(1), 20)
        assert caught.value.code == "client.tls"
        assert client._wire.repeats == 0


class Proxy:
    """Answers each request for the stream of events with the next of these."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self.asked: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answers.pop(0))
        await writer.drain()
        writer.close()


def _stream(id: int) -> bytes:
    return b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nid: %d\ndata: {"kind":"run"}\n\n' % id


GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nno"


async def test_events_go_on_after_a_proxy_had_no_server_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "AGAIN_S", 0.01)
    proxy = Proxy([_stream(1), GATEWAY, busy(429, "TooMany", "denied.rate"), _stream(2), GATEWAY])
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(f"http://127.0.0.1:{port}") as client:
        events = client.events("run")
        assert [await anext(events), await anext(events)] == [{"kind": "run"}] * 2
        assert [b"last-event-id: 1" in head.lower() for head in proxy.asked] == [False, True, True, True]
        await events.aclose()  # type: ignore[attr-defined]
        with pytest.raises(errors.Unavailable):  # at first it may be that there never was one
            await anext(client.events("run"))
