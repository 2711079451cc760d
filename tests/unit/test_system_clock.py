"""Does the real clock notice that it was set?"""

import asyncio
import time

import pytest

from wakeful.system import STEP_MS, SteadyClock, SystemClock


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
