"""A node that is held up says so itself, and blames neither the store for it nor itself for a slow store."""

import asyncio
import logging
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.unit.counting_cells import cells
from tests.unit.test_shards_lost import said
from wakeful.policy.lease import LEASE_MS
from wakeful.runtime.standstill import BEAT_MS, Standstill
from wakeful.runtime.status import status_of
from wakeful.testing import World
from wakeful.testing.faults import Lag
from wakeful.testing.members import Member

STALL_MS = 900  # each shorter than what is called a standstill
GAP_MS = 2
TRIP_MS = 2 * STALL_MS  # a connection, the question, its answer: each waits until the loop gets to it


async def starve(world: World, member: Member, stalls: int) -> None:
    """Its loop is blocked again and again, and what takes a moment takes several of its turns."""
    member.faults.lag = lambda verb: Lag("late", TRIP_MS)
    for _ in range(stalls):
        member.freeze()
        await world.advance(milliseconds=STALL_MS)
        member.thaw()
        await world.advance(milliseconds=GAP_MS)
    member.faults.lag = None


async def test_a_node_whose_loop_is_starved_blames_itself_and_not_the_store(caplog: pytest.LogCaptureFixture) -> None:
    """Many short stalls, each of them nothing to speak of: the store answered each time at once."""
    caplog.set_level(logging.WARNING, "wakeful")
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        assert member.node is not None
        await starve(world, member, stalls=12)
        await world.advance(seconds=3)
        assert member.node.membership.lapses
        assert not said(caplog, "store.slow")
        slow, renewed = said(caplog, "node.slow")
        assert "the event loop of this process was held up for " in slow
        assert re.search(r"for up to 0\.[789] s at once", slow)
        assert "asyncio.to_thread" in slow
        assert "renewed" in renewed
        for line in said(caplog, "shard.fenced"):
            assert "was held up for" in line
        assert not said(caplog, "node.paused")
        held = status_of(member.node)["held_up"]
        assert held is not None
        assert held["longest_ms"] <= STALL_MS
        assert held["for_ms"] <= LEASE_MS


async def test_a_store_that_does_not_answer_is_still_to_blame(caplog: pytest.LogCaptureFixture) -> None:
    """Also when the process was held up for a second of it: that is said beside it."""
    caplog.set_level(logging.WARNING, "wakeful")
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        await world.advance(seconds=2)
        member.freeze()
        await world.advance(milliseconds=1_500)
        member.thaw()
        member.stall()
        await world.advance(milliseconds=LEASE_MS)
        member.go_on()
        await world.advance(seconds=2)
        assert not said(caplog, "node.slow")
        slow, _ = said(caplog, "store.slow")
        assert slow.startswith("the store did not renew the lease in time")
        assert "not at the database" not in slow


async def test_a_store_that_is_slow_long_after_a_pause_is_not_forgiven_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "wakeful")
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        member.freeze()
        await world.advance(milliseconds=2_000)
        member.thaw()
        await world.advance(seconds=30)
        member.stall()
        await world.advance(milliseconds=LEASE_MS + 500)
        member.go_on()
        await world.advance(seconds=2)
        assert not said(caplog, "node.slow")
        slow, _ = said(caplog, "store.slow")
        assert slow == "the store did not renew the lease in time: what it must prove waits until the store answers"


async def test_a_loop_whose_turns_are_long_is_held_up_though_no_beat_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat that falls due just as a turn of the loop ends is on time, and yet whoever is ready waits for a whole turn."""
    time_s = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time_s[0])
    beats: list[Callable[[], object]] = []
    clock = SimpleNamespace(now=lambda: 0, call_at=lambda at, beat: beats.append(beat) or SimpleNamespace(cancel=int))
    standstill = Standstill(clock, 5_000)
    standstill.start()
    for _ in range(3):
        time_s[0] += BEAT_MS / 1000
        beats.pop()()
        time_s[0] += 0.4  # what else was ready
        await asyncio.sleep(0)
    assert standstill.held_up(LEASE_MS) == {"for_ms": 1_200, "longest_ms": 400, "within_ms": LEASE_MS}
    assert standstill.held_up(1_000) == {"for_ms": 750, "longest_ms": 400, "within_ms": 1_000}
    assert standstill.stood() is None
    standstill.stop()


async def test_of_several_pauses_the_longest_of_an_hour_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor put a lease that was lost by half a minute down to a pause of a second."""
    time_s = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time_s[0])
    clock = SimpleNamespace(now=lambda: 0, call_at=lambda at, beat: SimpleNamespace(cancel=int))
    standstill = Standstill(clock, 5_000)
    for pause_s in (34.6, 1.4):
        standstill.start()
        time_s[0] += BEAT_MS / 1000 + pause_s
        standstill.stop()
    assert standstill.stood() == {"for_ms": 1_400, "ago_ms": 0}
    assert standstill.longest_ms() == 34_600
    time_s[0] += 3_700
    assert standstill.longest_ms() == 0


async def test_when_the_longest_pause_is_an_hour_old_the_next_longest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was forgotten together with it."""
    time_s = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time_s[0])
    clock = SimpleNamespace(now=lambda: 0, call_at=lambda at, beat: SimpleNamespace(cancel=int))
    standstill = Standstill(clock, 5_000)
    found = []
    for pause_s in (30.0, 5.0, 8.0, 2.0):
        standstill.start()
        time_s[0] += BEAT_MS / 1000 + pause_s
        standstill.stop()
        found.append(standstill.longest_ms())
        time_s[0] += 1_200
    time_s[0] -= 1_200
    assert found == [30_000] * 3 + [8_000]
    time_s[0] += 2_500
    assert standstill.longest_ms() == 2_000
    time_s[0] += 1_200
    assert standstill.longest_ms() == 0
