"""Whoever writes to the prefix can change what objects hold, and no more: what else is there is refused by name, and soon."""

import json
import sqlite3
import threading
import tracemalloc
import zlib
from itertools import pairwise
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import msgspec
import pytest

from tests.unit.bucket_process import Process, session_of
from wakeful.store.bucket import recorder, records
from wakeful.store.bucket.keys import slot_key, snapshot_key
from wakeful.store.bucket.replica import MovedIn, Replica, _hints
from wakeful.store.bucket.snapshots import unpack_chunk
from wakeful.store.sqlite.statements import INSERTED_TIMERS
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.errors import StoreError, Undecodable, WakefulError


async def _prefix(folder: Path) -> EmulatedBucket:
    """A prefix with a snapshot and slots behind it, and nobody on it."""
    bucket = EmulatedBucket()
    process = await Process(bucket, folder / "maker").start()
    await process.put("kept")
    await process.store.close()
    return bucket


def _last_slot(bucket: EmulatedBucket) -> str:
    return max(key for key in bucket.objects if key.startswith("slots/"))


async def _refusal(bucket: EmulatedBucket, folder: Path) -> WakefulError:
    """With what a process that has nothing but the bucket is refused."""
    with pytest.raises(WakefulError) as refused:
        await Process(bucket, folder / "victim").start()
    return refused.value


def _record(sql: str, *values: Any) -> bytes:
    return records.pack(records.of_statements("somebody", 1, 0, [(sql, values)]))


STRANGE = {
    "a number that SQLite can't have": (_record("UPDATE shards SET epoch = ?", 2**63), "store.replay"),
    "a statement that is not there": (
        b"WKL2" + zlib.compress(msgspec.msgpack.encode(["somebody", 1, 0, [], [(3, [])]])),
        "store.replay",
    ),
    "two statements in one": (_record("DELETE FROM kv; DELETE FROM kv"), "store.replay"),
    "a statement with a NUL": (_record("DELETE FROM kv\0"), "store.replay"),
    "a list for a value": (_record("UPDATE shards SET epoch = ?", [1]), "store.replay"),
    "recursion": (
        _record("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) DELETE FROM kv WHERE key IN c"),
        "store.replay",
    ),
    "another version": (b"WKL9" + zlib.compress(b"x"), "store.newer"),
    "half of a record": (_record("DELETE FROM kv")[:-6], "store.value"),
}


@pytest.mark.parametrize("strange", STRANGE)
async def test_a_record_that_wakeful_never_wrote_is_refused_by_name(tmp_path: Path, strange: str) -> None:
    bucket = await _prefix(tmp_path)
    slot = _last_slot(bucket)
    bucket.objects[slot], code = STRANGE[strange]
    error = await _refusal(bucket, tmp_path)
    assert isinstance(error, StoreError | Undecodable)
    assert error.code == code
    assert slot.removeprefix("slots/").lstrip("0") in str(error)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_a_record_says_it_is_applied_or_refused(tmp_path: Path, seed: int) -> None:
    """Real records with a few bytes changed beneath the compression, and with values that are something else."""
    random = Random(seed)
    bucket = await _prefix(tmp_path)
    process = await Process(bucket, tmp_path / "reader").start()
    real = [bucket.objects[key] for key in sorted(bucket.objects) if key.startswith("slots/")]
    replica = Replica(session_of(process.store).path)
    refused = 0
    for _ in range(150):
        data = bytearray(zlib.decompress(random.choice(real)[4:]))
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        tree = _decoded(bytes(data))
        if isinstance(tree, list) and random.random() < 0.5:
            data = bytearray(msgspec.msgpack.encode(_bent(tree, random)))
        try:
            record = records.unpack(b"WKL2" + zlib.compress(bytes(data)), "slots/1")
            replica.apply([(1, record)])
        except (WakefulError, MovedIn):
            refused += 1
    replica.close()
    await process.store.close()
    assert 15 < refused < 150


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _bent(tree: Any, random: Random) -> Any:
    """Something of it is what nobody expects there."""
    if isinstance(tree, list) and tree and random.random() < 0.9:
        at = random.randrange(len(tree))
        return [*tree[:at], _bent(tree[at], random), *tree[at + 1 :]]
    return random.choice([2**64 - 1, -(2**63), -1, "", "\0", b"\xff", None, [], {}, 1e308, [[]], True])


async def test_a_record_that_would_take_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without recursion too: each table doubles the one before."""
    monkeypatch.setattr(recorder, "STEPS_MAX", 3)
    bucket = await _prefix(tmp_path)
    doubled = ", ".join(f"t{n} AS (SELECT a.x FROM t{n - 1} a, t{n - 1} b)" for n in range(1, 7))
    endless = f"WITH t0 AS (SELECT 1 AS x UNION ALL SELECT 2), {doubled} SELECT count(*) FROM t6"
    bucket.objects[_last_slot(bucket)] = _record(f"UPDATE shards SET epoch = ({endless})")
    error = await _refusal(bucket, tmp_path)
    assert error.code == "store.replay"
    assert "interrupted" in str(error)


def test_timers_that_are_none_are_no_hints() -> None:
    """What stands beside them is, whatever its place in the record."""
    texts = [f"{INSERTED_TIMERS} SELECT 1"]
    proper = ["A", "k", "alarm", 7, 99, *[None] * 7]
    wrong: list[list[Any]] = [
        ["A"],
        ["A", "k", "alarm", "x", 99, *[None] * 7],
        ["A", "k", "alarm", 256, 99, *[None] * 7],
    ]
    rows = [(0, values) for values in (*wrong, proper)]
    assert [(hint.shard, hint.first_at) for hint in _hints([records.Record("somebody", 1, 0, texts, rows)])] == [
        (7, 99)
    ]


# Bombs: what is small in the bucket and large in memory.


def test_a_chunk_is_unpacked_no_further_than_a_chunk_goes() -> None:
    bomb = zlib.compress(bytes(200 * records.CHUNK_BYTES), 9)
    tracemalloc.start()
    try:
        with pytest.raises(Undecodable, match="damaged"):
            unpack_chunk("0" * 40, bomb)
        assert tracemalloc.get_traced_memory()[1] < 20 * records.CHUNK_BYTES
    finally:
        tracemalloc.stop()


def test_a_record_is_unpacked_no_further_than_one_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is written that nobody would read."""
    monkeypatch.setattr(records, "RECORD_BYTES", 1_000)
    fits = records.pack(records.Record("w", 1, texts=["x" * 900]))
    assert records.unpack(fits, "slots/1").texts == ["x" * 900]
    with pytest.raises(StoreError, match="at most 1,000") as refused:
        records.pack(records.Record("w", 1, texts=["x" * 1_100]))
    assert refused.value.code == "store.record"
    bomb = b"WKL2" + zlib.compress(msgspec.msgpack.encode(["w", 1, 0, ["x" * 1_100]]))
    with pytest.raises(Undecodable, match=r"slots/1 is damaged .*more than 1,000"):
        records.unpack(bomb, "slots/1")


# Snapshots


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 2**62},
        {"slot": 2**70},
        {"floor": 10**9},
        {"chunks": [["..", "../../etc/passwd"]]},
    ],
)
async def test_a_manifest_that_can_t_be_is_refused_by_name(tmp_path: Path, change: dict[str, Any]) -> None:
    bucket = await _prefix(tmp_path)
    manifest = json.loads(bucket.objects[snapshot_key(1)])
    bucket.objects[snapshot_key(1)] = json.dumps(manifest | change).encode()
    error = await _refusal(bucket, tmp_path)
    assert isinstance(error, Undecodable)
    assert snapshot_key(1) in str(error)


async def test_a_store_that_was_moved_in_by_nobody_is_refused_by_name(tmp_path: Path) -> None:
    bucket = await _prefix(tmp_path)
    slot = _last_slot(bucket)
    manifest = records.Manifest("birth", 3, 0, 2**62, ())
    bucket.objects[slot] = records.pack(records.Record("somebody", 1, moved_in=manifest))
    assert slot in str(await _refusal(bucket, tmp_path))


def _replace_by_view(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE bucket RENAME TO bucket_too")
    db.execute(
        "CREATE VIEW bucket AS WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT (SELECT max(x) FROM c) AS birth, 0 AS slot"
    )


async def test_nothing_of_a_snapshot_runs_before_it_was_looked_at(tmp_path: Path) -> None:
    """A view in the place of a table, which never ends."""
    bucket = EmulatedBucket()
    process = await Process(bucket, tmp_path / "a").start()
    manifest = json.loads(bucket.objects[snapshot_key(1)])
    session = session_of(process.store)
    assert session._snapshots is not None
    copy = str(tmp_path / "copy.db")
    with sqlite3.connect(session.path) as db:
        db.execute(f"VACUUM INTO '{copy}'")
    db.close()
    with sqlite3.connect(copy) as db:
        _replace_by_view(db)
    db.close()
    size, chunks = session._snapshots.send_chunks(copy, "00000001-aa")
    await process.store.close()
    bucket.objects[snapshot_key(1)] = json.dumps(manifest | {"size": size, "chunks": chunks}).encode()
    error = await _refusal(bucket, tmp_path)
    assert error.code == "store.foreign"


# What lies about


async def test_other_objects_in_the_prefix_are_nobody_s_business(tmp_path: Path) -> None:
    """They are no slots behind a gap, and no reason not to make snapshots."""
    bucket = await _prefix(tmp_path)
    strangers = ("slots/README", "slots/x", f"{slot_key(9)}.bak", "snapshots/notes", "chunks/moved-elsewhere/x")
    for key in strangers:
        bucket.objects[key] = b"?"
    process = await Process(bucket, tmp_path / "victim").start()
    assert await process.keys() == ["kept"]
    for n in range(2):
        await process.put(f"more {n}")
        session_of(process.store).snapshot()
    await process.store.close()
    assert snapshot_key(3) in bucket.objects


async def test_a_stranger_in_an_empty_prefix_does_not_stop_the_first_start(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    bucket.objects["slots/README"] = b"?"
    process = await Process(bucket, tmp_path).start()
    await process.put("first")
    await process.store.close()


def test_a_record_is_read_with_all_that_it_has() -> None:
    manifest = records.Manifest("birth", 3, 2, 5, (("00000001-aa", "0" * 40),))
    record = records.Record("w", 1, 2, ["INSERT"], [(0, ["k", 7, b"x", None])], ["0001_core"], 8, manifest)
    assert all(getattr(record, name) for name in record.__struct_fields__), "else a field could be lost"
    assert records.unpack(records.pack(record), "slots/1") == record


def test_a_record_of_many_rows_lets_others_run_while_it_is_read() -> None:
    """It is read in a thread, which is no help to the event loop while one call has the interpreter all the time."""
    row = ["Order", "k", "job:x", *range(8), b"x" * 50]
    data = records.pack(records.Record("w", 1, 0, ["INSERT"], [(0, row)] * 100_000))
    shares = []
    for _ in range(3):  # a machine that has other work makes it look worse, never better
        beats = [perf_counter()]
        is_over = threading.Event()

        def beat(beats: list[float] = beats, is_over: threading.Event = is_over) -> None:
            while not is_over.wait(0.001):
                beats.append(perf_counter())

        beating = threading.Thread(target=beat)
        beating.start()
        began = perf_counter()
        assert len(records.unpack(data, "slots/1").rows) == 100_000
        took = perf_counter() - began
        is_over.set()
        beating.join()
        shares.append(max(after - before for before, after in pairwise([*beats, perf_counter()])) / took)
    assert min(shares) < 0.6, "it was 0.9 when all rows were read by one call"
