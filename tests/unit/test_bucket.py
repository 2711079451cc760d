"""A store that is a bucket: what is acknowledged is there, whoever dies, and whoever writes knows all that came before."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner

from tests.unit.bucket_process import Process, everything, kill, pass_hours, session_of, two
from wakeful import App, DurableObject
from wakeful.cli import cli
from wakeful.store import open_url
from wakeful.store.bucket import bootstrap, records, session, storage
from wakeful.store.bucket.keys import slot_key, snapshot_key
from wakeful.store.protocol import ASIDE
from wakeful.store.sqlite import schema
from wakeful.store_move import digest, move
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.suites.harness import ALL, NODE, NOW, A, timer
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import (
    OutcomeUnknown,
    SchemaTooOld,
    StoreDown,
    StoreError,
    Unavailable,
)
from wakeful.values.ids import shard_of


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that is away is given up soon."""
    monkeypatch.setattr(storage, "REST_MAX_S", 0.002)
    monkeypatch.setattr(storage, "REST_S", 0.001)


async def test_what_is_acknowledged_is_there_for_whoever_has_nothing_but_the_bucket(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    for n in range(20):
        await first.put(f"k{n:02}")
    await first.store.close()
    second = await Process(bucket, tmp_path / "b").start()
    assert await second.keys() == [f"k{n:02}" for n in range(20)]
    await second.store.close()


async def test_a_local_copy_that_is_deleted_is_brought_back_also_under_a_running_node(
    tmp_path: Path, quick_tries: None
) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    await process.put("before")
    bootstrap.remove_file(session_of(process.store).path)
    with pytest.raises(StoreDown, match="it is brought back from the bucket") as moved:  # nobody has to put it there
        await process.put("meanwhile")
    assert moved.value.code == "store.moved"
    await process.start()
    await process.put("after")
    assert await process.keys() == ["after", "before"]
    await process.store.close()


async def test_a_damaged_local_copy_is_not_believed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    await process.put("kept", b"x" * 9_000)
    path = session_of(process.store).path
    await process.store.close()
    _damage(Path(path))
    again = await Process(bucket, tmp_path).start()
    assert await again.keys() == ["kept"]
    await again.store.close()


async def test_killed_at_every_request_nothing_that_was_acknowledged_is_lost(tmp_path: Path, quick_tries: None) -> None:
    """Also at those of the snapshot and of what is removed after it."""
    length = (await _life(EmulatedBucket(), tmp_path / "whole", None))[1]
    assert length > 40
    for last in range(length):
        bucket = EmulatedBucket()
        acknowledged, _ = await _life(bucket, tmp_path / f"{last}", last)
        bucket.is_down = False
        bucket.on_request = lambda verb, key: None
        after = await Process(bucket, tmp_path / f"{last}-after").start()
        assert set(acknowledged) <= set(await after.keys()), f"killed after {last} requests"
        await after.store.close()


async def _life(bucket: EmulatedBucket, cache: Path, last: int | None) -> tuple[list[str], int]:
    """What was acknowledged by a process that reached the bucket so many times, and how often it asked."""
    asked = 0

    def count(verb: str, key: str) -> None:
        nonlocal asked
        asked += 1
        if last is not None and asked > last:
            bucket.is_down = True

    bucket.on_request = count
    acknowledged: list[str] = []
    process = Process(bucket, cache)
    try:
        await process.start()
        for n in range(6):
            await process.put(f"k{n}")
            acknowledged.append(f"k{n}")
            if n in (2, 4):
                await asyncio.to_thread(session_of(process.store).snapshot)
    except (Unavailable, StoreError):
        pass
    kill(process.store)
    return acknowledged, asked


async def test_answers_that_are_lost_lose_nothing_and_double_nothing(tmp_path: Path, quick_tries: None) -> None:
    bucket = EmulatedBucket(seed=5, lost=0.05, refused=0.05, late_lists=30)
    app = App()

    @app.object
    class Counter(DurableObject):
        async def add(self) -> int:
            self.storage.put("n", n := await self.storage.get("n", 0) + 1)
            return n

    async with app.run(bucket.url(cache=tmp_path / "a")):
        for _ in range(20):
            await asyncio.gather(*(app.get(Counter, f"{n}").add() for n in range(20)))
    assert bucket.counts["create"] > 20
    bucket.lost = bucket.refused = 0.0
    async with app.run(bucket.url(cache=tmp_path / "b")):
        assert [await app.get(Counter, f"{n}").add() for n in range(20)] == [21] * 20


async def test_a_bucket_that_is_away_is_said_to_be_and_comes_back(tmp_path: Path, quick_tries: None) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    bucket.is_down = True
    with pytest.raises(OutcomeUnknown):
        await process.put("unknown")
    with pytest.raises(Unavailable):
        await process.start()
    bucket.is_down = False
    await process.start()
    await process.put("after")
    assert await process.keys() == ["after"]
    await process.store.close()


async def test_credentials_that_expire_in_the_middle_are_named_and_nothing_is_in_doubt(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    await process.put("before")
    bucket.is_forbidden = True
    with pytest.raises(StoreDown, match="ExpiredToken"):
        await process.put("refused")
    bucket.is_forbidden = False
    await process.start()
    assert await process.keys() == ["before"]
    await process.store.close()


async def test_a_storage_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="ignores the condition of a create") as refused:
        await Process(EmulatedBucket(ignores_conditions=True), tmp_path).start()
    assert refused.value.code == "store.conditions"


async def test_a_snapshot_shortens_the_log_and_sends_only_what_changed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    pass_hours(bucket)
    process = await Process(bucket, tmp_path / "a").start()
    for n in range(40):
        await process.put(f"big{n:02}", bytes([n]) * 200_000)
    await asyncio.to_thread(session_of(process.store).snapshot)
    sent = bucket.counts["sent"]
    await process.put("small")
    await asyncio.to_thread(session_of(process.store).snapshot)
    assert bucket.counts["sent"] - sent < 50_000
    await asyncio.to_thread(session_of(process.store).snapshot)
    assert [key for key in bucket.objects if key.startswith("slots/")] == [slot_key(42)]
    kill(process.store)
    after = await Process(bucket, tmp_path / "b").start()
    assert len(await after.keys()) == 41
    await after.put("more")
    for _ in range(4):
        await asyncio.to_thread(session_of(after.store).snapshot)
    homes = {key.split("/")[1] for key in bucket.objects if key.startswith("chunks/")}
    assert {home.partition("-")[2] for home in homes} == {session_of(after.store).token}
    await after.store.close()


async def test_of_two_that_make_a_snapshot_at_once_one_does_and_both_go_on(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first, second = await two(bucket, tmp_path)
    await first.put("mine")
    for _ in range(3):
        await asyncio.gather(*(asyncio.to_thread(session_of(one.store).snapshot) for one in (first, second)))
    third = await Process(bucket, tmp_path / "c").start()
    assert await third.keys() == ["mine"]
    for one in (first, second, third):
        await one.store.close()


async def test_chunks_that_others_may_have_removed_are_sent_again(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    pass_hours(bucket)
    first, second = await two(bucket, tmp_path)
    for n in range(20):
        await first.put(f"big{n}", bytes([n]) * 200_000)
    for n, one in enumerate((first, second, second, second, first)):
        await first.put(f"small{n}")
        await second.store.owners()
        await asyncio.to_thread(session_of(one.store).snapshot)
    third = await Process(bucket, tmp_path / "c").start()
    assert len(await third.keys()) == 25
    for one in (first, second, third):
        await one.store.close()


async def test_a_snapshot_comes_by_itself_when_the_log_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SLOTS_MAX", 10)
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    for n in range(35):
        await process.put(f"k{n:02}")
    await process.store.close()
    assert 3 <= len([key for key in bucket.objects if key.startswith("snapshots/")]) <= 5


async def test_who_only_looks_changes_nothing_and_sees_what_is_acknowledged(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    await process.put("seen")
    there = dict(bucket.objects)
    looking = Process(bucket, tmp_path / "b")
    await looking.store.open(now=NOW, readonly=True)
    assert await looking.keys() == ["seen"]
    token = ASIDE.set(True)
    assert [info.id for info in await looking.store.find_objects(everything())] == [A]  # beside the loop
    ASIDE.reset(token)
    assert looking.store.identity == process.store.identity
    with pytest.raises(StoreError, match="open read-only"):
        await looking.store.insert([timer()], now=NOW)
    await looking.store.close()
    assert bucket.objects == there
    await process.put("more")
    await looking.store.open(now=NOW, readonly=True)
    await process.put("and more")
    assert await looking.keys() == ["and more", "more", "seen"]
    await looking.store.close()
    await process.store.close()
    with pytest.raises(StoreError, match="holds nothing of Wakeful"):
        await Process(EmulatedBucket(), tmp_path / "c").store.open(now=NOW, readonly=True)


@pytest.mark.parametrize("missing", [slot_key(3), snapshot_key(1)])
async def test_what_wakeful_did_not_remove_is_missed(tmp_path: Path, missing: str) -> None:
    """A rule of the bucket that removes what is old, say: better no start than one without what was written."""
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    for n in range(4):
        await process.put(f"k{n}")
    await process.store.close()
    del bucket.objects[missing]
    with pytest.raises(StoreError, match="missing, which Wakeful") as missed:
        await Process(bucket, tmp_path / "c").start()
    assert missed.value.code == "store.gap"


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '/tmp/elsewhere.db' AS other",
        "CREATE TRIGGER more AFTER INSERT ON kv BEGIN DELETE FROM kv; END",
        "PRAGMA writable_schema = 1",
        "INSERT INTO receipts VALUES (load_extension('/tmp/x.so'), 1, NULL, 0)",
        "INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')",
    ],
)
async def test_a_record_can_do_no_more_than_change_rows(tmp_path: Path, sql: str) -> None:
    """Who can write to the bucket can change what objects hold, and nothing on the machine that reads it."""
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    await process.store.close()
    [last] = [key for key in bucket.objects if key.startswith("slots/")]
    bucket.objects[last] = records.pack(records.of_statements("somebody", 1, 0, [(sql, ())]))
    with pytest.raises(StoreError, match="can't be applied"):
        await Process(bucket, tmp_path / "b").start()


async def test_a_snapshot_with_a_trigger_more_is_refused(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    with sqlite3.connect(session_of(process.store).path) as db:
        db.execute("CREATE TRIGGER more AFTER INSERT ON kv BEGIN DELETE FROM kv; END")
    db.close()
    await asyncio.to_thread(session_of(process.store).snapshot)
    kill(process.store)
    with pytest.raises(StoreError, match="did not make"):
        await Process(bucket, tmp_path / "b").start()


async def test_old_tables_are_brought_up_to_date_by_migrate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = EmulatedBucket()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:-1])
        store = open_url(bucket.url(cache=tmp_path / "a"))
        await store.open(now=NOW)
        await store.insert([timer()], now=NOW)
        await store.close()
    with pytest.raises(SchemaTooOld):
        await Process(bucket, tmp_path / "b").start()
    migrating = open_url(bucket.url(cache=tmp_path / "c"))
    assert await migrating.migrate(now=NOW) == [schema.MIGRATIONS[-1].name]
    assert await migrating.migrate(now=NOW) == []
    after = await Process(bucket, tmp_path / "d").start()
    assert [info.id for info in await after.store.find_objects(everything())] == [A]
    await after.store.close()


def test_commands_work_on_it_as_on_any_store(tmp_path: Path) -> None:
    url = f"bucket:{tmp_path}/bucket?cache={tmp_path}/cache"

    def run(*words: str) -> str:
        done = CliRunner().invoke(cli, [*words, "--store", url])
        assert done.exit_code == 0, done.output
        return done.output

    assert "0001_core" in run("migrate")
    assert "nothing to do" in run("migrate")
    assert "up to date" in run("schema")
    assert "CREATE TABLE timers" in run("schema", "--sql")
    assert "can be read" in run("doctor")
    assert json.loads(run("ls", "--json")) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_everything_moves_from_a_database_into_a_bucket_and_back(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bucket = EmulatedBucket()
    if kind == "sqlite":
        source, back = f"sqlite:{tmp_path}/source.db", f"sqlite:{tmp_path}/back.db"
    else:
        url = request.getfixturevalue("postgres_url")
        source, back = (f"{url}{'&' if '?' in url else '?'}schema=moved_{uuid4().hex[:8]}_{at}" for at in ("a", "b"))
    store = open_url(source)
    await store.open(now=NOW)
    epochs = await store.claim(NODE, ALL, now=NOW)
    shard = shard_of(A)
    turn = Commit(id=A, shard=shard, epoch=epochs[shard], now=NOW, puts={(USER, "k"): b"v"}, sets=[timer()])
    assert await store.commit(NODE, [turn]) == [None]
    await store.close()
    there = bucket.url(cache=tmp_path / "cache")
    moved = await move(source, there, now=NOW)
    assert moved.parts == await digest(source, now=NOW)
    await move(bucket.url(cache=tmp_path / "elsewhere"), back, now=NOW)
    assert await digest(back, now=NOW) == moved.parts
    process = await Process(bucket, tmp_path / "cache").start()
    assert await process.keys() == ["k"]
    await process.store.close()


async def test_a_move_that_fails_at_its_end_leaves_the_bucket_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = EmulatedBucket()
    source = f"sqlite:{tmp_path}/source.db"
    store = open_url(source)
    await store.open(now=NOW)
    await store.insert([timer()], now=NOW)
    await store.close()
    there = bucket.url(cache=tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(session.BucketSession, "move_in", _away)
        with pytest.raises(StoreDown):
            await move(source, there, now=NOW)
    process = await Process(bucket, tmp_path / "cache").start()
    assert await process.store.find_objects(everything()) == []
    await process.store.close()


def _away(*_: Any) -> None:
    raise StoreDown("the bucket is away")


async def test_sealed_values_can_be_read_nowhere_in_the_bucket(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    app = App(keys="wkk_" + "ab" * 32)

    @app.object
    class Safe(DurableObject):
        async def keep(self, secret: str) -> None:
            self.storage.put("secret", secret)

        async def show(self) -> str:
            found: str = await self.storage.get("secret")
            return found

    async with app.run(bucket.url(cache=tmp_path / "a")) as node:
        await app.get(Safe, "a").keep("the cat is in the well")
        inner: Any = node.store
        await asyncio.to_thread(inner.inner._session.snapshot)
    plain = b"".join(_plain(data) for data in bucket.objects.values())
    assert b"Safe" in plain  # names are not sealed
    assert b"the cat" not in plain
    async with app.run(bucket.url(cache=tmp_path / "b")):
        assert await app.get(Safe, "a").show() == "the cat is in the well"


def _plain(data: bytes) -> bytes:
    import zlib

    for start in (0, 5):
        try:
            return zlib.decompress(data[start:])
        except zlib.error:
            continue
    return data


def _damage(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:8_192] + bytes(8_192) + whole[16_384:])
