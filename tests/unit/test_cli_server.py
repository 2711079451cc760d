"""What the doctor says of a PostgreSQL server that hides something from its role, or takes no writes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest

from wakeful.cli import run
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.health import Health, health
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import Target, parse_url
from wakeful.store.postgres.wire import READ_ONLY, STANDBY, ServerWire
from wakeful.values.errors import StoreDown, StoreError

NOW = 1_700_000_000_000


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, str]]]:
    def look(url: str, check: str, code: int = 0) -> list[dict[str, str]]:
        capsys.readouterr()
        assert run(["doctor", "--store", url, "--json"]) == code
        return [found for found in json.loads(capsys.readouterr().out) if found["check"] == check]

    return look


def execute(url: str, *statements: str) -> None:
    """In a thread: a test may have an event loop of its own."""

    async def do() -> None:
        connection = await asyncpg.connect(parse_url(url).dsn)
        try:
            for statement in ("SET default_transaction_read_only = off", *statements):
                await connection.execute(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, do()).result()


@pytest.fixture
def plain_url(postgres_schema_url: str) -> Iterator[str]:
    """The store of an ordinary role: it has its rights on the tables and no others."""
    assert run(["migrate", "--store", postgres_schema_url]) == 0
    schema = parse_url(postgres_schema_url).schema
    role = f"role_{schema}"
    execute(
        postgres_schema_url,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    yield postgres_schema_url.replace("postgres:@", f"{role}:@")
    execute(postgres_schema_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def settled(target: Target, hidden: int) -> Health:
    """Once it is so: connections of before end in their own time."""
    for _ in range(100):
        found = await health(target)
        if found.hidden == hidden:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(found)


async def test_what_the_server_hides_from_a_role_is_not_called_well(
    postgres_schema_url: str, plain_url: str, doctor: Callable[..., list[dict[str, str]]]
) -> None:
    """It said "1 of 100 connections" and "no long transactions" of a server full of both."""
    target, plain = parse_url(postgres_schema_url), parse_url(plain_url)
    holder = await asyncpg.connect(target.dsn)
    waiter = await asyncpg.connect(target.dsn)
    try:
        assert (await health(target)).hidden == 0
        found = await settled(plain, hidden=2)
        assert found.connections is not None
        assert found.connections >= 3
        await holder.execute("BEGIN")
        [seen, unseen] = await asyncio.to_thread(doctor, plain_url, "queries")
        assert (seen["status"], unseen["status"]) == ("ok", "ok")
        assert seen["text"] == "no long transactions that this role may see, nobody waits for a lock"
        assert unseen["text"].startswith("2 sessions of other roles: this one may not see")
        assert "pg_read_all_stats" in unseen["remedy"]
        # Who waits for whom is shown to everybody.
        await holder.execute(f"LOCK TABLE {target.schema}.timers IN EXCLUSIVE MODE")
        waiting = asyncio.ensure_future(waiter.execute(f"UPDATE {target.schema}.timers SET attempt = 1"))
        await asyncio.sleep(1.2)
        [waits, unseen] = await asyncio.to_thread(doctor, plain_url, "queries")
        pids = [one.get_server_pid() for one in (waiter, holder)]
        assert (waits["status"], waits["evidence"]) == ("warn", "")
        assert waits["text"].startswith("session {} (postgres) waits for a lock of {}, for ".format(*pids))
        assert unseen["text"].startswith("2 sessions of other roles")
        await holder.execute("ROLLBACK")
        await waiting
        execute(postgres_schema_url, f"GRANT pg_read_all_stats TO role_{target.schema}")
        [finding] = await asyncio.to_thread(doctor, plain_url, "queries")
        assert finding["text"] == "no long transactions, nobody waits for a lock"
    finally:
        await holder.close()
        await waiter.close()


@pytest.mark.parametrize("of", ["DATABASE", "ROLE"])
def test_a_primary_that_takes_no_writes_is_a_failure(
    of: str, postgres_schema_url: str, plain_url: str, doctor: Callable[..., list[dict[str, str]]]
) -> None:
    """Every line was ok while `wakeful run` refused, with the advice to connect to the primary, which it was."""
    execute(
        postgres_schema_url, f"GRANT CREATE ON DATABASE {_database(plain_url)} TO role_{parse_url(plain_url).schema}"
    )
    name = _database(plain_url) if of == "DATABASE" else f"role_{parse_url(plain_url).schema}"
    assert doctor(plain_url, "server")[0]["status"] == "ok"
    execute(postgres_schema_url, f"ALTER {of} {name} SET default_transaction_read_only = on")
    try:
        [finding, connections] = doctor(plain_url, "server", code=1)
        assert finding["status"] == "fail"
        assert finding["text"] == "the server is no standby, and takes no writes"
        assert finding["remedy"] == READ_ONLY
        assert connections["status"] == "ok"
        with pytest.raises(StoreError) as opened:
            asyncio.run(PostgresStore.of_url(plain_url).open(now=NOW))
        fresh = plain_url.replace("schema=", "schema=fresh_")
        with pytest.raises(StoreDown) as migrated:
            asyncio.run(PostgresStore.of_url(fresh).migrate(now=NOW))
        for caught in (opened, migrated):
            assert caught.value.code == "store.readonly"
            assert caught.value.message.endswith(f"; {READ_ONLY}")
            assert STANDBY not in caught.value.message
    finally:
        execute(postgres_schema_url, f"ALTER {of} {name} RESET default_transaction_read_only")
    assert doctor(plain_url, "server")[0]["status"] == "ok"


@pytest.mark.parametrize(
    ("said", "remedy"), [("on", STANDBY), ("off", READ_ONLY), (None, f"{STANDBY}; or {READ_ONLY}")]
)
async def test_a_refused_write_is_put_down_to_what_the_server_said_of_itself(
    said: str | None, remedy: str, postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Settings:
        in_hot_standby = said

    wire = await ServerWire.connect(parse_url(postgres_schema_url), readonly=True)
    monkeypatch.setattr(asyncpg.Connection, "get_settings", lambda self: Settings)
    with pytest.raises(StoreDown) as caught:
        await wire.run(Statement("CREATE TABLE never (a int)", ()))
    assert caught.value.code == "store.readonly"
    assert caught.value.message.endswith(f"in a read-only transaction; {remedy}")
    assert wire.is_closed


async def test_a_standby_is_refused_with_the_way_to_the_primary(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.store.postgres.migrations._READ_ONLY", Statement("SELECT true, true", ()))
    with pytest.raises(StoreError, match="is a standby, which takes no writes; connect to the primary") as caught:
        await PostgresStore.of_url(postgres_schema_url).open(now=NOW)
    assert caught.value.code == "store.readonly"


def _database(url: str) -> str:
    return parse_url(url).dsn.partition("?")[0].rpartition("/")[2]
