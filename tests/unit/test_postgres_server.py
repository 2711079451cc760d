"""What a database or a role brings along must not change what a store does."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import asyncpg
import pytest

from wakeful.cli import checkups
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.store import PostgresStore
from wakeful.store.postgres.url import parse_url
from wakeful.store.postgres.wire import ServerWire
from wakeful.store.protocol import CANCELLED
from wakeful.values.errors import StoreDown, StoreError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

NOW = 1_800_000_000_000


def execute(url: str, *statements: str) -> None:
    """Run each, from another thread: a loop may run in this one."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, run()).result()


def named(url: str, database: str) -> str:
    scheme, host, _, query, _ = urlsplit(url)
    return f"{scheme}://{host}/{database}{'?' if query else ''}{query}"


@pytest.fixture
def database_in(postgres_server: str) -> Iterator[Callable[[str], str]]:
    """Makes a database with that encoding; the answer is its URL."""
    made: list[str] = []

    def make(encoding: str) -> str:
        made.append(f"wakeful_enc_{uuid.uuid4().hex}")
        how = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        execute(postgres_server, f'CREATE DATABASE "{made[-1]}" {how}')
        return named(postgres_server, made[-1])

    yield make
    for name in made:
        execute(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')


# encodings


async def test_a_database_that_lacks_letters_is_refused_with_the_remedy(database_in: Callable[[str], str]) -> None:
    url = database_in("LATIN1")
    store = PostgresStore.of_url(url)
    for act in (store.open, store.migrate):
        with pytest.raises(StoreError, match=r"LATIN1.* ENCODING 'UTF8' TEMPLATE template0") as caught:
            await act(now=NOW)
        assert caught.value.code == "store.encoding"
    first, *_ = await checkups.server(url)
    assert (first.check, first.status, "LATIN1" in first.text) == ("server", "fail", True)


async def test_one_without_an_encoding_keeps_what_it_is_sent(database_in: Callable[[str], str]) -> None:
    store = PostgresStore.of_url(database_in("SQL_ASCII"))
    await store.open(now=NOW)
    timer = Timer(ObjectId("A", "日本語"), "zoë", NOW, NOW, 1)
    assert await store.insert([timer], now=NOW) == []
    [met] = await store.insert([timer], now=NOW)
    assert met.timer == timer
    assert not any(finding.status == "fail" for finding in await checkups.server(store.url))
    await store.close()


# settings

FOREIGN = {
    "default_transaction_isolation": "serializable",
    "statement_timeout": "300ms",
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "300ms",
    "idle_session_timeout": "300ms",
}


@pytest.fixture
def foreign_url(database_in: Callable[[str], str]) -> str:
    """A database with settings that are meant for other programs."""
    url = database_in("UTF8")
    name = urlsplit(url).path[1:]
    execute(url, *(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'" for setting, value in FOREIGN.items()))
    return url


async def test_settings_for_other_programs_are_not_ours(foreign_url: str) -> None:
    wire = await ServerWire.connect(parse_url(foreign_url))
    try:
        for setting in FOREIGN:
            [(found,)] = await wire.run(Statement("SELECT current_setting($1)", ("name",)), [setting])
            assert found == ("read committed" if "isolation" in setting else "0")
        await wire.run(Statement("SELECT pg_sleep(0.5)", ()))
        async with wire.transaction():
            await asyncio.sleep(0.5)
    finally:
        await wire.close()


async def test_behind_a_pooler_they_are_named(
    foreign_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)
    store = PostgresStore.of_url(foreign_url)
    with caplog.at_level(logging.WARNING, "wakeful.store"):
        await store.open(now=NOW)
        await store.close()
    [said] = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "store.settings"]
    assert "default_transaction_isolation = serializable, lock_timeout = 200ms, statement_timeout = 300ms" in said


async def test_a_statement_that_the_server_ends_is_no_outage(postgres_url: str) -> None:
    wire = await ServerWire.connect(parse_url(postgres_url))
    try:
        await wire.script("SET statement_timeout = '50ms'")
        with pytest.raises(StoreDown, match=r"nothing of it is written.*57014") as caught:
            await wire.run(Statement("SELECT pg_sleep(5)", ()), writes=True)
        assert caught.value.code == CANCELLED
        assert not wire.is_closed
    finally:
        await wire.close()
