"""A body that does not come is a 408, before the connection is cut."""

import asyncio

import pytest

from tests.http.served_stage import Place
from wakeful.server.guard import Guarded

HEAD = b"POST /v1/objects/Deaf/a/hello HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n"


async def said(port: int, sent: bytes) -> bytes:
    """All that the server says to these bytes, until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"[1"])
async def test_a_body_that_does_not_come_is_told(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "request_s", 0.3)
    async with Place().served() as place:
        found = await said(place.port, HEAD + begun)
        assert found.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"body.slow"' in found
        assert b"connection: close" in found


async def test_a_head_that_does_not_come_to_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "request_s", 0.3)
    async with Place().served() as place:
        found = await said(place.port, HEAD[:40])
        assert found.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"header.slow"' in found


async def test_who_says_nothing_at_all_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "request_s", 0.3)
    async with Place().served() as place:
        assert await said(place.port, b"") == b""
