"""Moving between stores: all of it, or nothing; and it works there as it did here."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject, every
from wakeful.store import NodeRow, Query, Range, Store, open_url
from wakeful.store.protocol import Receipt
from wakeful.store.table_copy import TABLES, Pages
from wakeful.store_move import Moved, MoveProgress, Sum, TableDigest, digest, move
from wakeful.testing.suites.harness import NODE, NOW, entry, parked, timer
from wakeful.values.commits import SYSTEM, USER, Commit, Remembered
from wakeful.values.errors import BadUrl, Conflict, FileOwned, SchemaTooOld, StoreError
from wakeful.values.ids import SHARDS, ObjectId, shard_of

app = App()


@app.object
class Clock(DurableObject):
    async def start(self) -> None:
        await self.storage.set_alarm(timedelta(hours=3))

    async def alarm(self) -> None:
        await self.storage.put("rang", await self.storage.get("rang", 0) + 1)

    @every.day.at("09:00")
    async def daily(self) -> None:
        await self.storage.put("days", await self.storage.get("days", 0) + 1)

    async def seen(self) -> tuple[int, int]:
        return await self.storage.get("rang", 0), await self.storage.get("days", 0)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> Callable[[str], str]:
    return lambda name: f"sqlite:{tmp_path}/{name}.db"


def moved(source: str, target: str, heard: Callable[[MoveProgress], None] = lambda step: None) -> Moved:
    return asyncio.run(move(source, target, now=NOW, heard=heard))


def digests(url: str) -> tuple[TableDigest, ...]:
    return asyncio.run(digest(url, now=NOW))


def on(url: str, do: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        store = open_url(url)
        await store.open(now=NOW)
        try:
            return await do(store)
        finally:
            await store.close()

    return asyncio.run(run())


def fill(url: str, objects: int = 40) -> None:
    """Some of everything, with what is hard to carry: empty values, NULs, astral text, priorities, gaps in numbers."""

    async def do(store: Store) -> None:
        for _ in range(3):
            epochs = await store.claim(NODE, range(SHARDS), now=NOW)
        commits = []
        for n in range(objects):
            id = ObjectId("Order", f"ключ/{n}")
            shard = shard_of(id)
            sets = [timer(id, f"t{k}", due_at=NOW + k, seq=n * 10 + k, priority=k - 2, attempt=k) for k in range(4)]
            sets.append(timer(id, "job:=a b", seq=n * 10 + 9, crashes=2, started=3, payload=b"\x00\xff" * n))
            error = "ValueError: 𝄞 \0 no" if url.startswith("sqlite") else "ValueError: 𝄞 ␀ no"
            commits.append(
                Commit(
                    id=id,
                    shard=shard,
                    epoch=epochs[shard],
                    now=NOW + n,
                    puts={(USER, "a\0b"): b"", (USER, "𝄞"): bytes(n), (SYSTEM, "state"): b"s"},
                    sets=sets,
                    entries=[entry(id, verdict="failed", error=error), entry(id, is_backfill=True, covers=n + 1)],
                    parks=[parked(id)],
                    remember=Remembered("q\0", b"f", b"a" * n, NOW + 10**9),
                )
            )
        assert not any(await store.commit(NODE, commits))
        unparked = Commit(id=id, shard=shard, epoch=epochs[shard], now=NOW, unparks=[objects])
        assert await store.commit(NODE, [unparked]) == [None]
        carried = timer(ObjectId("Order", "ключ/0"), "job:carried", seq=1)
        assert await store.insert([carried], now=NOW, receipt=Receipt("forward:1", 1, NOW + 10**9)) == []
        await store.release(NODE, epochs)

    on(url, do)


def test_a_round_trip_over_both_kinds_of_store_keeps_every_row(
    sqlite_url: Callable[[str], str], postgres_schema_url: str
) -> None:
    fill(sqlite_url("a"))
    first = moved(sqlite_url("a"), postgres_schema_url)
    second = moved(postgres_schema_url, sqlite_url("b"))
    assert first.parts == second.parts == digests(sqlite_url("a")) == digests(postgres_schema_url)
    assert digests(sqlite_url("b")) == first.parts
    assert {part.table: part.rows for part in first.parts} == {
        "objects": 40, "storage": 120, "timers": 201, "ledger": 80, "parked": 39, "requests": 40, "receipts": 1,
    }  # fmt: skip


def test_what_the_verbs_read_is_the_same_and_epochs_and_numbers_go_on(
    sqlite_url: Callable[[str], str], postgres_schema_url: str
) -> None:
    async def seen(store: Store) -> Any:
        everything = Query(limit=1000)
        id = ObjectId("Order", "ключ/7")
        return (
            await store.find_objects(everything),
            await store.find_timers(everything),
            [(number, entry.verdict, entry.covers) for number, entry in await store.find_entries(everything)],
            await store.find_parked(everything),
            await store.scan(id, USER, Range()),
            await store.recall(id, "q\0", now=NOW),
            [row.epoch for row in await store.owners()],
            await store.load([id]),
        )

    async def park_one_more(store: Store) -> int:
        id = ObjectId("Order", "new")
        epochs = await store.claim(NODE, [shard_of(id)], now=NOW)
        [epoch] = epochs.values()
        commit = Commit(id=id, shard=shard_of(id), epoch=epoch, now=NOW, parks=[parked(id)], entries=[entry(id)])
        assert await store.commit(NODE, [commit]) == [None]
        [found] = await store.find_parked(Query(cls="Order", key="new"))
        [(number, _)] = await store.find_entries(Query(cls="Order", key="new"))
        assert number == 81
        return found.number

    fill(sqlite_url("a"))
    moved(sqlite_url("a"), postgres_schema_url)
    moved(postgres_schema_url, sqlite_url("b"))
    assert on(sqlite_url("a"), seen) == on(postgres_schema_url, seen) == on(sqlite_url("b"), seen)
    assert on(postgres_schema_url, park_one_more) == on(sqlite_url("b"), park_one_more) == 41


def test_a_target_that_was_used_and_emptied_keeps_its_higher_epochs(sqlite_url: Callable[[str], str]) -> None:
    async def claim(store: Store) -> None:
        for _ in range(9):
            epochs = await store.claim("other", range(0, SHARDS, 2), now=NOW)
        await store.release("other", epochs)

    fill(sqlite_url("a"))
    on(sqlite_url("b"), claim)
    moved(sqlite_url("a"), sqlite_url("b"))

    async def epochs(store: Store) -> set[int]:
        return {row.epoch for row in await store.owners()}

    assert on(sqlite_url("b"), epochs) == {3, 9}


def test_the_schema_of_an_sqlite_target_is_whole_again(sqlite_url: Callable[[str], str], tmp_path: Path) -> None:
    fill(sqlite_url("a"))
    moved(sqlite_url("a"), sqlite_url("b"))

    def schema(name: str) -> set[tuple[str, str]]:
        db = sqlite3.connect(f"{tmp_path}/{name}.db")
        found = set(db.execute("SELECT name, sql FROM sqlite_master").fetchall())
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
        return found

    assert schema("a") == schema("b")


def test_alarms_and_schedules_fire_once_on_the_moved_store(
    sqlite_url: Callable[[str], str], postgres_schema_url: str
) -> None:
    async def live(url: str, start: datetime, hours: int, *, begin: bool = False) -> tuple[datetime, Any, list[str]]:
        async with app.world(start=start, store=url) as world:
            if begin:
                await world.get(Clock, "c").start()
            await world.advance(hours=hours)
            runs = await world.ledger(Clock, "c")
            return world.now(), await world.get(Clock, "c").seen(), [run.verdict or "" for run in runs]

    start = datetime(2026, 3, 2, 7, tzinfo=UTC)
    now, seen, _ = asyncio.run(live(sqlite_url("a"), start, 1, begin=True))
    assert seen == (0, 0)
    moved(sqlite_url("a"), postgres_schema_url)
    now, seen, verdicts = asyncio.run(live(postgres_schema_url, now, 24))
    assert (seen, verdicts) == ((1, 1), ["run", "run"])
    moved(postgres_schema_url, sqlite_url("b"))
    now, seen, verdicts = asyncio.run(live(sqlite_url("b"), now, 24))
    assert (seen, verdicts) == ((1, 2), ["run", "run", "run"])


@pytest.mark.parametrize(("what", "table"), [("copy", "objects"), ("copy", "timers"), ("check", "requests")])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_interrupted_move_leaves_the_target_empty_and_can_be_repeated(
    kind: str, what: str, table: str, sqlite_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    target = sqlite_url("b") if kind == "sqlite" else request.getfixturevalue("postgres_schema_url")
    fill(sqlite_url("a"))

    def heard(step: MoveProgress) -> None:
        if (step.what, step.table) == (what, table):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moved(sqlite_url("a"), target, heard)
    assert {part.rows for part in digests(target)} == {0}
    assert moved(sqlite_url("a"), target).parts == digests(target)


def test_a_target_that_holds_anything_is_refused_and_left_alone(sqlite_url: Callable[[str], str]) -> None:
    async def one_timer(store: Store) -> None:
        await store.insert([timer()], now=NOW)

    fill(sqlite_url("a"))
    on(sqlite_url("b"), one_timer)
    before = digests(sqlite_url("b"))
    with pytest.raises(Conflict, match=r"not empty \(1 in objects, 1 in timers\).*\[move\.target\]"):
        moved(sqlite_url("a"), sqlite_url("b"))
    assert digests(sqlite_url("b")) == before


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_file_that_a_process_runs_is_refused_by_its_name(end: str, sqlite_url: Callable[[str], str]) -> None:
    fill(sqlite_url("a"))

    async def do(store: Store) -> None:
        pair = ("a", "b") if end == "source" else ("b", "a")
        with pytest.raises(FileOwned, match="is owned by another store of this process"):
            await move(sqlite_url(pair[0]), sqlite_url(pair[1]), now=NOW)

    if end == "target":
        fill(sqlite_url("b"))
    on(sqlite_url("a"), do)


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_database_with_a_live_node_is_refused_by_its_name(
    end: str, sqlite_url: Callable[[str], str], postgres_schema_url: str
) -> None:
    fill(sqlite_url("a"))

    async def join(store: Store, lease_ms: int) -> None:
        now = await store.time() or NOW
        await store.join(NodeRow("n1", "", now, now + lease_ms, "host pid 7 shop"))

    async def do(store: Store) -> None:
        await join(store, 60_000)
        pair = (postgres_schema_url, sqlite_url("b")) if end == "source" else (sqlite_url("a"), postgres_schema_url)
        with pytest.raises(Conflict, match=r"is in use by node n1 \(host pid 7 shop\).*\[move\.owned\]"):
            await move(*pair, now=NOW)
        await join(store, -1)

    on(postgres_schema_url, do)
    if end == "target":
        assert moved(sqlite_url("a"), postgres_schema_url).parts == digests(sqlite_url("a"))


def test_somebody_who_writes_to_a_database_is_noticed_and_nobody_can_begin_to(postgres_schema_url: str) -> None:
    async def do(store: Store) -> None:
        from wakeful.store.postgres.table_copy import PostgresCopying
        from wakeful.store.postgres.url import parse_url

        copying = await PostgresCopying.open(parse_url(postgres_schema_url))
        claim = asyncio.ensure_future(store.claim(NODE, [1], now=NOW))
        await asyncio.wait([claim], timeout=0.5)
        assert not claim.done()
        with pytest.raises(Conflict, match=r"somebody is writing to it.*\[move\.busy\]"):
            await PostgresCopying.open(parse_url(postgres_schema_url))
        await copying.close()
        assert await claim == {1: 1}

    on(postgres_schema_url, do)


def test_bad_ends_are_refused_before_anything_is_made(sqlite_url: Callable[[str], str], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        moved(sqlite_url("a"), sqlite_url("b"))
    assert not (tmp_path / "b.db").exists()
    for source, target in ((sqlite_url("a"), sqlite_url("a")), ("memory:", sqlite_url("a")), (sqlite_url("a"), "x:")):
        with pytest.raises(BadUrl):
            moved(source, target)
    fill(sqlite_url("a"))
    db = sqlite3.connect(f"{tmp_path}/a.db")
    db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(SchemaTooOld):
        moved(sqlite_url("a"), sqlite_url("b"))


def test_the_digest_sees_what_differs_and_not_the_order() -> None:
    def sum_of(*rows: tuple[Any, ...]) -> TableDigest:
        found = Sum()
        found.add(list(rows))
        return found.part("t")

    assert sum_of((1, "a"), (2, "b")) == sum_of((2, "b"), (1, "a"))
    different = [
        ((1, "a"), (2, "c")),
        ((1, "a"),),
        ((1, "a"), (1, "a"), (2, "b")),
        ((1, b"a"), (2, "b")),
        ((1, "b"), (2, "a")),
    ]
    assert all(sum_of(*rows) != sum_of((1, "a"), (2, "b")) for rows in different)


def test_pages_shrink_for_large_rows() -> None:
    pages = Pages("storage")
    for _ in range(4):
        pages.on_page([("k", b"x" * 100)] * pages.rows)
    assert pages.rows == 128
    pages.on_page([("k", bytes(2_000_000))] * 4)
    assert pages.rows == 8


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_table_or_column_of_the_schema_is_forgotten(kind: str) -> None:
    """A migration that adds one must teach `move` about it."""
    text = (Path(__file__).parents[2] / f"src/wakeful/store/{kind}/schema.sql").read_text()
    ours = {"class": "cls", "rank": "priority"}
    found = {}
    for name, body in re.findall(r"^CREATE TABLE (?:wakeful\.)?(\w+) \((.*?)^\)", text, re.M | re.S):
        columns = {ours.get(column, column) for column in re.findall(r"^\s+([a-z_]+)\s+[A-Za-z]", body, re.M)}
        found["storage" if name == "kv" else name] = columns - {"shard"}
    left = {"nodes", "shards", "migrations", "spread"}  # one of several servers is not moved
    assert {name: columns for name, columns in found.items() if name not in left} == {
        name: set(columns) for name, columns in TABLES.items()
    }
    assert found["shards"] - {"owner", "epoch", "claimed_at", "state", "term"} == set()
