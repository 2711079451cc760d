"""Does the real clock notice that it was set?"""

import time

import pytest

from wakeful.system import STEP_MS, SystemClock


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
