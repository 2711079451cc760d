"""However many requests come at once, a pass of the event loop stays short."""

import asyncio

import pytest

from wakeful.http.api import Pace
from wakeful.http.asks import Room
from wakeful.http.problems import Problem


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
    await asyncio.wait_for(second, 1)


async def test_a_quiet_server_does_nothing() -> None:
    pace = Pace(2)
    pace.take()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pace.is_at_rest


def test_bodies_that_come_in_part_share_a_bound() -> None:
    room = Room(100)
    room.take(60)
    with pytest.raises(Problem, match="too much"):
        room.take(60)
    room.give(60)
    room.take(100)
