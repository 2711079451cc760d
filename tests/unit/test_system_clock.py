"""Does the real clock notice that it was set, and is real chance real?"""

import asyncio
import subprocess
import sys
import time

import pytest

from wakeful.system import STEP_MS, SteadyClock, SystemClock, SystemDice


async def test_a_clock_that_is_set_says_by_how_much_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    real, ahead = time.time_ns, [0]
    monkeypatch.setattr("wakeful.system.time.time_ns", lambda: real() + ahead[0] * 1_000_000)
    watch = SystemClock().watch(told.append)
    try:
        watch._look()  # type: ignore[attr-defined]
        assert told == []
        ahead[0] = 3_600_000
        watch._look()  # type: ignore[attr-defined]
        watch._look()  # type: ignore[attr-defined]
        assert len(told) == 1
        assert abs(told[0] - 3_600_000) < STEP_MS
        ahead[0] = 0
        watch._look()  # type: ignore[attr-defined]
        assert len(told) == 2
        assert abs(told[1] + 3_600_000) < STEP_MS
        ahead[0] = STEP_MS // 10  # a slewed clock is not a set one
        watch._look()  # type: ignore[attr-defined]
        assert len(told) == 2
    finally:
        watch.cancel()


async def test_a_steady_clock_is_not_moved_by_setting_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock.now()
    assert abs(before - time.time_ns() // 1_000_000) < STEP_MS
    real = time.time
    monkeypatch.setattr("wakeful.system.time.time", lambda: real() + 3_600)
    assert 0 <= clock.now() - before < STEP_MS
    rang: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    at = clock.now() + 5
    clock.call_at(at, lambda: rang.set_result(clock.now()))
    assert at <= await rang < at + STEP_MS
    clock.watch(lambda by_ms: None).cancel()


def test_dice_roll_anew_each_time() -> None:
    dice = SystemDice()
    rolls = [dice.random() for _ in range(2_000)]  # drawn several hundred at a time
    assert len(set(rolls)) == len(rolls)
    assert 0 <= min(rolls) < 0.01 < 0.99 < max(rolls) < 1


FORKED = """
import os
from wakeful.system import SystemDice
dice = SystemDice()
dice.random()
child = os.fork()
if child:
    os.waitpid(child, 0)  # one after the other, or their lines may meet
print(dice.random(), flush=True)
"""


def test_parent_and_forked_child_roll_differently() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.split()
    assert first != second
