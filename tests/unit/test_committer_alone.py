"""One caller alone: when is a commit written in the thread of the event loop, and when not any more?"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wakeful.runtime.committer import ALONE_AFTER, ALONE_FOR, FORBIDDEN_NS, LOOKS, SLOW_NS, Committer, Solitude
from wakeful.store import MemoryStore, open_url
from wakeful.store.protocol import ALONE, Outcome
from wakeful.store.sqlite import writer as sqlite_writer
from wakeful.store.sqlite.store import SqliteStore
from wakeful.values.commits import USER, Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.metrics import Meter

ONE = ObjectId("C", "one")


def put(value: bytes = b"v") -> Commit:
    return Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, puts={(USER, "k"): value})


class Watched(MemoryStore):
    """Says of each group whether it may be written in the loop's thread; each takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[bool] = []
        self.now = 0
        self.takes = 100_000

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        self.inside.append(ALONE.get())
        self.now += self.takes
        return await super().commit(node, commits)


class Stage:
    """A caller of a committer, who may have company."""

    def __init__(self) -> None:
        self.store = Watched()
        self.committer = Committer(self.store, "a", group_max=64, on_down=print, on_group=lambda: None)
        self.committer.meter = Meter(lambda: self.store.now)

    async def open(self) -> "Stage":
        await self.store.open(now=0)
        await self.store.claim("a", [shard_of(ONE)], now=0)
        return self

    async def call(self, times: int = 1, *, company: int = 0) -> list[bool]:
        """So many commits, each when the one before it was answered; which of them were written in the loop's thread."""
        before = len(self.store.inside)
        for _ in range(times):
            done = [asyncio.get_running_loop().create_future() for _ in range(1 + company)]
            for one in done:
                self.committer.submit(put(), one.set_result)
            assert await asyncio.gather(*done) == [None] * len(done)
        return self.store.inside[before:]


async def test_one_caller_alone_is_written_in_the_loop_and_looked_at_again_now_and_then() -> None:
    stage = await Stage().open()
    assert await stage.call(ALONE_AFTER) == [False] * ALONE_AFTER
    for _ in range(3):
        assert await stage.call(ALONE_FOR) == [True] * ALONE_FOR
        assert await stage.call(LOOKS) == [False] * LOOKS
    assert not ALONE.get(), "of nobody else"


async def test_company_ends_it() -> None:
    stage = await Stage().open()
    await stage.call(ALONE_AFTER)
    assert await stage.call() == [True]
    assert await stage.call(company=1) == [False]
    assert await stage.call(ALONE_AFTER) == [False] * ALONE_AFTER
    assert await stage.call() == [True]


async def test_those_who_come_while_it_is_written_end_it() -> None:
    stage = await Stage().open()
    await stage.call(ALONE_AFTER)
    assert await stage.call(ALONE_FOR) == [True] * ALONE_FOR
    commit, joined = stage.store.commit, asyncio.get_running_loop().create_future()

    async def slow(node: str, commits: Sequence[Commit]) -> list[Outcome]:
        if not joined.done():
            joined.set_result(None)
            stage.committer.submit(put(), lambda failure: None)
        return await commit(node, commits)

    stage.store.commit = slow  # type: ignore[method-assign]
    assert await stage.call() == [False, False], "and the one that came"
    assert await stage.call(ALONE_AFTER - 1) == [False] * (ALONE_AFTER - 1), "from the start"
    assert await stage.call() == [True]


async def test_a_disk_that_stalls_once_is_left_to_the_other_thread_for_a_minute() -> None:
    stage = await Stage().open()
    await stage.call(ALONE_AFTER)
    stage.store.takes = SLOW_NS + 1
    assert await stage.call() == [True]
    stage.store.takes = 100_000
    assert True not in await stage.call(3 * (ALONE_AFTER + ALONE_FOR))
    stage.store.now += FORBIDDEN_NS
    assert True in await stage.call(ALONE_AFTER + ALONE_FOR)


def test_what_is_slow_in_the_other_thread_forbids_nothing() -> None:
    solitude = Solitude()
    for now in range(ALONE_AFTER):
        assert not solitude.allows(is_lone=True, now=now)
        solitude.note(was_inside=False, is_lone=True, now=now, took=50 * SLOW_NS)
    assert solitude.allows(is_lone=True, now=ALONE_AFTER)


# the SQLite store


class Threads:
    """In which thread each COMMIT ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside: list[bool] = []
        own, commit = threading.current_thread(), sqlite_writer.SqliteWriter._commit

        def seen(writer: Any) -> None:
            self.inside.append(threading.current_thread() is own)
            commit(writer)

        monkeypatch.setattr(sqlite_writer.SqliteWriter, "_commit", seen)


async def opened(path: Path) -> SqliteStore:
    store: Any = open_url(f"sqlite:{path}")
    await store.open(now=0)
    await store.claim("n", [shard_of(ONE)], now=0)
    return store  # type: ignore[no-any-return]


async def test_it_is_written_where_the_committer_says_and_is_durable_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path / "o.db")
    threads = Threads(monkeypatch)
    for value, is_alone in ((b"a", False), (b"b", True), (b"c", False), (b"d", True)):
        token = ALONE.set(is_alone)
        assert await store.commit("n", [put(value)]) == [None]
        ALONE.reset(token)
        assert (await store.read(ONE, USER, ["k"])) == {"k": value}
        assert store._open_writer is not None
        [(level,)] = store._open_writer.db.execute("PRAGMA synchronous").fetchall()  # type: ignore[union-attr]
        assert level == 2, "FULL, as ever"
    assert threads.inside == [False, True, False, True]
    await store.close()


async def test_no_commit_in_the_loop_moves_the_log_and_the_next_in_the_other_thread_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 10)
    path = tmp_path / "o.db"
    store = await opened(path)
    before = path.stat().st_size
    token = ALONE.set(True)
    for n in range(40):
        await store.commit("n", [put(bytes(4_096) + bytes([n]))])
    assert path.stat().st_size == before, "all of it is in the log"
    ALONE.reset(token)
    await store.commit("n", [put(bytes(9_000))])
    assert path.stat().st_size > before
    await store.close()


async def test_one_that_is_refused_in_the_loop_leaves_nothing(tmp_path: Path) -> None:
    store = await opened(tmp_path / "o.db")
    token = ALONE.set(True)
    bad = put()
    bad.puts = {(USER, "k"): "no bytes \ud800"}  # type: ignore[dict-item]
    [outcome] = await store.commit("n", [bad])
    assert outcome is not None
    assert await store.commit("n", [put(b"good")]) == [None]
    ALONE.reset(token)
    assert (await store.read(ONE, USER, ["k"])) == {"k": b"good"}
    await store.close()
