"""However many requests come at once, a pass of the event loop stays short."""

import asyncio

import pytest

from wakeful.http.asks import Room
from wakeful.http.pace import YOUNG_S, Pace
from wakeful.http.problems import Problem
from yardstick import PATIENCE_S


async def test_only_so_many_begin_in_one_pass_of_the_loop() -> None:
    pace = Pace(4)
    passes, began = 0, list[int]()

    async def request() -> None:
        wait = pace.take()
        if wait is not None:
            await wait
        began.append(passes)

    tasks = [asyncio.ensure_future(request()) for _ in range(50)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        passes += 1
    counts = [began.count(number) for number in range(passes + 1)]
    assert max(counts) <= 2 * 4  # those that are let in, and those that come when there is room
    assert sum(counts) == 50


async def test_they_begin_in_the_order_in_which_they_came() -> None:
    pace, began = Pace(2), list[int]()

    async def request(number: int) -> None:
        wait = pace.take()
        if wait is not None:
            await wait
        began.append(number)

    await asyncio.gather(*(request(number) for number in range(20)))
    assert began == sorted(began)


async def test_one_that_gives_up_does_not_hold_up_the_others() -> None:
    pace = Pace(1)
    assert pace.take() is None
    first, second = pace.take(), pace.take()
    assert first is not None
    assert second is not None
    first.cancel()
    await asyncio.wait_for(second, PATIENCE_S)


async def test_no_more_are_young_than_may_go_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # None gets old meanwhile, also where the machine stands still for a moment.
    monkeypatch.setattr("wakeful.http.pace.YOUNG_S", 3_600.0)
    pace, under_way, most = Pace(50, young_max=10), 0, 0

    async def request() -> None:
        nonlocal under_way, most
        wait = pace.take()
        if wait is not None:
            await wait
        mark = pace.began()
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        pace.ended(mark)

    await asyncio.gather(*(request() for _ in range(100)))
    assert most <= 10
    assert under_way == 0


async def test_those_that_take_long_do_not_hold_up_the_others() -> None:
    pace, over = Pace(50, young_max=2), asyncio.Event()

    async def slow() -> None:
        wait = pace.take()
        if wait is not None:
            await wait
        mark = pace.began()
        await over.wait()
        pace.ended(mark)

    tasks = [asyncio.ensure_future(slow()) for _ in range(8)]
    async with asyncio.timeout(60 * YOUNG_S):
        while sum(pace._young.values()) or pace._waiting:  # until all have begun, and none is young
            await asyncio.sleep(YOUNG_S)
            pace._room()
    over.set()
    await asyncio.gather(*tasks)
    assert pace.is_at_rest


async def test_too_many_that_wait_are_refused() -> None:
    pace = Pace(1, waiting_max=1)
    assert pace.take() is None
    assert pace.take() is not None
    with pytest.raises(Problem, match="more requests wait"):
        pace.take()


async def test_a_quiet_server_does_nothing() -> None:
    pace = Pace(2)
    pace.take()
    for _ in range(4):
        await asyncio.sleep(0)
    assert pace.is_at_rest


def test_bodies_that_come_in_part_share_a_bound() -> None:
    room = Room(100)
    room.take(60)
    with pytest.raises(Problem, match="too much"):
        room.take(60)
    room.give(60)
    room.take(100)
