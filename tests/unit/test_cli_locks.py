"""What the doctor says while somebody holds a lock on a table of ours: who, for how long, by which query, and the rest all the same."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from wakeful.cli import checkups, doctor, nodes, options, run, session
from wakeful.cli.checkups import Finding
from wakeful.cli.session import InTheWay
from wakeful.store import open_url
from wakeful.store.postgres.url import parse_url
from wakeful.store.protocol import NodeRow


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
    monkeypatch.setattr(options, "OPEN_S", 4.0)
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


def test_each_finding_of_the_doctor_is_printed_as_soon_as_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path}/a.db"
    assert run(["migrate", "--store", url]) == 0
    capsys.readouterr()
    before: list[str] = []

    async def timers(*_: object) -> list[Finding]:
        before.append(capsys.readouterr().out)
        return []

    monkeypatch.setattr(checkups, "timers", timers)
    assert run(["doctor", "--store", url]) == 0
    assert "can be read" in before[0]
    assert "no process runs this store" in before[0]
    assert "nothing is parked" not in before[0]
    assert "nothing is parked" in capsys.readouterr().out


@pytest.mark.parametrize("table", ["nodes", "shards", "migrations"])
def test_who_can_t_be_asked_for_nodes_is_said_with_who_is_in_the_way(
    table: str, postgres_schema_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["migrate", "--store", postgres_schema_url]) == 0
    asyncio.run(join(postgres_schema_url))
    monkeypatch.setattr(nodes, "ASK_S", (2.0, 60.0))  # of which it waits for the first only
    monkeypatch.setattr(options, "OPEN_S", 60.0)
    capsys.readouterr()
    with locked(postgres_schema_url, table) as pid:
        threading.Event().wait(1.5)  # a younger one is nobody's trouble
        assert run(["nodes", "--store", postgres_schema_url]) == 3
        out, err = capsys.readouterr()
        assert run(["nodes", "--store", postgres_schema_url, "--json"]) == 3
        told = json.loads(capsys.readouterr().out)
    assert "[store.mute]" in err
    if table == "migrations":
        assert "the store can't be opened: no answer within 2 s" in err
        assert f"session {pid} " in err
        assert f"pg_terminate_backend({pid})" in err
        return
    assert f"the table {table} is locked by session {pid} of the database, and can't be read" in err
    assert f"pg_terminate_backend({pid})" in err
    assert told["error"]["code"] == "store.mute"
    if table == "nodes":
        assert "the nodes can't be read: no answer within 2 s" in err
        assert not out
    else:
        assert "who has which shard can't be read: no answer within 2 s" in err
        assert "somebody" in out
        assert [(row["node"], row["shards"]) for row in told["nodes"]] == [("somebody", None)]


@pytest.mark.parametrize("found", [None, InTheWay("somebody is", "end it", True)])
async def test_an_answer_that_comes_while_it_is_looked_who_is_in_the_way_is_taken(
    found: InTheWay | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was dropped, and the command failed."""
    has_come = asyncio.Event()

    async def look(*_: object) -> InTheWay | None:
        has_come.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return found

    async def question() -> int:
        await has_come.wait()
        return 7

    monkeypatch.setattr(session, "in_the_way", look)
    store: Any = SimpleNamespace(shared=True)
    assert await nodes._answer(question(), store, "", "it can't be read", (0.001,)) == 7


async def test_who_only_reads_our_tables_is_not_taken_for_who_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump that has gone on for long, and a server that is slow to open a connection."""
    has_looked = asyncio.Event()

    async def look(*_: object) -> InTheWay | None:
        asyncio.get_running_loop().call_later(0.01, has_looked.set)
        return InTheWay("somebody reads", "end it", False)

    async def question() -> int:
        await has_looked.wait()
        return 7

    monkeypatch.setattr(session, "in_the_way", look)
    store: Any = SimpleNamespace(shared=True)
    assert await nodes._answer(question(), store, "", "it can't be read", (0.001, 60.0)) == 7


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("objects", ["ls"]),
        ("timers", ["due"]),
        ("migrations", ["ls"]),
    ],
)
def test_a_command_that_got_no_answer_says_who_is_in_the_way(
    table: str,
    words: list[str],
    postgres_schema_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It said `store.down` and nothing else, after half a minute."""
    monkeypatch.setattr(session, "SILENT_S", 0.3)
    assert run(["migrate", "--store", postgres_schema_url]) == 0
    url = f"{postgres_schema_url}&timeout=1500ms"
    with locked(postgres_schema_url, table) as pid:
        capsys.readouterr()
        assert run([*words, "--store", url]) == 3
        _, err = capsys.readouterr()
    waiting, error = err.strip().splitlines()
    assert waiting.startswith("waiting: ")  # long before it gives up
    assert f"session {pid} " in waiting
    assert "[store.down]" in error
    assert f"session {pid} " in error
    assert "in one transaction for" in err
    assert "LOCK TABLE" in err
    assert f"pg_terminate_backend({pid})" in err
    if table != "migrations":
        assert f"the table {table} is locked by session {pid} of the database, and can't be read" in err


async def join(url: str) -> None:
    store = open_url(url)
    await store.open(now=0)
    await store.join(NodeRow("somebody", "", 0, 0, "a test"))
    await store.close()
