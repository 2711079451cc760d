"""What a process marks of the timers that it runs, and what the next one makes of it when it died."""

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.acts import SECOND, add_one
from tests.conformance.conftest import Stage, staging
from wakeful.runtime import start_notes
from wakeful.store import Query
from wakeful.store.protocol import RunMark
from wakeful.store.sqlite.marks import HEAD_BYTES, PLACE_BYTES, PLACES, MarkFile
from wakeful.testing import World
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

LONG_MS = 5 * start_notes.LOOK_MS


@pytest.fixture(params=["memory", "sqlite"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with staging("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/o.db") as stage:
        yield stage


async def timers(world: World) -> list[Timer]:
    return await world.node.store.find_timers(Query(cls="Bell", limit=1_000))


def marked(world: World) -> list[RunMark]:
    assert world.node.store.run_marks is not None
    return world.node.store.run_marks.all()


async def set_alarms(stage: Stage, world: World, count: int, handler: Any) -> None:
    """So many that are due at one instant."""
    at = world.now() + SECOND
    stage.handlers |= {f"k{n}": handler for n in range(count)}
    await asyncio.gather(*(stage.set_alarm(at, f"k{n}") for n in range(count)))


async def write(self: Any, info: Any) -> None:
    await add_one(self)


async def linger(self: Any, info: Any) -> None:
    await asyncio.sleep(LONG_MS / 1_000)


async def test_a_run_that_does_not_wait_takes_one_commit(stage: Stage) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = write
        await stage.set_alarm(SECOND)
        before = world.node.committer.commits
        await world.advance("2s")
        assert len(stage.fired) == 1
        assert world.node.committer.commits == before + 1


async def test_one_that_goes_on_for_a_while_is_seen_from_outside_and_gives_its_place_back(stage: Stage) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = linger
        await stage.set_alarm(SECOND)
        await world.advance(milliseconds=1_000 + start_notes.LOOK_MS // 2)
        [timer] = await timers(world)
        assert (timer.started, len(marked(world))) == (0, 1), "only marked"
        await world.advance(milliseconds=2 * start_notes.LOOK_MS)
        [timer] = await timers(world)
        assert timer.started == world.node.epochs[0], "and now it is noted"
        assert len(world.node.start_notes._free) == PLACES
        await world.advance("1s")
        assert await timers(world) == []


async def test_who_dies_at_the_commit_of_what_it_ran_dies_of_it(stage: Stage) -> None:
    """To write what came of it may kill, too: the mark stays until that is on disk."""
    async with stage.world() as world:
        stage.handlers["a"] = write
        await stage.set_alarm(SECOND)

        def die(name: str, _: int) -> None:
            if name == "commit.before" and len(stage.fired) > len(lives):
                lives.append(len(stage.fired))
                world.kill()

        lives: list[int] = []
        world.faults.on_probe = die
        for life in range(1, 4):
            await world.advance(minutes=1)
            assert lives == [*range(1, life + 1)]
            await world.restart()
        await world.advance(minutes=10)
        assert [(parked.reason, parked.attempts) for parked in await world.parked()] == [("crashed", 3)]
        assert len(stage.fired) == 3


async def test_what_ran_before_is_blamed_for_nothing(stage: Stage) -> None:
    """Its mark is in its place until somebody else needs that, and is of a setting that is no more."""
    async with stage.world() as world:

        async def again(self: Any, info: Any) -> None:
            if len(stage.fired) == 1:
                raise OSError("on purpose")  # the same setting, tried again later
            await self.storage.set_alarm(2 * SECOND)

        stage.handlers["a"] = again
        await stage.set_alarm(SECOND)
        for runs in (1, 2):
            while len(stage.fired) < runs:
                await world.advance(milliseconds=100)
            await world.settle()
            assert len(marked(world)) == 1
            await world.crash()
            await world.restart()
            [timer] = await timers(world)
            assert (timer.started, timer.crashes) == (0, 0)


async def test_more_than_there_are_places_are_noted_all(stage: Stage) -> None:
    places, count = 100, 140
    async with stage.world() as world:
        world.node.slots.bound = count
        del world.node.start_notes._free[places:]
        await set_alarms(stage, world, count, linger)
        await world.advance(milliseconds=1_000 + start_notes.LOOK_MS // 2)
        assert len(stage.fired) == count
        found = await timers(world)
        assert (sum(timer.started > 0 for timer in found), len(marked(world))) == (count - places, places)
        await world.crash()
        await world.restart()
        suspects = world.node.timer_runs.suspects
        await world.settle()
        assert len(suspects) + len(suspects.tried) == count, "each was running when the process died"


async def test_who_ends_cleanly_leaves_no_marks(stage: Stage) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = write
        await stage.set_alarm(SECOND)
        await world.advance("2s")
        marks = world.node.store.run_marks
        assert marks is not None
        assert [mark.name for mark in marks.all()] == ["alarm"]
        left: list[list[RunMark]] = []
        close = world.node.store.close

        async def look() -> None:
            left.append(marks.all())
            await close()

        world.node.store.close = look  # type: ignore[method-assign]
        await world.node.stop()
        assert left == [[]]


async def test_many_that_are_due_wake_by_few_reads(stage: Stage) -> None:
    async with stage.world() as world:
        await set_alarms(stage, world, 100, write)
        world.node.hibernation.sleep_all()
        asked: list[int] = []
        load = world.node.store.load

        async def count(ids: Any) -> Any:
            asked.append(len(ids))
            return await load(ids)

        world.node.store.load = count  # type: ignore[method-assign]
        await world.advance("2s")
        assert len(stage.fired) == 100
        assert asked == [100]
        for n in range(100):
            assert await world.rows(stage.Bell, f"k{n}") == {"count": 1}


# the file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MarkFile]:
    opened = MarkFile(f"{tmp_path}/o.db")
    yield opened
    opened.close()


def mark_of(key: str = "a", name: str = "alarm") -> RunMark:
    return RunMark(ObjectId("Bell", key), name, 1 << 40, 3, 1_700_000_000_000, 7, 0)


def test_a_mark_is_read_as_it_was_written_also_over_a_longer_one(file: MarkFile) -> None:
    assert file.all() == []
    assert file.set(0, mark_of("a" * 300))
    assert file.set(0, mark_of("b"))
    assert file.set(PLACES - 1, mark_of("é\0", "schedule:x"))
    assert file.all() == [mark_of("b"), mark_of("é\0", "schedule:x")]
    file.wipe(0)
    assert file.all() == [mark_of("é\0", "schedule:x")]
    file.clear()
    assert file.all() == []


def test_one_that_is_too_long_for_its_place_is_refused_and_what_was_there_stays(file: MarkFile) -> None:
    assert file.set(1, mark_of("a"))
    assert not file.set(1, mark_of("a" * PLACE_BYTES))
    assert file.all() == [mark_of("a")]


def test_a_full_disk_refuses_it(file: MarkFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert not file.set(1, mark_of())
    file.wipe(1)


@pytest.mark.parametrize("change", ["cut", "flipped", "other"])
def test_a_place_that_was_being_written_says_nothing(file: MarkFile, tmp_path: Path, change: str) -> None:
    file.set(0, mark_of("a"))
    file.set(1, mark_of("b"))
    path = tmp_path / "o.db-begun"
    data = bytearray(path.read_bytes())
    if change == "cut":
        data[HEAD_BYTES + 5 : PLACE_BYTES] = bytes(PLACE_BYTES - HEAD_BYTES - 5)
    elif change == "flipped":
        data[HEAD_BYTES + 5] ^= 1
    else:
        data[:4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert file.all() == [mark_of("b")]


def test_it_is_nobody_else_s_to_read(file: MarkFile, tmp_path: Path) -> None:
    assert (tmp_path / "o.db-begun").stat().st_mode & 0o777 == 0o600


async def test_without_the_file_each_start_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> MarkFile:
        raise PermissionError("read-only")

    monkeypatch.setattr("wakeful.store.sqlite.store.MarkFile", refuse)
    with staging(f"sqlite:{tmp_path}/o.db") as stage:
        async with stage.world() as world:
            stage.handlers["a"] = write
            await stage.set_alarm(SECOND)
            before = world.node.committer.commits
            await world.advance("2s")
            assert (len(stage.fired), world.node.committer.commits) == (1, before + 2)
