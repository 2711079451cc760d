"""A store that is a bucket: what is acknowledged is there, whoever dies, and nobody writes who is not the owner."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wakeful import App, DurableObject
from wakeful.cli import cli
from wakeful.store import Store, open_url
from wakeful.store.bucket import BucketStore, log, recovery, session, storage
from wakeful.store.bucket.cloud import CloudStorage
from wakeful.store.bucket.folder import FolderStorage
from wakeful.store.bucket.keys import log_key, owner_key, snapshot_key
from wakeful.store.bucket.storage import ObjectStorage, Patient, Refused, Unsure, check_conditions
from wakeful.store.bucket.url import BucketUrl, parse_url
from wakeful.store.protocol import ASIDE, Query, Range
from wakeful.store.sqlite import schema
from wakeful.store_move import digest, move
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.suites.harness import ALL, NODE, NOW, A, timer
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import (
    BadUrl,
    FileOwned,
    OutcomeUnknown,
    SchemaTooOld,
    StoreDown,
    StoreError,
    Unavailable,
)
from wakeful.values.ids import shard_of


class Process:
    """One process with a store of its own on the bucket, and a folder of its own for the local copy."""

    def __init__(self, bucket: EmulatedBucket, cache: Path, *, lease: str = "0s") -> None:
        self.store = open_url(bucket.url(cache=cache, lease=lease))
        self.epochs: dict[int, int] = {}

    async def start(self) -> "Process":
        await self.store.open(now=NOW)
        self.epochs = await self.store.claim(NODE, ALL, now=NOW)
        return self

    async def put(self, key: str, value: bytes = b"1") -> None:
        shard = shard_of(A)
        turn = Commit(id=A, shard=shard, epoch=self.epochs[shard], now=NOW, puts={(USER, key): value})
        assert await self.store.commit(NODE, [turn]) == [None]

    async def keys(self) -> list[str]:
        return [key for key, _ in await self.store.scan(A, USER, Range())]


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
    recovery.remove_file(_session(process.store).path)
    with pytest.raises(StoreDown):
        await process.put("meanwhile")
    await process.start()
    await process.put("after")
    assert await process.keys() == ["after", "before"]
    await process.store.close()


async def test_a_damaged_local_copy_is_not_believed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    await process.put("kept", b"x" * 9_000)
    path = _session(process.store).path
    await process.store.close()
    _damage(Path(path))
    again = await Process(bucket, tmp_path).start()
    assert await again.keys() == ["kept"]
    await again.store.close()


async def test_a_second_process_is_refused_and_told_who_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.store.bucket.owners.BEAT_S", 0.02)
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    second = Process(bucket, tmp_path / "b", lease="2s")
    with pytest.raises(FileOwned, match=r"is owned by process \d+ on .*PostgreSQL for several nodes"):
        await second.start()
    await first.put("still here")
    await first.store.close()
    await asyncio.wait_for(second.start(), 1)  # it ended cleanly: nobody waits for a lease
    assert await second.keys() == ["still here"]
    await second.store.close()


async def test_a_process_that_died_is_waited_for_as_long_as_the_lease_and_no_longer(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    await first.put("written")
    _kill(first.store)
    waits: list[float] = []
    second = Process(bucket, tmp_path / "b", lease="300ms")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await second.start()
    waits.append(loop.time() - began)
    assert waits[0] >= 0.3
    assert await second.keys() == ["written"]
    await second.store.close()
    third = await Process(bucket, tmp_path / "b", lease="60s").start()  # which ended cleanly
    _kill(third.store)
    await asyncio.wait_for(
        Process(bucket, tmp_path / "b", lease="60s").start(), 5
    )  # the same file, locked by us: it is dead


async def test_who_was_taken_over_acknowledges_nothing_more_and_reads_nothing_old(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a", lease="15s").start()
    await first.put("mine")
    second = await Process(bucket, tmp_path / "b").start()  # which waits for nobody
    with pytest.raises(StoreDown, match="taken over"):
        await first.put("too late")
    with pytest.raises(StoreDown, match="taken over"):
        await first.put("still too late")
    await second.put("theirs")
    assert await second.keys() == ["mine", "theirs"]
    _beat(first.store)
    with pytest.raises(StoreDown, match="taken over"):
        await first.keys()
    await first.store.close()
    await second.store.close()


async def test_who_was_frozen_for_long_still_meets_the_seal(tmp_path: Path) -> None:
    """Two owners and their snapshots later."""
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    await first.put("mine")
    _freeze(first.store)
    for n in range(2):
        later = await Process(bucket, tmp_path / f"b{n}").start()
        await later.put(f"later{n}")
        await asyncio.to_thread(_session(later.store).snapshot)
        await later.store.close()
    with pytest.raises(StoreDown, match="taken over"):
        await first.put("too late")
    last = await Process(bucket, tmp_path / "c").start()
    assert await last.keys() == ["later0", "later1", "mine"]
    await last.store.close()
    await first.store.close()


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
                await asyncio.to_thread(_session(process.store).snapshot)
    except (Unavailable, StoreError):
        pass
    _kill(process.store)
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
    process = await Process(bucket, tmp_path / "a").start()
    for n in range(40):
        await process.put(f"big{n:02}", bytes([n]) * 200_000)
    await asyncio.to_thread(_session(process.store).snapshot)
    sent = bucket.counts["sent"]
    await process.put("small")
    await asyncio.to_thread(_session(process.store).snapshot)
    assert bucket.counts["sent"] - sent < 50_000
    logs = [key for key in bucket.objects if key.startswith("log/")]
    assert logs == []
    _kill(process.store)
    after = await Process(bucket, tmp_path / "b").start()
    assert len(await after.keys()) == 41
    await after.put("more")
    await asyncio.to_thread(_session(after.store).snapshot)
    assert {key.split("/")[1] for key in bucket.objects if key.startswith(("chunk/", "snap/"))} == {"00000002"}
    assert [key for key in bucket.objects if key.startswith("log/00000001/")] == ["log/00000001/0000000043"]  # its seal
    await after.store.close()


async def test_a_snapshot_comes_by_itself_when_the_log_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SLOTS_MAX", 10)
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path).start()
    for n in range(35):
        await process.put(f"k{n:02}")
    await process.store.close()
    assert any(key > "snap/00000001/00000001" for key in bucket.objects if key.startswith("snap/"))
    assert len([key for key in bucket.objects if key.startswith("log/")]) < 35


async def test_who_only_looks_changes_nothing_and_sees_what_is_acknowledged(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    await process.put("seen")
    there = dict(bucket.objects)
    looking = Process(bucket, tmp_path / "b")
    await looking.store.open(now=NOW, readonly=True)
    assert await looking.keys() == ["seen"]
    token = ASIDE.set(True)
    assert [info.id for info in await looking.store.find_objects(_everything())] == [A]  # beside the loop
    ASIDE.reset(token)
    assert looking.store.identity == process.store.identity
    with pytest.raises(StoreError, match="open read-only"):
        await looking.store.insert([timer()], now=NOW)
    await looking.store.close()
    assert {key for key in bucket.objects if not key.startswith("beat/")} == {
        key for key in there if not key.startswith("beat/")
    }
    await process.put("more")
    await process.store.close()
    with pytest.raises(StoreError, match="holds nothing of Wakeful"):
        await Process(EmulatedBucket(), tmp_path / "c").store.open(now=NOW, readonly=True)


@pytest.mark.parametrize("missing", [log_key(1, 3), owner_key(1), snapshot_key(1, 1)])
async def test_what_wakeful_did_not_remove_is_missed(tmp_path: Path, missing: str) -> None:
    """A rule of the bucket that removes what is old, say: better no start than one without what was written."""
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    for n in range(4):
        await process.put(f"k{n}")
    await process.store.close()
    second = await Process(bucket, tmp_path / "b").start()  # ends the first session
    _kill(second.store)
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
    [last] = [key for key in bucket.objects if key.startswith("log/")]
    bucket.objects[last] = log.pack([(sql, ())])
    with pytest.raises(StoreError, match="can't be applied"):
        await Process(bucket, tmp_path / "b").start()


async def test_a_snapshot_with_a_trigger_more_is_refused(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    with sqlite3.connect(_session(process.store).path) as db:
        db.execute("CREATE TRIGGER more AFTER INSERT ON kv BEGIN DELETE FROM kv; END")
    db.close()
    await asyncio.to_thread(_session(process.store).snapshot)
    _kill(process.store)
    with pytest.raises(StoreError, match="did not make"):
        await Process(bucket, tmp_path / "b").start()


async def test_old_tables_are_brought_up_to_date_by_migrate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = EmulatedBucket()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:-1])
        store = open_url(bucket.url(cache=tmp_path / "a", lease="0s"))
        await store.open(now=NOW)
        await store.insert([timer()], now=NOW)
        await store.close()
    with pytest.raises(SchemaTooOld):
        await Process(bucket, tmp_path / "b").start()
    migrating = open_url(bucket.url(cache=tmp_path / "c", lease="0s"))
    assert await migrating.migrate(now=NOW) == [schema.MIGRATIONS[-1].name]
    assert await migrating.migrate(now=NOW) == []
    after = await Process(bucket, tmp_path / "d").start()
    assert [info.id for info in await after.store.find_objects(_everything())] == [A]
    await after.store.close()


def _everything() -> Query:
    return Query()


def test_commands_work_on_it_as_on_any_store(tmp_path: Path) -> None:
    url = f"bucket:{tmp_path}/bucket?cache={tmp_path}/cache&lease=0s"

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
    refused = CliRunner().invoke(cli, ["run", "app.py", "--processes", "2", "--store", url])
    assert "belongs to one process" in str(refused.exception)


async def test_everything_moves_from_sqlite_into_a_bucket_and_back(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    source, back = f"sqlite:{tmp_path}/source.db", f"sqlite:{tmp_path}/back.db"
    store = open_url(source)
    await store.open(now=NOW)
    epochs = await store.claim(NODE, ALL, now=NOW)
    shard = shard_of(A)
    turn = Commit(id=A, shard=shard, epoch=epochs[shard], now=NOW, puts={(USER, "k"): b"v"}, sets=[timer()])
    assert await store.commit(NODE, [turn]) == [None]
    await store.close()
    there = bucket.url(cache=tmp_path / "cache", lease="0s")
    moved = await move(source, there, now=NOW)
    assert moved.parts == await digest(source, now=NOW)
    await move(bucket.url(cache=tmp_path / "elsewhere", lease="0s"), back, now=NOW)
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
    there = bucket.url(cache=tmp_path / "cache", lease="0s")
    with monkeypatch.context() as patch:
        patch.setattr(session.OwnerSession, "snapshot", _away)
        with pytest.raises(StoreDown):
            await move(source, there, now=NOW)
    process = await Process(bucket, tmp_path / "cache").start()
    assert await process.store.find_objects(_everything()) == []
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


# The storages themselves.


@pytest.fixture(params=["emulated", "folder", "obstore"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    if request.param == "emulated":
        return EmulatedBucket()
    if request.param == "folder":
        return FolderStorage(str(tmp_path / "folder"))
    from obstore.store import MemoryStore as Objects

    monkeypatch.setattr("wakeful.store.bucket.cloud._open", lambda *where: Objects())
    return CloudStorage("s3", "bucket", "prefix", {}, place="s3://bucket/prefix")


def test_every_storage_does_what_the_seam_says(objects: ObjectStorage) -> None:
    assert objects.get("a/1") is None
    assert objects.create("a/1", b"one")
    assert not objects.create("a/1", b"two")
    objects.put("a/2", b"")
    objects.put("a/2", b"again")
    objects.put("b/1", b"other")
    assert (objects.get("a/1"), objects.get("a/2")) == (b"one", b"again")
    assert objects.keys("a/") == ["a/1", "a/2"]
    assert objects.keys("a/2") == ["a/2"]
    objects.delete(["a/1", "a/1", "b/1"])
    assert objects.keys("") == ["a/2"]
    assert objects.create("a/1", b"three")
    check_conditions(Patient(objects, lambda seconds: None), "probe")


def test_of_many_who_create_one_is_told_yes(objects: ObjectStorage) -> None:
    told: list[bool] = []
    gate = threading.Barrier(8)

    def create(n: int) -> None:
        gate.wait()
        told.append(objects.create("one", b"%d" % n))

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 7 + [True]


def test_a_create_whose_answer_was_lost_finds_that_it_was_done() -> None:
    bucket = EmulatedBucket()
    real = bucket.create

    def lose(key: str, data: bytes) -> bool:
        real(key, data)
        bucket.create = real  # type: ignore[method-assign]
        raise Unsure("lost")

    bucket.create = lose  # type: ignore[method-assign]
    patient = Patient(bucket, lambda seconds: None)
    assert patient.create("a", b"mine")
    assert not patient.create("a", b"another's")
    assert bucket.objects["a"] == b"mine"


def test_a_refusal_after_a_lost_answer_is_no_answer() -> None:
    bucket = EmulatedBucket()
    answers: Iterator[Callable[[], bool]] = iter([_raise(Unsure("lost")), _raise(Refused("403"))])
    bucket.create = lambda key, data: next(answers)()  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        Patient(bucket, lambda seconds: None).create("a", b"mine")


def _raise(error: Exception) -> Callable[[], bool]:
    def answer() -> bool:
        raise error

    return answer


# URLs


def test_urls_name_a_place_and_a_file_for_it() -> None:
    one, same = parse_url("s3://acme/app/?region=eu-west-1"), parse_url("s3://acme/app?cache=/tmp/x")
    assert (one.bucket, one.prefix, one.options) == ("acme", "app", {"region": "eu-west-1"})
    assert one.place == same.place == "s3://acme/app"
    assert parse_url("s3://acme/app?endpoint=http://localhost:9000").place != one.place
    assert same.cache.startswith("/tmp/x/bucket-")
    assert isinstance(open_url("gs://acme/app"), BucketStore)
    assert BucketUrl("az", "c", "", {}).lease_s == 15.0


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3:", "needs the name of a bucket"),
        ("s3:///prefix", "needs the name of a bucket"),
        ("s3://KEY:hunter2@bucket/x", "credentials do not belong into the URL"),
        ("s3://bucket/x?regoin=eu", "regoin"),
        ("gs://bucket/x?region=eu", "region"),
        ("s3://bucket?lease=soon", "lease=soon"),
        ("s3://bucket?lease=10m", "lease=10m"),
        ("bucket:", "needs a folder"),
        ("bucket:@nobody", "nobody in this process"),
    ],
)
def test_a_url_that_can_t_be_one_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadUrl, match=says) as refused:
        open_url(url)
    assert "hunter2" not in str(refused.value)


def _damage(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:8_192] + bytes(8_192) + whole[16_384:])


# What the tests do to a store that its users can't.


def _session(store: Store) -> session.OwnerSession:
    assert isinstance(store, BucketStore)
    assert store._session is not None
    return store._session


def _kill(store: Store) -> None:
    """As by kill -9: no thread goes on, nothing is said, and its locks are free."""
    assert isinstance(store, BucketStore)
    if store._session is not None:
        store._session.cut()
        store._session = None
    if store._ownership is not None:
        store._ownership.release()
        store._ownership = None


def _freeze(store: Store) -> None:
    """Its beat stops, as all of it does."""
    one = _session(store)
    one._closing.set()
    assert one._beat is not None
    one._beat.join()
    one._closing.clear()


def _beat(store: Store) -> None:
    """What its next beat finds out."""
    _freeze(store)
    _session(store)._beats()


def test_a_gap_is_waited_for_before_it_is_one(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    with pytest.raises(StoreError, match="holds nothing"):
        recovery.look(Patient(bucket, lambda seconds: None), str(tmp_path / "copy.db"))
