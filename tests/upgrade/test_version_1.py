"""Does a database of schema 1 say that it is old, come up to date by `wakeful migrate`, and keep everything in it?"""

import asyncio
import json
import sqlite3
from pathlib import Path

import asyncpg
import pytest

from wakeful.cli import run
from wakeful.store import NodeRow, Query, Range, Store, open_url
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.url import parse_url
from wakeful.values.commits import SYSTEM, USER, Commit, Info, Remembered
from wakeful.values.errors import SchemaTooOld
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.runs import Entry
from wakeful.values.timers import ALARM, Parked, Timer

NOW = 1_760_000_000_000
HERE = Path(__file__).parent
ONE = ObjectId("Order", "a")


def sqlite_of_version_1(folder: Path) -> str:
    db = sqlite3.connect(folder / "v1.db")
    db.executescript((HERE / "data" / "v1.sql").read_text(encoding="utf-8"))
    db.close()
    return f"sqlite:{folder}/v1.db"


def postgres_of_version_1(url: str) -> str:
    async def make() -> None:
        target = parse_url(url)
        connection = await asyncpg.connect(target.dsn)
        try:
            await connection.execute(f'CREATE SCHEMA "{target.schema}"')
            text = (HERE / "data" / "v1_postgres.sql").read_text(encoding="utf-8")
            await connection.execute(Statements(target.schema).qualified(text))
        finally:
            await connection.close()

    asyncio.run(make())
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of version 1 with a row of everything in it."""
    if request.param == "sqlite":
        return sqlite_of_version_1(tmp_path)
    return postgres_of_version_1(request.getfixturevalue("postgres_schema_url"))


def wakeful(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(args)
    return code, *capsys.readouterr()


def test_an_old_database_is_refused_until_wakeful_migrate(old_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def open_all() -> None:
        for readonly in (False, True):
            with pytest.raises(SchemaTooOld, match=r"has schema 1, this Wakeful needs \d+; .*wakeful migrate"):
                await open_url(old_url).open(now=NOW, readonly=readonly)

    asyncio.run(open_all())
    code, out, err = wakeful(capsys, "ls", "--store", old_url)
    assert (code, out) == (3, "")
    assert "wakeful migrate" in err
    code, out, err = wakeful(capsys, "migrate", "--json", "--store", old_url)
    assert (code, err) == (0, "")
    assert json.loads(out)["applied"][0] == "0002_covers"
    assert json.loads(wakeful(capsys, "migrate", "--json", "--store", old_url)[1])["applied"] == []
    code, out, _ = wakeful(capsys, "ls", "--json", "--store", old_url)
    assert (code, [row["key"] for row in json.loads(out)]) == (0, ["a"])
    asyncio.run(check_everything(old_url))


async def check_everything(url: str) -> None:
    store = open_url(url)
    await store.open(now=NOW)
    try:
        old = await check_rows(store)
        await check_ledger(store, old)
    finally:
        await store.close()


async def check_rows(store: Store) -> Entry:
    """All that version 1 wrote is there; the one ledger row of it."""
    alarm = Timer(ONE, ALARM, NOW + 60_000, NOW + 60_000, 7, 1, 0, 0, 3, b"p")
    [loaded] = await store.load([ONE])
    assert loaded.info == Info(ONE, NOW, NOW, 2, 11)
    assert loaded.rows == {(USER, "x"): b"\x01one", (SYSTEM, "state"): b"\x01"}
    assert (loaded.alarm, await store.find_timers(Query())) == (alarm, [alarm])
    assert await store.scan(ONE, USER, Range()) == [("x", b"\x01one")]
    [(number, entry)] = await store.find_entries(Query())
    assert number == 1
    assert entry == Entry(
        ONE, ALARM, "0a1b2c", NOW - 10, NOW - 5, NOW, 1, "failed", "node-a", "ValueError: é", 0, False, 1, 0
    )
    job = Timer(ONE, "job:1", NOW, NOW, 5, 6)
    assert await store.find_parked(Query()) == [Parked(job, "ff00", NOW, 7, "failed", "boom", "Traceback …", 1)]
    answer = Remembered("request-1", b"\x01\x02", b"\x01ok", NOW + 86_400_000)
    assert await store.recall(ONE, "request-1", now=NOW) == answer
    assert {(row.owner, row.epoch) for row in await store.owners()} == {("node-a", 1)}
    assert await store.nodes() == [NodeRow("node-a", "127.0.0.1:7000", NOW, NOW + 5_000, "worker.py on host")]
    return entry


async def check_ledger(store: Store, old: Entry) -> None:
    """Rows of the new kind go in beside the old, by the owner that version 1 had."""
    new = Entry(ONE, "schedule:x", "0b", NOW, NOW, NOW, 0, "coalesced", "node-a", covers=7, first_at=NOW - 6_000)
    commit = Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=NOW, entries=[new])
    assert await store.commit("node-a", [commit]) == [None]
    assert [entry for _, entry in await store.find_entries(Query())] == [new, old]
