"""What the doctor says while somebody holds a lock on a table of ours: who, for how long, by which query, and the rest all the same."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import pytest

from wakeful.cli import doctor, run
from wakeful.store.postgres.url import parse_url


@contextmanager
def locked(url: str, table: str) -> Iterator[int]:
    """Somebody holds that table, in a transaction that does nothing more; the pid of its session."""
    target = parse_url(url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def lock() -> asyncpg.Connection:
        connection = await asyncpg.connect(target.dsn)
        await connection.execute("BEGIN")
        await connection.execute(f'LOCK TABLE "{target.schema}".{table} IN ACCESS EXCLUSIVE MODE')
        return connection

    try:
        holder = asyncio.run_coroutine_threadsafe(lock(), loop).result(30)
        try:
            yield holder.get_server_pid()
        finally:
            asyncio.run_coroutine_threadsafe(holder.close(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@pytest.mark.parametrize("table", ["timers", "nodes", "migrations"])
def test_who_holds_a_lock_on_our_tables_is_named_first(
    table: str, postgres_schema_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["migrate", "--store", postgres_schema_url]) == 0
    monkeypatch.setattr(doctor, "CHECK_S", 2.0)
    monkeypatch.setattr(doctor, "OPEN_S", 4.0)
    with locked(postgres_schema_url, table) as pid:
        threading.Event().wait(1.5)  # a younger one is nobody's trouble
        capsys.readouterr()
        assert run(["doctor", "--store", postgres_schema_url, "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
    first = found[0]
    assert (first["check"], first["status"]) == ("queries", "warn")
    assert f"session {pid} " in first["text"]
    assert "has been in one transaction for" in first["text"]
    assert "holds locks on Wakeful's tables" in first["text"]
    assert "LOCK TABLE" in first["evidence"]
    assert f"pg_terminate_backend({pid})" in first["remedy"]
    failed = {row["check"]: row for row in found if row["status"] == "fail"}
    checks = {row["check"] for row in found}
    if table == "timers":
        assert "no answer within 2.0 s" in failed["timers"]["text"]
        assert "lock" in failed["timers"]["remedy"]
        assert {"store", "schema", "owner", "parked", "clock", "server", "hints"} <= checks
        assert not failed.keys() & {"store", "parked", "clock"}
    elif table == "nodes":
        assert "no answer within 2.0 s" in failed["owner"]["text"]
        assert {"parked", "clock", "timers", "server"} <= checks
    else:
        assert "no answer within 4.0 s" in failed["store"]["text"]
        assert "server" in checks


def test_without_a_lock_nothing_of_it_is_said(postgres_schema_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "--store", postgres_schema_url]) == 0
    capsys.readouterr()
    assert run(["doctor", "--store", postgres_schema_url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["check"] for row in found][:2] == ["store", "schema"]
    assert all("no answer" not in row["text"] for row in found)
