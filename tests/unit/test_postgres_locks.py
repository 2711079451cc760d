"""What the store says of locks on its tables, on a real server: each table in turn, held and waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.table_locks import NEEDED, READS, holding
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.url import parse_url
from wakeful.store.protocol import TableLock


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.of_url(url)
    await store.open(now=0)
    try:
        yield store
    finally:
        await store.close()


def without_transactions(found: list[TableLock]) -> list[tuple[str, int | None, bool]]:
    return [(lock.table, lock.pid, lock.is_readable) for lock in found]


@pytest.mark.parametrize("session", ["", "&listen=off&session_lock=off"])
async def test_whoever_keeps_us_from_a_table_is_seen(postgres_schema_url: str, session: str) -> None:
    async with opened(postgres_schema_url + session) as store:
        for table in NEEDED:
            for mode, is_readable in ((READS, False), ("EXCLUSIVE", True), ("SHARE", True)):
                async with holding(postgres_schema_url, mode, table) as pid:
                    assert without_transactions(await store.locks()) == [(table, pid, is_readable)]
                    assert await store.locks() == await store.locks()
                assert await store.locks() == []


async def test_locks_that_keep_us_from_nothing_are_not_said(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        for table in NEEDED:
            for mode in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE"):
                async with holding(postgres_schema_url, mode, table):
                    assert await store.locks() == []
        async with holding(postgres_schema_url, READS, "migrations"):
            assert await store.locks() == []


async def test_another_schema_is_not_ours(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        target = parse_url(postgres_schema_url)
        other = postgres_schema_url.replace(target.schema, f"{target.schema}_other")
        async with opened(other), holding(other, READS, "objects"):
            assert await store.locks() == []


async def test_whoever_waits_for_a_table_in_front_of_us_is_seen(postgres_schema_url: str) -> None:
    """A dump reads, somebody's ALTER TABLE waits for its end, and every read of ours behind that."""
    async with opened(postgres_schema_url) as store, holding(postgres_schema_url, "ACCESS SHARE", "objects"):
        target = parse_url(postgres_schema_url)
        waiting: Any = await asyncpg.connect(target.dsn)
        try:
            pid = waiting.get_server_pid()
            task = asyncio.create_task(
                waiting.execute(f'LOCK TABLE "{target.schema}".objects IN ACCESS EXCLUSIVE MODE; SELECT 1')
            )
            async with asyncio.timeout(60):
                while not (found := await store.locks()):
                    pass  # not there yet
            assert without_transactions(found) == [("objects", pid, False)]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        finally:
            waiting.terminate()


async def test_a_look_waits_for_no_lock(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store, holding(postgres_schema_url, READS, *NEEDED):
        async with asyncio.timeout(60):
            assert {lock.table for lock in await store.locks()} == set(NEEDED)
