"""However many requests come at once, a pass of the event loop stays short, and nobody waits behind all of another's."""

import asyncio

import pytest

from tests.yardstick import PATIENCE_S
from wakeful import App
from wakeful.http.asks import Room
from wakeful.http.pace import ABOUT_S, CROWD_MAX, HEALTH, STARTS_MAX, YOUNG_S, Admission, Begun
from wakeful.http.problems import Problem
from wakeful.policy.shares import Asker, Shares
from wakeful.security.crowd import Crowding
from wakeful.values.errors import TooMany, Unavailable

ONE = Asker("one")


def paced(starts_max: int, **options: int) -> Admission:
    return Admission(Crowding(App().deployment), starts_max, **options)


async def begun(pace: Admission, asker: Asker = ONE) -> Begun:
    found = pace.take(asker)
    return found if isinstance(found, Begun) else await pace.turn(found)


async def test_only_so_many_begin_in_one_pass_of_the_loop() -> None:
    pace = paced(4)
    passes, began = 0, list[int]()

    async def request() -> None:
        await begun(pace)
        began.append(passes)

    tasks = [asyncio.ensure_future(request()) for _ in range(50)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        passes += 1
    counts = [began.count(number) for number in range(passes + 1)]
    assert max(counts) <= 2 * 4  # those that are let in, and those that come when there is room
    assert sum(counts) == 50


async def test_they_begin_in_the_order_in_which_they_came() -> None:
    pace, began = paced(2), list[int]()

    async def request(number: int) -> None:
        await begun(pace)
        began.append(number)

    await asyncio.gather(*(request(number) for number in range(20)))
    assert began == sorted(began)


async def test_one_that_gives_up_does_not_hold_up_the_others() -> None:
    pace = paced(1)
    assert isinstance(pace.take(ONE), Begun)
    first, second = pace.take(ONE), pace.take(ONE)
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    first.cancel()
    await asyncio.wait_for(second, PATIENCE_S)


async def test_one_that_gives_up_when_it_may_begin_leaves_nothing_behind() -> None:
    pace = paced(1)
    pace.end(await begun(pace))
    tasks = [asyncio.ensure_future(begun(pace)) for _ in range(2)]
    while not pace._houses or len(pace._waiting):
        await asyncio.sleep(0)
        if len(pace._waiting) == 0:
            tasks[1].cancel()  # its future says go, and it has not heard of it
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            pace.end(task.result())
    assert pace._houses == {}
    assert pace._places.taken == 0


async def test_no_more_are_young_than_may_go_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # None gets old meanwhile, also where the machine stands still for a moment.
    monkeypatch.setattr("wakeful.http.pace.YOUNG_S", 3_600.0)
    pace, under_way, most = paced(50, young_max=10), 0, 0

    async def request() -> None:
        nonlocal under_way, most
        one = await begun(pace)
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        pace.end(one)

    await asyncio.gather(*(request() for _ in range(100)))
    assert most <= 10
    assert under_way == 0


async def test_those_that_take_long_do_not_hold_up_the_others() -> None:
    pace, over = paced(50, young_max=2), asyncio.Event()

    async def slow() -> None:
        one = await begun(pace)
        await over.wait()
        pace.end(one)

    tasks = [asyncio.ensure_future(slow()) for _ in range(8)]
    async with asyncio.timeout(60 * YOUNG_S):
        while sum(pace._young.values()) or pace._waiting:  # until all have begun, and none is young
            await asyncio.sleep(YOUNG_S)
            pace._room(asyncio.get_running_loop().time())
    over.set()
    await asyncio.gather(*tasks)
    assert pace.is_at_rest


async def test_too_many_that_wait_are_refused() -> None:
    pace = paced(1, waiting_max=1)
    assert isinstance(pace.take(ONE), Begun)
    assert isinstance(pace.take(ONE), asyncio.Future)
    with pytest.raises(Unavailable, match="all 1 places for requests that wait"):
        pace.take(ONE)
    assert pace.is_full


async def test_one_whose_requests_wait_leaves_places_to_wait_for_others() -> None:
    pace = paced(1, waiting_max=64)
    for _ in range(1 + 42):  # one begins, and seven eighths of seven eighths of those that are for all wait
        pace.take(ONE)
    with pytest.raises(TooMany, match="of 64 places for requests that wait") as caught:
        pace.take(ONE)
    assert caught.value.code == "server.share"
    assert isinstance(pace.take(Asker("two")), asyncio.Future)
    assert isinstance(pace.take(Asker("three")), asyncio.Future)


async def test_one_of_another_begins_before_the_many_that_wait() -> None:
    async with App().world():
        pace, began = paced(STARTS_MAX), list[str]()

        async def request(house: str) -> None:
            one = await begun(pace, Asker(house))
            began.append(house)
            await asyncio.sleep(0.005)
            pace.end(one)

        tasks = [asyncio.ensure_future(request("one")) for _ in range(500)]
        for _ in range(5):
            await asyncio.sleep(0)
        ahead = len(began)
        await asyncio.gather(request("two"))
        assert began[:ahead].count("two") == 0
        assert began.index("two") <= ahead + 2 * STARTS_MAX
        await asyncio.gather(*tasks)


async def test_while_others_are_about_few_of_one_are_fresh_and_all_when_they_are_gone() -> None:
    async with App().world() as world:
        pace = paced(STARTS_MAX)
        most, under_way = 0, 0

        async def request() -> None:
            nonlocal most, under_way
            one = await begun(pace)
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.005)
            under_way -= 1
            pace.end(one)

        pace.end(await begun(pace, Asker("two")))
        pace.end(await begun(pace, Asker(HEALTH)))
        await asyncio.gather(*(request() for _ in range(200)))
        assert most == CROWD_MAX
        await world.advance(seconds=2 * ABOUT_S)
        pace.end(await begun(pace, Asker(HEALTH)))  # a probe is nobody
        most = 0
        await asyncio.gather(*(request() for _ in range(200)))
        assert most > 2 * CROWD_MAX


async def test_calls_that_wait_long_begin_also_while_others_are_about() -> None:
    async with App().world():
        pace, over = paced(STARTS_MAX), asyncio.Event()
        loop = asyncio.get_running_loop()

        async def slow() -> None:
            one = await begun(pace)
            await over.wait()
            pace.end(one)

        pace.end(await begun(pace, Asker("two")))
        tasks = [asyncio.ensure_future(slow()) for _ in range(300)]
        began_s = loop.time()
        for _ in range(200):
            if len(pace._houses.get("one", ())) == 300:
                break
            await asyncio.sleep(0.005)
        assert len(pace._houses["one"]) == 300
        assert loop.time() - began_s <= 1.0
        at_s = loop.time()
        pace.end(await asyncio.wait_for(begun(pace, Asker("two")), PATIENCE_S))
        assert loop.time() - at_s < YOUNG_S  # and they are in nobody's way
        over.set()
        await asyncio.gather(*tasks)
        assert pace._houses == {}


async def test_a_quiet_server_does_nothing() -> None:
    pace = paced(2)
    pace.take(ONE)
    for _ in range(4):
        await asyncio.sleep(0)
    assert pace.is_at_rest


def test_bodies_that_come_in_part_share_a_bound() -> None:
    room, two = Room(Shares(100, few=60), Crowding(App().deployment)), Asker("two")
    room.take(ONE, 60)
    with pytest.raises(TooMany, match="bytes of bodies"):
        room.take(ONE, 30)
    with pytest.raises(Problem, match="too much"):
        room.take(two, 60)
    room.give(ONE, 60)
    room.take(two, 60)
