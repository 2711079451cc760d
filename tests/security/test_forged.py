"""Someone who pretends to be a node gets nothing, and leaves an audit row."""

import asyncio
import os

import msgspec
import pytest

from wakeful import App
from wakeful.security.audit import page
from wakeful.security.refusals import TurnedAway
from wakeful.transport.handshake import NONCE_BYTES, Hello
from wakeful.transport.protocol import VERSION, VERSION_OLDEST, PeerCall
from wakeful.transport.tcp import SocketTransport
from wakeful.values.errors import WrongCluster, WrongSecret

SECRET = "a cluster secret that is long enough"


async def refused(node: object, codes: set[str]) -> list[dict[str, object]]:
    """The rows, once they are written: they are behind the connection's back."""
    store = node.store  # type: ignore[attr-defined]
    for _ in range(500):
        rows = (await page(store)).rows
        if codes <= {row["outcome"] for row in rows}:
            return rows
        await asyncio.sleep(0.01)
    raise AssertionError(f"no rows of {codes}: {rows}")


async def test_a_forged_node_is_turned_away_and_written_down(postgres_schema_url: str) -> None:
    app = App()
    async with app.run(postgres_schema_url, listen="127.0.0.1:0", cluster="c", secret=SECRET) as node:
        address = node.address
        for secret, cluster, kind in (
            ("another secret that is long enough", "c", WrongSecret),
            (None, "c", WrongSecret),
            (SECRET, "other", WrongCluster),
        ):
            stranger = SocketTransport(
                node="forged", cluster=cluster, listen="127.0.0.1:0", secret=secret, entropy=os.urandom
            )
            with pytest.raises(kind):
                await stranger.connect(address, expect_node=node.name)
            await stranger.close()
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100)
        assert await reader.read() is not None
        writer.close()
        await writer.wait_closed()
        rows = await refused(node, {"cluster.secret", "cluster.name", "link.stranger"})
        assert {row["act"] for row in rows} == {"link"}
        assert {row["actor"] for row in rows} == {"address:127.0.0.1"}
        assert SECRET not in str(rows)


async def test_strangers_before_the_node_is_up_are_nobody_s_rows() -> None:
    turned = TurnedAway()
    turned("10.0.0.1:5", "link.stranger", "early")
    async with App().world() as world:
        turned.node = world.node
        for port in range(50):
            turned(f"10.0.0.1:{port}", "link.stranger", "late")
        await world.settle()
        [row] = (await page(world.store)).rows
        assert (row["actor"], row["detail"], row["count"]) == ("address:10.0.0.1", {"why": "late"}, 1)
        await world.advance(seconds=61)
        assert sum(row["count"] for row in (await page(world.store)).rows) == 50


async def test_a_node_that_gave_up_while_this_one_was_frozen_is_no_stranger() -> None:
    told: list[tuple[str, str, str]] = []
    here = SocketTransport(node="here", cluster="c", listen="127.0.0.1:0", secret=SECRET, entropy=os.urandom)
    here.on_refused = lambda *about: told.append(about)
    address = await here.serve(nobody)
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    hello = Hello("wakeful", VERSION_OLDEST, VERSION, "c", "there", "here", True, os.urandom(NONCE_BYTES))
    for body, code in ((msgspec.msgpack.encode(hello), "link.gone"), (b"", "link.stranger")):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(len(body).to_bytes(4, "big") + body if body else b"")
        writer.close()
        for _ in range(500):
            if here.refused[code]:
                break
            await asyncio.sleep(0.01)
        assert here.refused[code] == 1
    await here.close()
    assert [code for _, code, _ in told] == ["link.stranger"]  # whoever says nothing at all may be one


async def nobody(call: PeerCall) -> bytes:
    raise AssertionError
