"""Does a database of an earlier schema say that it is old, come up to date by `wakeful migrate`, and keep everything in it?"""

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
from wakeful.values.timers import ALARM, Entry, Parked, Timer

NOW = 1_760_000_000_000
HERE = Path(__file__).parent
ONE = ObjectId("Order", "a")


def old_sqlite(version: int, folder: Path) -> str:
    db = sqlite3.connect(folder / "old.db")
    db.executescript((HERE / "data" / f"v{version}.sql").read_text(encoding="utf-8"))
    db.close()
    return f"sqlite:{folder}/old.db"


def old_postgres(version: int, url: str) -> str:
    async def make() -> None:
        target = parse_url(url)
        connection = await asyncpg.connect(target.dsn)
        try:
            await connection.execute(f'CREATE SCHEMA "{target.schema}"')
            text = (HERE / "data" / f"v{version}_postgres.sql").read_text(encoding="utf-8")
            await connection.execute(Statements(target.schema).qualify(text))
        finally:
            await connection.close()

    asyncio.run(make())
    return url


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path, version: int) -> str:
    """The URL of a database of that version with a row of everything in it."""
    if request.param == "sqlite":
        return old_sqlite(version, tmp_path)
    return old_postgres(version, request.getfixturevalue("postgres_schema_url"))


def wakeful(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(args)
    return code, *capsys.readouterr()


def test_an_old_database_is_refused_until_wakeful_migrate(
    old_url: str, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def open_all() -> None:
        for readonly in (False, True):
            with pytest.raises(SchemaTooOld, match=rf"has schema {version}, this Wakeful needs \d+; .*wakeful migrate"):
                await open_url(old_url).open(now=NOW, readonly=readonly)

    asyncio.run(open_all())
    code, out, err = wakeful(capsys, "ls", "--store", old_url)
    assert (code, out) == (3, "")
    assert "wakeful migrate" in err
    code, out, err = wakeful(capsys, "migrate", "--json", "--store", old_url)
    assert (code, err) == (0, "")
    names = ["0002_covers", "0003_cluster", "0004_receipts", "0005_lease"]
    names += [] if old_url.startswith("sqlite:") else ["0006_spread"]
    assert json.loads(out)["applied"] == names[version - 1 :]
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
        await check_nodes(store)
    finally:
        await store.close()


async def check_rows(store: Store) -> Entry:
    """All that the earlier version wrote is there; the one ledger row of it."""
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
    """Rows of the new kind go in beside the old, by the owner that the earlier version had."""
    new = Entry(ONE, "schedule:x", "0b", NOW, NOW, NOW, 0, "coalesced", "node-a", covers=7, first_at=NOW - 6_000)
    commit = Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=NOW, entries=[new])
    assert await store.commit("node-a", [commit]) == [None]
    assert [entry for _, entry in await store.find_entries(Query())] == [new, old]


async def check_nodes(store: Store) -> None:
    """A node of before may be told to drain, and one of now joins beside it."""
    assert await store.drain("node-a", True)
    await store.join(NodeRow("node-b", "", NOW, NOW + 5_000, "new", "blue", 2))
    found = {row.node: (row.cluster, row.version, row.is_draining) for row in await store.nodes()}
    assert found == {"node-a": ("", 1, True), "node-b": ("blue", 2, False)}
