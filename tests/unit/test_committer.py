"""Group commit: who is told what and when, and whose context the writing runs in."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from wakeful.runtime import committer
from wakeful.runtime.committer import Committer
from wakeful.store import MemoryStore
from wakeful.store.protocol import Outcome
from wakeful.values.commits import USER, Commit, Start
from wakeful.values.errors import StoreDown, StoreError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.metrics import Meter

ONE = ObjectId("C", "one")
CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


def put(value: bytes) -> Commit:
    return Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, puts={(USER, "k"): value})


class Watched(MemoryStore):
    """Remembers the groups it was given, in whose context, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.callers: list[str] = []
        self.is_away = False
        self.refuses: bytes | None = None  # a value that it does not take, nor what comes after it in its group

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        self.groups.append(len(commits))
        self.callers.append(CALLER.get())
        if self.is_away:
            raise StoreDown("away")
        values = [commit.puts.get((USER, "k")) for commit in commits]
        if self.refuses is not None and self.refuses in values:
            good = values.index(self.refuses)
            refused: list[Outcome] = [StoreError("no")] * (len(commits) - good)
            return [*await super().commit(node, commits[:good]), *refused]
        return await super().commit(node, commits)


class Stage:
    """A committer on a memory store, and everything that is heard of it in order."""

    def __init__(self) -> None:
        self.store = Watched()
        self.heard: list[Any] = []
        self.on_group: list[Commit] = []  # submitted at the end of the next group
        self.committer = Committer(
            self.store, "a", group_max=3, on_down=lambda error: self.heard.append("down"), on_group=self._group
        )

    async def open(self) -> "Stage":
        await self.store.open(now=0)
        await self.store.claim("a", [shard_of(ONE)], now=0)
        return self

    def submit(self, value: bytes) -> None:
        self.committer.submit(put(value), lambda failure: self.heard.append((value, failure and str(failure))))

    def note(self, name: str) -> None:
        note = Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, starts=[Start(name, 1, 0)])
        self.committer.note(note, lambda failure: self.heard.append((name, failure and str(failure))))

    def _group(self) -> None:
        self.heard.append("group")
        more, self.on_group = self.on_group, []
        for commit in more:
            self.committer.submit(commit, lambda failure: self.heard.append("more"))


async def test_commits_of_one_pass_share_groups_in_order() -> None:
    stage = await Stage().open()
    for n in range(5):
        stage.submit(b"%d" % n)
    assert stage.committer.backlog == 5
    await stage.committer.drain()
    assert stage.store.groups == [3, 2]
    assert stage.heard == [(b"0", None), (b"1", None), (b"2", None), "group", (b"3", None), (b"4", None), "group"]
    assert (stage.committer.backlog, stage.committer.groups, stage.committer.commits) == (0, 2, 5)


async def test_a_group_carries_no_more_bytes_than_one_trip_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "GROUP_BYTES_MAX", 100)
    stage = await Stage().open()
    for size in (10, 60, 60, 200, 10):
        stage.submit(b"x" * size)
    await stage.committer.drain()
    assert stage.store.groups == [2, 1, 1, 1]


async def test_of_each_start_note_for_a_server_it_is_told_once_before_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that go now and of those that go next: what their objects need is read meanwhile."""
    stage = await Stage().open()
    monkeypatch.setattr(stage.store, "local", False)
    listens = True

    def told_of(notes: list[Commit]) -> bool:
        stage.heard.append([note.starts[0].name for note in notes])
        return listens

    stage.committer.on_notes = told_of
    for name in "pqrstuv":
        stage.note(name)
    stage.store.is_away = True
    await stage.committer.drain()
    failed = [(name, "away [store.down]") for name in "pqrstuv"]
    assert stage.heard == [["p", "q", "r", "s"], "down", *failed]
    stage.heard, stage.store.is_away = [], False
    for name in "pqrstuv":
        stage.note(name)
    stage.submit(b"0")
    await stage.committer.drain()
    told = [heard for heard in stage.heard if isinstance(heard, list)]
    assert told == [["p", "q"], ["r", "s", "t"], ["u", "v"]]
    assert [heard[0] for heard in stage.heard if isinstance(heard, tuple)] == ["p", b"0", *"qrstuv"]
    first = {name: stage.heard.index(names) for names in told for name in names}
    assert all(first[name] < stage.heard.index((name, None)) for name in "pqrstuv")
    stage.heard, listens = [], False
    for name in "pqrst":
        stage.note(name)
    await stage.committer.drain()
    assert [heard for heard in stage.heard if isinstance(heard, list)] == [["p", "q", "r", "s"], ["s", "t"]]


async def test_start_notes_go_before_what_waits_in_a_group_of_their_own_and_let_one_group_pass_between() -> None:
    stage = await Stage().open()
    for n in range(4):
        stage.submit(b"%d" % n)
    for name in ("p", "q", "r", "s"):
        stage.note(name)
    assert stage.committer.backlog == 8
    await stage.committer.drain()
    notes = [[(name, None) for name in names] for names in ("pqr", "s")]
    first, second = [(b"0", None), (b"1", None), (b"2", None)], [(b"3", None)]
    assert stage.heard == [*notes[0], "group", *first, "group", *notes[1], "group", *second, "group"]
    assert stage.committer.backlog == 0


async def test_where_a_commit_is_a_round_trip_start_notes_share_it_with_the_rest_half_and_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await Stage().open()
    monkeypatch.setattr(stage.store, "local", False)
    monkeypatch.setattr(committer, "GROUP_BYTES_MAX", 1)  # one commit a trip: it comes to its turn all the same
    for name in "pq":
        stage.note(name)
    stage.submit(b"00")
    stage.submit(b"11")
    for name in "rstuv":
        stage.note(name)
    await stage.committer.drain()
    trips = ["p", b"00", "group", "q", b"11", "group", "r", "s", "t", "group", "u", "v", "group"]
    assert stage.heard == [what if what == "group" else (what, None) for what in trips]


async def test_start_notes_hear_of_a_store_that_is_away_and_are_dropped_without_a_word_when_killed() -> None:
    stage = await Stage().open()
    stage.store.is_away = True
    stage.submit(b"0")
    stage.note("p")
    await stage.committer.drain()
    assert stage.heard == ["down", ("p", "away [store.down]"), (b"0", "away [store.down]")]
    stage.store.is_away = False
    stage.note("q")
    stage.committer.kill()
    await asyncio.sleep(0)
    assert (stage.committer.backlog, len(stage.heard)) == (0, 3)


async def test_what_the_end_of_a_group_submits_needs_no_further_pass() -> None:
    stage = await Stage().open()
    stage.on_group = [put(b"x")]
    stage.submit(b"0")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stage.heard == [(b"0", None), "group", "more", "group"]
    await stage.committer.drain()


async def test_after_a_rest_and_after_going_home_it_writes_again() -> None:
    stage = await Stage().open()
    for drains in (False, True, False, False):
        before = stage.committer.commits
        stage.submit(b"v")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stage.committer.commits == before + 1
        if drains:
            await stage.committer.drain()
    await stage.committer.drain()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_context_of_the_first_caller_is_not_everyones() -> None:
    stage = await Stage().open()
    CALLER.set("first")
    stage.submit(b"0")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    CALLER.set("second")
    stage.submit(b"1")
    await stage.committer.drain()
    assert stage.store.callers == ["nobody", "nobody"]


async def test_a_store_that_is_away_fails_the_group_and_what_waits_behind_it() -> None:
    stage = await Stage().open()
    stage.store.is_away = True
    for n in range(4):
        stage.submit(b"%d" % n)
    await stage.committer.drain()
    assert stage.heard == ["down", *((b"%d" % n, "away [store.down]") for n in range(4))]
    assert stage.store.groups == [3]
    stage.store.is_away = False
    stage.submit(b"again")
    await stage.committer.drain()
    assert stage.heard[-2:] == [(b"again", None), "group"]


async def test_killed_it_says_nothing_and_leaves_nothing_behind() -> None:
    for passes in range(4):  # before its first step, under way, done, resting
        stage = await Stage().open()
        stage.submit(b"0")
        for _ in range(passes):
            await asyncio.sleep(0)
        heard = list(stage.heard)
        stage.committer.kill()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stage.heard == heard
        assert stage.committer.backlog == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_was_built_on_a_refused_commit_fails_with_it_in_the_next_group_too() -> None:
    """It was written: the next turn's rows without those of the turn before, which its caller was told had failed."""
    stage = await Stage().open()
    stage.store.refuses = b"1"
    other = ObjectId("C", "other")
    await stage.store.claim("a", [shard_of(other)], now=0)
    for n in range(5):
        stage.submit(b"%d" % n)
    apart = Commit(id=other, shard=shard_of(other), epoch=1, now=1, puts={(USER, "k"): b"apart"})
    stage.committer.submit(apart, lambda failure: stage.heard.append(("apart", failure)))
    await stage.committer.drain()
    told = "no [store]"
    assert stage.heard == [
        (b"0", None), (b"1", told), (b"2", told), (b"3", told), (b"4", told), "group", ("apart", None), "group",
    ]  # fmt: skip
    assert stage.store.groups == [3, 1]
    assert await stage.store.read(ONE, USER, ["k"]) == {"k": b"0"}


async def test_how_long_a_group_is_on_its_way_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await Stage().open()
    now, gate = [5_000_000_000], asyncio.Event()
    stage.committer.meter = Meter(lambda: now[0])
    commit = stage.store.commit

    async def slow(node: str, commits: Sequence[Commit]) -> list[Outcome]:
        await gate.wait()
        return await commit(node, commits)

    monkeypatch.setattr(stage.store, "commit", slow)
    assert stage.committer.sending_ms == 0
    stage.submit(b"1")
    await asyncio.sleep(0)
    now[0] += 3_500_000_000
    assert stage.committer.sending_ms == 3_500
    gate.set()
    await stage.committer.drain()
    assert (stage.committer.sending_ms, stage.heard) == (0, [(b"1", None), "group"])
