"""Behind a pooler of transactions every statement may run on a connection that others use next: nothing may stay set there."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from tests.yardstick import PATIENCE_S
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.health import health
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import parse_url
from wakeful.store.postgres.wire import ServerWire
from wakeful.store.protocol import Hint
from wakeful.values.errors import StoreError

NOW = 1_700_000_000_000
SET = ("default_transaction_read_only", "synchronous_commit", "enable_seqscan", "plan_cache_mode", "jit")


@pytest.fixture
def pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as a client can tell: another process of the server answers than the one that greeted it."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)


async def settings(wire: ServerWire) -> dict[str, str]:
    names = ", ".join(f"current_setting('{name}')" for name in SET)
    [row] = await wire.run(Statement(f"SELECT {names}", ()))
    return dict(zip(SET, row, strict=True))


async def test_a_connection_through_a_pooler_is_left_as_it_was(postgres_schema_url: str, pooler: None) -> None:
    """`wakeful doctor` made connections read-only that programs got next, and a node made them commit lazily."""
    target = parse_url(postgres_schema_url)
    plain: Any = await asyncpg.connect(target.dsn)
    try:
        before = {name: await plain.fetchval(f"SELECT current_setting('{name}')") for name in SET}
    finally:
        await plain.close()
    for readonly in (False, True):
        wire = await ServerWire.connect(target, readonly=readonly, packed=True)
        try:
            assert wire.is_pooled
            assert await settings(wire) == before
            kept = await wire.run(Statement("SELECT count(*)::int FROM pg_prepared_statements", ()))
            assert kept[0][0] == 0, "a pooler may not keep prepared statements"
        finally:
            await wire.close()


async def test_a_connection_of_one_s_own_is_set_as_we_need_it(postgres_schema_url: str) -> None:
    wire = await ServerWire.connect(parse_url(postgres_schema_url), readonly=True)
    try:
        assert not wire.is_pooled
        found = await settings(wire)
        assert (found["default_transaction_read_only"], found["enable_seqscan"]) == ("on", "off")
    finally:
        await wire.close()


async def test_who_sits_behind_a_pooler_hears_nobody_and_is_heard(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who are not behind it waited for what such a program scheduled until they looked, five seconds later."""
    heard: list[Sequence[Hint]] = []
    node = PostgresStore.of_url(postgres_schema_url)
    node.watch(heard.append)
    await node.open(now=NOW)
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)
    program = PostgresStore.of_url(postgres_schema_url)
    await program.open(now=NOW)
    try:
        assert (node.listens, node.tells, program.listens, program.tells) == (True, True, False, True)
        hints = [Hint(3, NOW, NOW + 1)]
        await program.tell(hints)
        await program.tell([])
        async with asyncio.timeout(PATIENCE_S):
            while len(heard) < 2:  # noqa: ASYNC110  (nobody tells us)
                await asyncio.sleep(0.005)
        assert [list(one) for one in heard] == [hints, []]
    finally:
        await program.close()
        await node.close()


async def test_a_database_that_commits_lazily_is_refused_behind_a_pooler(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = f"{postgres_schema_url}&synchronous_commit=off"
    store = PostgresStore.of_url(lazy)
    await store.open(now=NOW)  # a connection of one's own is set right
    await store.close()
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)
    with pytest.raises(StoreError, match=r"on disk, and a pooler is between.* SET synchronous_commit = on") as caught:
        await PostgresStore.of_url(lazy).open(now=NOW)
    assert caught.value.code == "store.lazy"
    reader = PostgresStore.of_url(lazy)
    await reader.open(now=NOW, readonly=True)
    await reader.close()


async def test_the_doctor_does_not_listen_on_a_connection_that_is_not_its_own(
    postgres_schema_url: str, pooler: None
) -> None:
    found = await health(parse_url(postgres_schema_url))
    assert found.hears is False


async def test_a_hint_that_can_not_be_told_through_a_pooler_harms_nobody(
    postgres_schema_url: str, pooler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full queue of notifications kept a node from starting."""
    full = "SELECT count(pg_notify($1, repeat('x', 9000))) FROM unnest($2::text[]) AS payload"  # more than one may have
    monkeypatch.setattr("wakeful.store.postgres.store.NOTIFY", Statement(full, ("channel", "payloads")))
    store = PostgresStore.of_url(postgres_schema_url)
    await store.open(now=NOW)
    try:
        await store.tell([Hint(3, NOW, NOW + 1)])
        assert store.tells
    finally:
        await store.close()


@pytest.mark.parametrize("lacks", ["pg_backend_pid", "synchronous_commit"])
async def test_a_relative_that_lacks_what_tells_of_a_pooler_is_opened(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    def lacking(real: Any) -> Any:
        async def run(self: Any, query: str, *args: Any, **options: Any) -> Any:
            if lacks in query and ", true)" not in query:
                raise asyncpg.UndefinedFunctionError(f"there is no {lacks}")
            return await real(self, query, *args, **options)

        return run

    for name in ("execute", "fetch"):
        monkeypatch.setattr(asyncpg.Connection, name, lacking(getattr(asyncpg.Connection, name)))
    if lacks == "synchronous_commit":
        monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)
    store = PostgresStore.of_url(postgres_schema_url)
    await store.open(now=NOW)
    try:
        assert await store.nodes() == []
    finally:
        await store.close()
