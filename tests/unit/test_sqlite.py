"""What only the SQLite store has: one owner, one file, one writer, and a disk that can be full."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.store import NodeRow, Query, Range, open_url
from wakeful.store.sqlite import SqliteStore, owner_of
from wakeful.store.sqlite import store as store_module
from wakeful.values.commits import USER, Commit, Start
from wakeful.values.errors import BadUrl, Fenced, FileOwned, StoreDown, StoreError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM, Timer

NOW = 1_760_000_000_000
A, B, C = ObjectId("Order", "a"), ObjectId("Order", "b"), ObjectId("Order", "c")

OWN = """
import asyncio, sys
from wakeful.store.sqlite import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open(now=5)
    print("open", flush=True)
    sys.stdin.read()
    await store.close()
asyncio.run(main())
"""

LOOK = """
import asyncio, sys
from wakeful.store import Query
from wakeful.store.sqlite import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open(now=5, readonly=True)
    for line in sys.stdin:
        print(await store.count("objects"), len(await store.find_timers(Query())), flush=True)
    await store.close()
asyncio.run(main())
"""


def process(program: str, path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def opened(path: Path, **options: Any) -> SqliteStore:
    store = SqliteStore(str(path), **options)
    await store.open(now=NOW)
    await store.claim("n", range(256), now=NOW)
    return store


def turn(id: ObjectId = A, **what: Any) -> Commit:
    return Commit(id=id, shard=shard_of(id), epoch=what.pop("epoch", 1), now=NOW, **what)


def put(id: ObjectId = A, value: Any = b"1", key: str = "x") -> Commit:
    return turn(id, puts={(USER, key): value})


# urls


@pytest.mark.parametrize(
    ("url", "path", "synchronous"),
    [
        ("sqlite:app.db", os.path.realpath("app.db"), "FULL"),
        ("sqlite:a b/../app.db", os.path.realpath("app.db"), "FULL"),
        ("sqlite:/srv/app.db", "/srv/app.db", "FULL"),
        ("sqlite:///srv/app.db", "/srv/app.db", "FULL"),
        ("sqlite:app.db?synchronous=NORMAL", os.path.realpath("app.db"), "NORMAL"),
        ("sqlite:app.db?synchronous=full", os.path.realpath("app.db"), "FULL"),
    ],
)
def test_a_url_names_a_path(url: str, path: str, synchronous: str) -> None:
    store = open_url(url)
    assert isinstance(store, SqliteStore)
    assert (store.path, store._synchronous, store.url) == (path, synchronous, url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite:///",
        "sqlite://host/x.db",
        "sqlite::memory:",
        "sqlite:x?synchronous=OFF",
        "sqlite:x?cache=shared",
    ],
)
def test_a_url_that_names_no_file_says_what_to_write(url: str) -> None:
    with pytest.raises(BadUrl, match="write sqlite:PATH"):
        open_url(url)


# ownership


async def test_a_second_process_is_told_who_owns_the_file_and_a_killed_owner_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    other = process(OWN, path)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(FileOwned, match=rf"owned by process {other.pid} \(-c\); stop it") as caught:
        await SqliteStore(str(path)).open(now=NOW)
    assert caught.value.code == "store.owned"
    with pytest.raises(FileOwned, match=str(other.pid)):
        await SqliteStore(str(path)).migrate(now=NOW)
    other.send_signal(signal.SIGKILL)
    other.wait()
    other.communicate()
    store = await opened(path)
    assert owner_of(store.path)["pid"] == os.getpid()
    await store.close()


async def test_two_stores_of_one_process_do_not_share_a_file(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "app.db")
    for name in ("app.db", "link.db"):
        with pytest.raises(FileOwned, match="another store of this process"):
            await SqliteStore(str(tmp_path / name)).open(now=NOW)
    assert await store.commit("n", [put()]) == [None]
    await store.close()
    again = await opened(tmp_path / "link.db")
    await again.close()


async def test_the_owner_file_says_who_and_where(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    await store.join(NodeRow("n", "127.0.0.1:7000", NOW, NOW + 5, "me"))
    about = json.loads((tmp_path / "app.db-owner").read_text())
    assert about == {"pid": os.getpid(), "program": sys.argv[0], "since": NOW, "address": "127.0.0.1:7000"}
    await store.close()
    assert owner_of(str(tmp_path / "app.db")) == {}


async def test_a_forked_child_does_not_keep_the_file(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    held, release = os.pipe()
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        os.write(tell, b"!")  # it lets go before `fork` returns, but not before it has been given a turn
        os.read(held, 1)
        os._exit(0)
    os.read(heard, 1)
    await store.close()
    again = await opened(tmp_path / "app.db")
    await again.close()
    os.close(release)
    os.waitpid(child, 0)  # noqa: ASYNC222
    for end in (held, heard, tell):
        os.close(end)


async def test_a_failed_open_leaves_nothing_owned(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    for _ in range(2):
        with pytest.raises(StoreError, match="another program's"):
            await SqliteStore(str(path)).open(now=NOW)
    db.execute("DROP TABLE theirs")
    db.close()
    store = await opened(path)
    await store.close()


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="make the folder"):
        await SqliteStore(str(tmp_path / "none" / "app.db")).open(now=NOW)


# reading beside the owner


async def test_a_second_process_reads_while_the_owner_writes(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    other = process(LOOK, tmp_path / "app.db")
    assert other.stdin is not None
    assert other.stdout is not None
    for n in range(1, 4):
        id = ObjectId("Order", str(n))
        assert await store.commit("n", [turn(id, sets=[Timer(id, ALARM, NOW, NOW, n)])]) == [None]
        other.stdin.write("look\n")
        other.stdin.flush()
        assert other.stdout.readline() == f"{n} {n}\n"
    other.communicate()
    assert other.returncode == 0
    await store.close()


@pytest.mark.parametrize("owner_alive", [True, False])
async def test_a_read_only_store_reads_everything_and_writes_nothing(tmp_path: Path, owner_alive: bool) -> None:
    store = await opened(tmp_path / "app.db")
    await store.commit("n", [put()])
    if not owner_alive:
        await store.close()
    reader = SqliteStore(str(tmp_path / "app.db"))
    await reader.open(now=NOW, readonly=True)
    assert await reader.read(A, USER, ["x"]) == {"x": b"1"}
    assert (await reader.owners())[0].owner == "n"
    timer = Timer(A, ALARM, NOW, NOW, 1)
    calls: list[Callable[[], Any]] = [
        lambda: reader.commit("n", [put()]), lambda: reader.insert([timer], now=NOW), lambda: reader.leave("n"),
        lambda: reader.join(NodeRow("n", "", NOW, NOW, "")), lambda: reader.claim("n", [1], now=NOW),
        lambda: reader.release("n", {1: 1}), lambda: reader.prune(now=NOW, entries_before=0, crowded=[], limit=1),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreError, match="read-only; write through the process that owns it"):
            await call()
    await reader.close()
    await store.close()


# the disk


def limit_pages(store: SqliteStore, extra: int | None) -> None:
    """Let the database grow by so many pages and no more: what a full disk looks like to SQLite."""
    assert store._open_writer is not None
    db = store._open_writer.db
    assert db is not None
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.executescript(f"PRAGMA max_page_count = {2**30 if extra is None else pages + extra}")


@pytest.mark.parametrize("size", [1, 3000], ids=["in the loop", "in the writer thread"])
async def test_a_full_disk_is_store_down_and_the_store_works_again_when_there_is_space(
    tmp_path: Path, size: int
) -> None:
    store = await opened(tmp_path / "app.db")
    assert await store.commit("n", [put()]) == [None]
    limit_pages(store, 2)
    big = turn(B, puts={(USER, f"k{n}"): bytes(100_000 // size + 50) for n in range(size)})
    with pytest.raises(StoreDown, match="database or disk is full"):
        await store.commit("n", [put(C), big])
    with pytest.raises(StoreDown, match="full"):
        await store.insert([Timer(B, f"t{n}", NOW, NOW, n, 0, 0, 0, 0, bytes(100)) for n in range(size + 200)], now=NOW)
    assert [info.id for info in await store.find_objects(Query())] == [A]
    assert await store.commit("n", [put(A, b"2")]) == [None], "what still fits goes on"
    limit_pages(store, None)
    assert await store.commit("n", [put(C), big]) == [None, None]
    found = [(info.id, info.rows) for info in await store.find_objects(Query())]
    assert found == [(A, 1), (B, size), (C, 1)]
    await store.close()


async def test_a_database_locked_by_a_tool_is_store_down_until_it_lets_go(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    tool = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    tool.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreDown, match="locked"):
        await store.commit("n", [put()])
    tool.execute("ROLLBACK")
    tool.close()
    assert await store.commit("n", [put()]) == [None]
    await store.close()


async def test_a_connection_that_cannot_even_roll_back_is_replaced(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    writer = store._open_writer
    assert writer is not None
    assert writer.db is not None

    class Broken:
        in_transaction = True

        def execute(self, sql: str, parameters: object = ()) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        def executescript(self, sql: str) -> None: ...

        def close(self) -> None: ...

    sound, writer.db = writer.db, Broken()  # type: ignore[assignment]
    sound.close()
    with pytest.raises(StoreDown, match="disk I/O error"):
        await store.commit("n", [put()])
    assert await store.commit("n", [put()]) == [None]
    assert await store.commit("other", [put()]) != [None]
    await store.close()


# what is synced, and where


def traced(store: SqliteStore) -> list[tuple[str, int, str]]:
    """Every COMMIT of the writer with the level of `synchronous` it runs at and its thread."""
    assert store._open_writer is not None
    db = store._open_writer.db
    assert db is not None
    seen: list[tuple[str, int, str]] = []
    probe = db.cursor()

    def note(sql: str) -> None:
        if sql == "COMMIT":
            # A comment makes the statement new: the level is read when it is compiled.
            level = probe.execute(f"PRAGMA synchronous /* {len(seen)} */").fetchone()[0]
            seen.append((sql, level, threading.current_thread().name))

    db.set_trace_callback(note)
    return seen


async def test_only_bare_starts_are_committed_without_a_sync_and_in_the_loops_thread(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    await store.commit("n", [turn(sets=[Timer(A, ALARM, NOW, NOW, 1)])])
    seen = traced(store)
    start = turn(starts=[Start(ALARM, 1, 1)])
    here = threading.current_thread().name
    for commits, level, thread in (
        ([start], 1, here),
        ([start, put()], 2, "wakeful-sqlite"),
        ([start], 1, here),
        ([start], 1, here),
        ([put()], 2, "wakeful-sqlite"),
    ):
        assert await store.commit("n", commits) == [None] * len(commits)
        assert seen.pop() == ("COMMIT", level, thread)
        assert seen == []
    await store.close()


async def test_synchronous_normal_is_an_option(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db", synchronous="NORMAL")
    seen = traced(store)
    await store.commit("n", [put()])
    assert seen == [("COMMIT", 1, "wakeful-sqlite")]
    await store.close()


async def test_a_large_group_runs_in_the_writer_thread_as_a_whole(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    assert store._open_writer is not None
    assert store._open_writer.db is not None
    threads: dict[str, set[str]] = {}
    store._open_writer.db.set_trace_callback(
        lambda sql: threads.setdefault(sql.split()[0], set()).add(threading.current_thread().name)
    )
    count = store_module.BULK_ROWS + 1
    await store.commit("n", [turn(puts={(USER, f"k{n}"): b"" for n in range(count)})])
    await store.insert([Timer(A, f"t{n}", NOW, NOW, n) for n in range(count)], now=NOW)
    assert threads["INSERT"] == threads["BEGIN"] == threads["COMMIT"] == {"wakeful-sqlite"}
    await store.close()


# failing alone


async def test_an_invalid_commit_fails_alone_with_what_was_built_on_it(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    too_late = Timer(A, ALARM, 2**70, NOW, 1)
    outcomes = await store.commit(
        "n",
        [
            put(B),
            turn(A, puts={(USER, "x"): b"1"}, sets=[too_late]),
            put(A, b"2", "on top"),
            put(C, None),
            turn(B, epoch=7, puts={(USER, "fenced"): b""}),
            put(B, b"3", "y"),
        ],
    )
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "NoneType",
        "WriteRefused",
        "WriteRefused",
        "WriteRefused",
        "Fenced",
        "NoneType",
    ]
    assert all(isinstance(outcomes[n], StoreError) for n in (1, 2, 3))
    assert [info.id for info in await store.find_objects(Query())] == [B]
    assert await store.scan(B, USER, Range()) == [("x", b"1"), ("y", b"3")]
    await store.close()


async def test_an_insert_with_one_invalid_timer_adds_none(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    for count in (1, store_module.BULK_ROWS):
        timers = [Timer(ObjectId("Job", str(n)), "job", NOW, NOW, n) for n in range(count)]
        with pytest.raises(StoreError, match="does not take it"):
            await store.insert([*timers, Timer(A, "job\udc80", NOW, NOW, 1)], now=NOW)
    assert (await store.count("objects"), await store.count("timers")) == (0, 0)
    await store.close()


async def test_a_shard_stolen_through_another_connection_fences(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    assert await store.commit("n", [put()]) == [None]
    thief = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    for epoch in (2, 3):
        thief.execute("UPDATE shards SET owner = 'thief', epoch = epoch + 1 WHERE shard = ?", (shard_of(A),))
        stolen, kept = await store.commit("n", [put(A, b"2"), put(B, b"2")])
        assert isinstance(stolen, Fenced)
        assert kept is None
        epochs = await store.claim("n", [shard_of(A)], now=NOW)
        assert epochs == {shard_of(A): 2 * epoch - 1}
        assert await store.commit("n", [turn(A, epoch=2 * epoch - 1, puts={(USER, "x"): b"3"})]) == [None]
    thief.close()
    assert await store.read(A, USER, ["x"]) == {"x": b"3"}
    await store.close()


# many at once


async def test_commits_that_overlap_all_arrive_and_a_cancelled_one_does_no_harm(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    tasks = [asyncio.ensure_future(store.commit("n", [put(A, b"1", f"k{n}")])) for n in range(40)]
    await asyncio.sleep(0)
    tasks[0].cancel()  # its COMMIT is under way
    tasks[20].cancel()  # waits for its turn
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, asyncio.CancelledError)] == [0, 20]
    rows = {key for key, _ in await store.scan(A, USER, Range())}
    assert rows >= {f"k{n}" for n in range(40) if n not in (0, 20)}
    assert "k0" in rows
    assert "k20" not in rows
    await store.close()


async def test_close_waits_for_commits_moves_the_log_into_the_file_and_ends_the_thread(tmp_path: Path) -> None:
    others = set(threading.enumerate())  # of stores whose death other tests staged
    store = await opened(tmp_path / "app.db")
    commit = asyncio.ensure_future(store.commit("n", [put()]))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert await commit == [None]
    assert not [one for one in threading.enumerate() if one.name == "wakeful-sqlite" and one not in others]
    assert sorted(os.listdir(tmp_path)) == ["app.db", "app.db-begun", "app.db-owner"]
    with pytest.raises(StoreDown, match="closed"):
        await store.commit("n", [put()])
    with pytest.raises(StoreDown, match="closed"):
        await store.load([A])
    store = await opened(tmp_path / "app.db")
    assert await store.read(A, USER, ["x"]) == {"x": b"1"}
    await store.close()


@pytest.mark.parametrize(
    ("count", "statements"), [(0, 0), (1, 1), (2, 1), (4, 1), (5, 1), (16, 1), (17, 1), (64, 1), (65, 2), (150, 3)]
)
async def test_many_objects_are_loaded_in_few_statements_and_each_gets_its_own(
    tmp_path: Path, count: int, statements: int
) -> None:
    store = await opened(tmp_path / "app.db")
    ids = [ObjectId("Order", f"{n}") for n in range(count)]
    kept = [id for n, id in enumerate(ids) if n % 3]  # the others never wrote anything
    alarms = {id: Timer(id, ALARM, NOW + n, NOW, n) for n, id in enumerate(ids) if n % 3 == 1}
    commits = [turn(id, puts={(USER, "x"): id.key.encode()}, sets=[alarms[id]] if id in alarms else []) for id in kept]
    assert await store.commit("n", commits) == [None] * len(kept)
    seen: list[str] = []
    store._reader.db.set_trace_callback(seen.append)
    loaded = await store.load(ids)
    store._reader.db.set_trace_callback(None)
    assert len(seen) == statements
    assert [one.rows for one in loaded] == [{(USER, "x"): id.key.encode()} if id in kept else {} for id in ids]
    assert [one.alarm for one in loaded] == [alarms.get(id) for id in ids]
    assert [one.info and one.info.id for one in loaded] == [id if id in kept else None for id in ids]
    await store.close()


async def test_a_page_of_timers_reads_no_more_than_itself(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    db = sqlite3.connect(tmp_path / "app.db")
    from wakeful.store.sqlite.statements import timers_page

    plans = {
        after: [
            row[3]
            for row in db.execute("EXPLAIN QUERY PLAN " + timers_page(None, after=after), (1,) * (5 if after else 2))
        ]
        for after in (False, True)
    }
    assert plans == {
        False: ["SEARCH timers USING PRIMARY KEY (due_at<?)"],
        True: ["SEARCH timers USING PRIMARY KEY ((due_at,rank,seq)>(?,?,?) AND due_at<?)"],
    }
    db.close()
    await store.close()


async def test_statements_of_many_rows_search_by_primary_key(tmp_path: Path) -> None:
    store = await opened(tmp_path / "app.db")
    from wakeful.store.sqlite import statements

    db = sqlite3.connect(tmp_path / "app.db")
    for many in (statements.wipe_rows, statements.delete_rows, statements.clear_timers, statements.start_timers):
        for sql in many._sql.values():
            plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql, ("x",) * sql.count("?"))]
            assert not [line for line in plan if line.startswith(("SCAN kv", "SCAN timers", "SCAN t"))], plan
    db.close()
    await store.close()
