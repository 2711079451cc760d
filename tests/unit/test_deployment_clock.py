"""A node follows the store's clock: measured, doubted when it jumps, believed again when two measurements agree."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from wakeful.runtime.deployment_clock import GRAIN_MS, SAMPLES_AT_START, FollowedClock
from wakeful.values.errors import StoreDown


class OwnClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = 1_000_000
        self.called: list[int] = []
        self.watchers: list[Callable[[int], object]] = []

    def now(self) -> int:
        return self.at

    def call_at(self, at_ms: int, callback: Any) -> Any:
        self.called.append(at_ms)

    async def sleep(self, length_ms: int) -> None:
        self.at += length_ms

    def watch(self, stepped: Callable[[int], object]) -> Any:
        self.watchers.append(stepped)
        return self

    def cancel(self) -> None:
        self.watchers.clear()

    def set(self, by_ms: int) -> None:
        self.at += by_ms
        for stepped in self.watchers:
            stepped(by_ms)


class Store:
    """Its clock is so far ahead of the own one, and each question takes a while."""

    def __init__(self, own: OwnClock, ahead_ms: int | None = 0, trip_ms: int = 0) -> None:
        self._own = own
        self.ahead_ms = ahead_ms
        self.trip_ms = trip_ms
        self.is_down = False
        self.asked = 0

    async def time(self) -> int | None:
        self.asked += 1
        if self.is_down:
            raise StoreDown("away")
        if self.ahead_ms is None:
            return None
        self._own.at += self.trip_ms // 2
        there = self._own.at + self.ahead_ms
        self._own.at += self.trip_ms - self.trip_ms // 2
        return there


async def started(ahead_ms: int | None = 0, trip_ms: int = 0) -> tuple[OwnClock, Any, FollowedClock]:
    own = OwnClock()
    store: Any = Store(own, ahead_ms, trip_ms)
    clock = FollowedClock(own)
    await clock.start(store)
    return own, store, clock


async def test_it_tells_the_store_s_time_and_waits_by_it() -> None:
    own, store, clock = await started(ahead_ms=5_000, trip_ms=10)
    assert store.asked == SAMPLES_AT_START
    assert clock.now() == own.now() + 5_000
    assert clock.error_ms == 5 + GRAIN_MS
    clock.call_at(clock.now() + 70, lambda: None)
    assert own.called == [own.now() + 70]


async def test_a_store_without_a_clock_leaves_the_machine_s_own() -> None:
    own, store, clock = await started(ahead_ms=None)
    await clock.follow(store)
    assert clock.now() == own.now()
    assert clock.doubt is None


async def test_a_large_offset_at_the_start_is_believed_and_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "wakeful.clock")
    _, _, clock = await started(ahead_ms=-90_000)
    assert clock.doubt is None
    assert "90000 ms ahead of the database's" in caplog.text


async def test_a_small_drift_is_followed_without_doubt() -> None:
    own, store, clock = await started()
    for _ in range(100):
        own.at += 1_500
        store.ahead_ms -= 15
        await clock.follow(store)
        assert clock.doubt is None
        assert abs(clock.now() - own.now() - store.ahead_ms) <= clock.error_ms


async def test_a_jump_is_doubted_until_a_second_measurement_agrees() -> None:
    own, store, clock = await started()
    heard: list[int] = []
    clock.watch(heard.append)
    own.at += 1_500
    store.ahead_ms = 60_000
    await clock.follow(store)
    assert clock.doubt is not None
    assert "60000 ms" in clock.doubt
    assert clock.now() == own.now()  # nothing is believed yet
    own.at += 300
    await clock.follow(store)
    assert clock.doubt is None
    assert clock.now() == own.now() + 60_000
    assert heard == [60_000]


async def test_a_clock_that_goes_wrong_all_the_time_is_doubted_all_the_time() -> None:
    own, store, clock = await started()
    for number in range(50):
        own.at += 300 if number else 1_500
        store.ahead_ms -= 90 if number else 450
        await clock.follow(store)
        assert clock.doubt is not None
    own.at += 300
    await clock.follow(store)
    assert clock.doubt is None
    assert clock.now() == own.now() + store.ahead_ms


async def test_setting_the_own_clock_moves_nothing() -> None:
    own, store, clock = await started(ahead_ms=700)
    heard: list[int] = []
    watch = clock.watch(heard.append)
    before = clock.now()
    own.set(3_600_000)
    store.ahead_ms -= 3_600_000
    assert clock.now() == before
    own.at += 1_500
    await clock.follow(store)
    assert clock.doubt is None
    assert clock.now() == before + 1_500
    assert heard == []
    watch.cancel()
    assert own.watchers == []


@pytest.mark.parametrize("sample", [0, 1])
@pytest.mark.parametrize("by_ms", [700, -700])
async def test_setting_it_while_the_store_is_asked_moves_nothing_either(sample: int, by_ms: int) -> None:
    own, store, clock = await started(ahead_ms=5_000, trip_ms=4)
    clock.watch(lambda by: None)
    asked, ask = store.asked, store.time

    async def time() -> int | None:
        there: int | None = await ask()
        if store.asked == asked + sample + 1:
            own.set(by_ms)
            store.ahead_ms -= by_ms
        return there

    store.time = time
    own.at += 1_500
    await clock.follow(store)
    assert clock.doubt is None
    assert clock.now() == own.now() + 5_000 - by_ms
    own.at += 1_500
    await clock.follow(store)
    assert clock.doubt is None
    assert clock.now() == own.now() + 5_000 - by_ms


async def test_a_store_that_can_t_be_asked_leaves_doubt() -> None:
    own, store, clock = await started()
    store.is_down = True
    with pytest.raises(StoreDown):
        await clock.follow(store)
    assert clock.doubt is not None
    assert "can't be read" in clock.doubt
    store.is_down = False
    own.at += 300
    await clock.follow(store)
    assert clock.doubt is None


async def test_a_clock_says_for_how_long_it_went_by_an_old_measurement() -> None:
    own, store, clock = await started()
    own.at += 1_500
    assert clock.unmeasured_ms == 1_500
    await clock.follow(store)
    own.at += 400
    assert clock.unmeasured_ms == 1_500, "what was decided a moment ago was decided by the one before"
    await clock.follow(store)
    assert clock.unmeasured_ms == 400
