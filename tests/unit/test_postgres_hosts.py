"""Several hosts in one URL: the one that takes writes is found, and while there is none the error names them all."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest

from wakeful import App, DurableObject, Unavailable
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import parse_url
from wakeful.store.postgres.wire import ServerLost, ServerWire
from wakeful.values.commits import Commit
from wakeful.values.errors import BadUrl, StoreDown
from wakeful.values.ids import ObjectId, shard_of

NOW = 1_760_000_000_000


@contextmanager
def mute() -> Iterator[int]:
    """A port that takes connections and says nothing, like a machine whose packets are dropped."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield listening.getsockname()[1]


def beside(url: str, other: str, **more: str) -> str:
    """The URL of that server behind another host."""
    target = parse_url(url)
    assert "host=" in target.dsn, target.dsn
    options = "".join(f"&{name}={value}" for name, value in more.items())
    return url.replace("host=", f"host={other},") + options


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:geheim@a,b:6000/x", ["a", "b:6000"]),
        ("postgresql://me:geheim@a:1,[::1]:2,c/x?target_session_attrs=primary", ["a:1", "[::1]:2", "c"]),
        ("postgresql:///x?host=/run/a,/run/b&port=7", ["/run/a:7", "/run/b:7"]),
        ("postgresql:///x?host=/run/a,/run/b&port=7,8&password=geheim", ["/run/a:7", "/run/b:8"]),
        ("postgresql://me:geheim@a/x", []),
    ],
)
def test_each_host_gets_a_url_of_its_own(url: str, shown: list[str]) -> None:
    target = parse_url(url)
    assert [host.shown for host in target.hosts] == shown
    for host in target.servers:
        connect: Any = asyncpg.connect_utils._parse_connect_dsn_and_args(
            dsn=host.dsn, host=None, port=None, user=None, password="x", passfile=None, database=None, ssl=None,
            service=None, servicefile=None, direct_tls=None, server_settings=None, target_session_attrs=None,
            krbsrvname=None, gsslib=None,
        )  # fmt: skip
        addresses, parameters = connect[0], connect[1]
        assert len(addresses) == 1 or not shown
        if shown:
            wanted = "primary" if "primary" in url else "read-write"
            assert parameters.target_session_attrs.value == wanted


def test_hosts_and_ports_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadUrl, match="3 hosts and 2 ports"):
        parse_url("postgresql:///x?host=a,b,c&port=1,2")


async def test_a_host_that_swallows_everything_costs_half_a_second_and_not_the_others(postgres_schema_url: str) -> None:
    """The driver's own way had no time left for the second."""
    with mute() as port:
        target = parse_url(beside(postgres_schema_url, "127.0.0.1", port=f"{port},5432"))
        began = asyncio.get_running_loop().time()
        wire = await ServerWire.connect(target)
        assert asyncio.get_running_loop().time() - began < 4.0
        assert (await wire.run(Statement("SELECT 1", ())))[0][0] == 1
        await wire.close()


async def test_while_none_takes_writes_the_error_names_both_and_no_password(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be an error of the driver's, which nobody below took for a store that is away."""
    monkeypatch.setenv("PGPASSWORD", "geheim")
    only = {"target_session_attrs": "standby"}  # which the test's server is not
    target = parse_url(beside(postgres_schema_url, "/nowhere", **only))
    with pytest.raises(ServerLost) as raised:
        await ServerWire.connect(target)
    assert "/nowhere: " in raised.value.message
    assert "takes no writes" in raised.value.message
    assert "geheim" not in raised.value.message
    alone = parse_url(f"{postgres_schema_url}&target_session_attrs=standby")
    with pytest.raises(StoreDown, match="target_session_attrs"):
        await ServerWire.connect(alone)


async def test_a_server_that_takes_no_writes_any_more_is_left_for_the_next(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that was demoted under its connections: what it refuses is asked of the new one, and nobody sees it."""
    store = PostgresStore.of_url(beside(postgres_schema_url, "/nowhere"))
    await store.open(now=NOW)
    try:
        assert isinstance(store._readers, Pool)
        async with store._readers.take() as wire:
            await wire.run(Statement("SET default_transaction_read_only = on", ()))
        assert not await store.drain("nobody", True), "asked again, and answered"
    finally:
        await store.close()


async def break_off(url: str) -> None:
    """End every session of ours, as a failover does."""
    connection = await asyncpg.connect(parse_url(url).dsn)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wakeful' "
        "AND datname = current_database()"
    )
    await connection.close()


async def test_a_server_that_lacks_what_was_acknowledged_is_no_place_to_go_on_from_memory(
    postgres_schema_url: str,
) -> None:
    """An asynchronous standby was promoted: what objects remember of the last moments is not on its disk.

    To go on would write the next turn on top of one that is gone.
    """
    app = App()

    @app.object
    class Till(DurableObject):
        async def add(self, n: int) -> dict[str, int]:
            total = await self.storage.get("total", 0) + n
            self.storage.put("total", total)
            self.storage.put("last", n)
            return {"total": total}

        async def total(self) -> dict[str, int]:
            return {"total": await self.storage.get("total", 0), "last": await self.storage.get("last", 0)}

    target = parse_url(postgres_schema_url)
    async with app.run(postgres_schema_url) as node:
        till = app.get(Till, "a")
        assert await till.add(5) == {"total": 5}
        look = await asyncpg.connect(target.dsn, server_settings={"application_name": "test"})
        number, rows = (
            await look.fetchval(f"SELECT max(number) FROM \"{target.schema}\".receipts WHERE id LIKE 'commits:%'"),
            await look.fetch(
                f"SELECT cls, key, space, name, value FROM \"{target.schema}\".storage WHERE cls = 'Till'"
            ),
        )
        assert await till.add(7) == {"total": 12}
        # As the standby had it, which was a moment behind.
        async with look.transaction():
            for row in rows:
                await look.execute(
                    f'UPDATE "{target.schema}".storage SET value = $5 WHERE (cls, key, space, name) = ($1, $2, $3, $4)',
                    *row,
                )
            await look.execute(f"UPDATE \"{target.schema}\".receipts SET number = $1 WHERE id LIKE 'commits:%'", number)
        await break_off(postgres_schema_url)
        refused: list[str] = []
        for _ in range(50):
            try:
                found = await app.get(Till, "a", deadline="20s").add(1)
                break
            except Unavailable as error:
                refused.append(str(error))
                await asyncio.sleep(0.1)
        assert found == {"total": 6}, "the seven is gone, and nothing rests on it"
        assert node.outage.count == 1
        assert all("acknowledged" in one for one in refused), refused
        await look.close()


async def test_a_server_that_has_it_all_is_gone_on_with(postgres_schema_url: str) -> None:
    """Also when notes of starts, which nobody waits for, are gone; and when the receipt is, since it was kept long enough."""
    store = PostgresStore.of_url(postgres_schema_url)
    await store.open(now=NOW)
    try:
        epochs = await store.claim("n", range(256), now=NOW)
        id = ObjectId("Till", "a")
        at = NOW
        for _ in range(3):
            commit = Commit(id=id, shard=shard_of(id), epoch=epochs[shard_of(id)], now=at, puts={(0, "x"): b"1"})
            assert await store.commit("n", [commit]) == [None]
            await break_off(postgres_schema_url)
            at += 3 * 86_400_000
            await store.prune(now=at, entries_before=0, crowded=(), limit=100)
    finally:
        await store.close()


def test_what_a_session_can_t_be_is_refused_by_name() -> None:
    with pytest.raises(BadUrl, match="'foo': there are any, primary, standby, read-write"):
        parse_url("postgresql://a@db/app?target_session_attrs=foo")
