"""The alarm, line by line as the specification says it (conformance-alarms.md), on every store."""

import ast
import asyncio
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import BadTime, NoAlarmHandler
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.values.times import LATEST_MS, from_datetime, to_datetime

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)


def ms(when: datetime) -> int:
    return from_datetime(when)


class Other:
    """A feature's stake in timers called `test:…`."""

    prefix = "test"
    deadline_ms = 60_000

    def __init__(self) -> None:
        self.fired: list[str] = []

    async def fire(self, activation: Any, turn: Any, timer: Timer) -> None:
        self.fired.append(timer.name)

    def retry_delay_ms(self, timer: Timer, roll: float) -> int | None:
        return None


def set_timer(object: Any, name: str, due_at: datetime) -> None:
    """Set a feature's timer in the running turn, as features do."""
    turn = CURRENT.get()
    assert turn is not None
    activation = turn.activation
    at = ms(due_at)
    turn.set_timer(Timer(activation.id, name, at, at, activation.node.next_seq(activation.shard)))


# Setting


async def test_a_future_time_is_kept_to_the_millisecond(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1, milliseconds=123)
        for given in (ms(at), at, at.astimezone(ZoneInfo("Asia/Kolkata")), timedelta(minutes=1, milliseconds=123)):
            await stage.set_alarm(given)
            assert await stage.get_alarm() == at
            [timer] = await world.due()
            assert (timer.name, timer.due_at, timer.nominal_at) == ("alarm", ms(at), ms(at))
        await world.advance(minutes=2)
        assert stage.times() == [at]


async def test_the_alarm_that_get_alarm_returns_is_an_aware_datetime_in_utc(stage: Any) -> None:
    async with stage.world():
        await stage.set_alarm(timedelta(minutes=1))
        assert (await stage.get_alarm()).tzinfo is UTC


async def test_a_fraction_of_a_millisecond_is_dropped(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        for given in (ms(at) + 0.7, at + timedelta(microseconds=999), timedelta(minutes=1, microseconds=700)):
            await stage.set_alarm(given)
            assert await stage.get_alarm() == at


@pytest.mark.parametrize(
    "past", [1, 1.0, datetime(1999, 1, 1, tzinfo=UTC), timedelta(seconds=-5), timedelta(0)], ids=repr
)
async def test_a_past_time_means_now(stage: Any, past: Any) -> None:
    async with stage.world() as world:
        now = world.now()

        async def body(self: Any) -> Any:
            await self.storage.set_alarm(past)
            return await self.storage.get_alarm()

        assert await stage.do(body) == now
        await world.settle()
        assert stage.times() == [now]
        assert stage.infos()[0].scheduled_at == now


@pytest.mark.parametrize(
    "wrong",
    [
        0,
        -1,
        -1.5,
        0.5,
        math.nan,
        math.inf,
        -math.inf,
        "2030-01-01",
        None,
        True,
        False,
        b"1",
        [1],
        datetime(2030, 1, 1),
        datetime(1969, 1, 1, tzinfo=UTC),
        LATEST_MS + 1,
        10**30,
        1e300,
        timedelta.max,
    ],
    ids=repr,
)
async def test_a_wrong_time_is_a_typed_error_and_the_alarm_that_was_set_stays(stage: Any, wrong: Any) -> None:
    async with stage.world() as world:
        await stage.set_alarm(timedelta(minutes=1))
        before = await world.due()

        async def caught(self: Any) -> Any:
            with pytest.raises(BadTime):
                await self.storage.set_alarm(wrong)
            return await self.storage.get_alarm()

        assert await stage.do(caught) == world.now() + timedelta(minutes=1)
        with pytest.raises(BadTime):
            await stage.set_alarm(wrong)
        assert await world.due() == before
        await world.advance(minutes=2)
        assert len(stage.fired) == 1


async def test_the_latest_time_is_named_and_accepted_and_one_millisecond_more_is_not(stage: Any) -> None:
    async with stage.world():
        await stage.set_alarm(LATEST_MS)
        assert await stage.get_alarm() == to_datetime(LATEST_MS)
        with pytest.raises(BadTime, match="9999-01-01"):
            await stage.set_alarm(LATEST_MS + 1)


@pytest.mark.parametrize(("first", "second"), [(60, 10), (10, 60), (10, 10.001)])
async def test_setting_replaces_and_only_the_last_one_fires(stage: Any, first: float, second: float) -> None:
    async with stage.world() as world:
        start = world.now()
        await stage.set_alarm(timedelta(seconds=first))
        await stage.set_alarm(start + timedelta(seconds=second))
        await world.advance(minutes=5)
        assert stage.times() == [start + timedelta(seconds=second)]


async def test_setting_replaces_within_one_turn(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def body(self: Any) -> None:
            for seconds in (50, 10, 30):
                await self.storage.set_alarm(timedelta(seconds=seconds))

        await stage.do(body)
        await world.advance(minutes=5)
        assert stage.times() == [start + 30 * SECOND]


async def test_set_twice_to_the_same_instant_fires_once(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + 10 * SECOND
        await stage.set_alarm(at)
        await stage.set_alarm(at)
        await world.advance(minutes=5)
        assert stage.times() == [at]


async def test_set_again_to_now_while_due_fires_once(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.set_alarm(self.ctx.now())

        await asyncio.gather(*(stage.do(body) for _ in range(5)))
        await world.settle()
        # Each setting is one turn; one that was replaced before its handler began never fires.
        assert 1 <= len(stage.fired) <= 5
        seen = {info.run_id for info in stage.infos()}
        assert len(seen) == len(stage.fired)
        assert await stage.get_alarm() is None


async def test_get_alarm_is_none_before_and_after_it_ran_and_after_delete(stage: Any) -> None:
    async with stage.world() as world:
        assert await stage.get_alarm() is None
        await stage.set_alarm(10 * SECOND)
        assert await stage.get_alarm() is not None
        await world.advance(seconds=11)
        assert len(stage.fired) == 1
        assert await stage.get_alarm() is None
        await stage.set_alarm(10 * SECOND)
        await stage.delete_alarm()
        assert await stage.get_alarm() is None
        await world.advance(minutes=1)
        assert len(stage.fired) == 1
        assert await world.due() == []


async def test_deleting_when_none_is_set_is_fine(stage: Any) -> None:
    async with stage.world() as world:
        await stage.delete_alarm()
        await stage.delete_alarm()
        assert await world.due() == []


async def test_a_set_is_visible_to_the_next_read_in_the_same_turn_before_anything_is_committed(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + 10 * SECOND

        async def body(self: Any) -> list[Any]:
            await self.storage.set_alarm(at)
            seen = [await self.storage.get_alarm(), await self.ctx.get_alarm()]
            assert await world.due() == []
            await self.storage.delete_alarm()
            return [*seen, await self.storage.get_alarm()]

        assert await stage.do(body) == [at, at, None]


async def test_the_alarm_methods_are_on_ctx_too(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> list[Any]:
            await self.ctx.set_alarm(10 * SECOND)
            seen = [await self.ctx.get_alarm(), await self.storage.get_alarm()]
            await self.ctx.delete_alarm()
            return [*seen, await self.storage.get_alarm()]

        at = world.now() + 10 * SECOND
        assert await stage.do(body) == [at, at, None]


async def test_set_alarm_without_an_alarm_method_is_an_error_at_the_call(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.set_alarm(10 * SECOND)

        with pytest.raises(NoAlarmHandler, match="Mute has no `async def alarm"):
            await stage.do(body, cls=stage.Mute)
        assert await world.due() == []


async def test_set_alarm_without_an_alarm_method_is_an_error_in_the_constructor(stage: Any) -> None:
    async with stage.world() as world:
        stage.on_new = lambda self: self.storage.set_alarm(10 * SECOND)

        async def body(self: Any) -> None:
            raise AssertionError("the turn must not run")

        with pytest.raises(NoAlarmHandler):
            await stage.do(body, cls=stage.Mute)
        assert await world.due() == []


async def test_get_and_delete_are_allowed_without_an_alarm_method(stage: Any) -> None:
    async with stage.world():

        async def body(self: Any) -> Any:
            await self.storage.delete_alarm()
            return await self.storage.get_alarm()

        assert await stage.do(body, cls=stage.Mute) is None


async def test_on_wake_sees_the_alarm_whose_firing_woke_the_object(stage: Any) -> None:
    async with stage.world() as world:
        seen: list[Any] = []

        async def wake(self: Any) -> None:
            seen.append(await self.storage.get_alarm())

        stage.on_wake = wake
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.advance(minutes=2)
        assert stage.news == ["a", "a"]
        assert seen == [None, at]
        assert stage.times() == [at]


async def test_setting_in_on_wake_replaces_the_alarm_that_woke_the_object(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.sleep_all()

        async def wake(self: Any) -> None:
            if len(stage.news) == 2:
                await self.storage.set_alarm(at + timedelta(minutes=5))

        stage.on_wake = wake
        await world.advance(minutes=10)
        assert stage.times() == [at + timedelta(minutes=5)]
        assert stage.infos()[0].retry_count == 0


async def test_setting_in_the_constructor_replaces_the_alarm_that_woke_the_object(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.sleep_all()

        def new(self: Any) -> None:
            if len(stage.news) == 2:
                self.storage.set_alarm(at + timedelta(minutes=5))

        stage.on_new = new
        await world.advance(minutes=10)
        assert stage.times() == [at + timedelta(minutes=5)]


async def test_set_only_if_none_in_on_wake_keeps_the_alarm_that_woke_the_object(stage: Any) -> None:
    async with stage.world() as world:

        async def wake(self: Any) -> None:
            if await self.storage.get_alarm() is None:
                await self.storage.set_alarm(timedelta(minutes=1))

        stage.on_wake = wake
        start = world.now()
        assert await stage.get_alarm() == start + timedelta(minutes=1)
        await world.advance(seconds=150)
        # It woke for its alarm, which ran; nothing woke it since, so nothing was set anew.
        assert stage.times() == [start + timedelta(minutes=1)]
        assert await stage.get_alarm() == world.now() + timedelta(minutes=1)


async def test_delete_all_removes_every_key_and_the_alarm(stage: Any) -> None:
    async with stage.world() as world:

        async def fill(self: Any) -> None:
            await self.storage.put_many({str(n): n for n in range(100)})
            await self.storage.set_alarm(10 * SECOND)

        async def wipe(self: Any) -> Any:
            await self.storage.delete_all()
            return await self.storage.get_alarm(), await self.storage.list(), await self.storage.count()

        await stage.do(fill)
        assert await stage.do(wipe) == (None, {}, 0)
        assert await world.rows(stage.Bell, "a") == {}
        await world.advance(minutes=1)
        assert stage.fired == []


async def test_delete_all_with_keep_alarm_keeps_it(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + 10 * SECOND

        async def body(self: Any) -> Any:
            await self.storage.put("x", 1)
            await self.storage.set_alarm(at)
            await self.storage.delete_all(keep_alarm=True)
            return await self.storage.get_alarm()

        assert await stage.do(body) == at
        await world.advance(minutes=1)
        assert stage.times() == [at]
        assert await world.rows(stage.Bell, "a") == {}


async def test_delete_all_never_touches_timers_of_schedules_jobs_and_machines(stage: Any) -> None:
    async with stage.world() as world:
        id = ObjectId("Bell", "a")
        far = ms(world.now() + timedelta(days=1))
        await stage.set_alarm(10 * SECOND)
        timers = [Timer(id, name, far, far, n) for n, name in enumerate(("schedule:s", "job:j", "machine:m"), 1)]
        await world.store.insert(timers, now=ms(world.now()))

        async def wipe(self: Any) -> None:
            await self.storage.delete_all()

        await stage.do(wipe)
        assert [timer.name for timer in await world.due()] == ["schedule:s", "job:j", "machine:m"]


# Firing


async def test_the_constructor_runs_first_then_the_handler(stage: Any) -> None:
    async with stage.world() as world:
        await stage.set_alarm(timedelta(minutes=1))
        await world.sleep_all()
        order: list[str] = []
        stage.on_new = lambda self: order.append("new")

        async def wake(self: Any) -> None:
            order.append("on_wake")

        async def handler(self: Any, info: Any) -> None:
            order.append("alarm")

        stage.on_wake, stage.handlers["a"] = wake, handler
        await world.advance(minutes=2)
        assert order == ["new", "on_wake", "alarm"]


async def test_the_handler_is_told_count_zero_no_retry_and_the_time_that_was_set(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.advance(minutes=2)
        [info] = stage.infos()
        assert (info.retry_count, info.is_retry, info.scheduled_at) == (0, False, at)
        assert info.run_id


async def test_inside_the_handler_get_alarm_is_none(stage: Any) -> None:
    async with stage.world() as world:
        seen: list[Any] = []

        async def handler(self: Any, info: Any) -> None:
            seen.append(await self.storage.get_alarm())

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        assert seen == [None, None]


async def test_inside_the_handler_a_new_alarm_is_seen_and_fires_after_this_handler_ended(stage: Any) -> None:
    async with stage.world() as world:
        seen: list[Any] = []
        order: list[str] = []
        start = world.now()

        async def handler(self: Any, info: Any) -> None:
            order.append("start")
            if len(stage.fired) == 1:
                await self.storage.set_alarm(start + 3 * SECOND)
                seen.append(await self.storage.get_alarm())
                await asyncio.sleep(10)
            order.append("end")

        stage.handlers["a"] = handler
        await stage.set_alarm(start + SECOND)
        await world.advance(minutes=1)
        assert seen == [start + 3 * SECOND]
        assert order == ["start", "end", "start", "end"]
        # Due at 3 s, but the first handler ran until 11 s.
        assert stage.times() == [start + SECOND, start + 11 * SECOND]
        assert stage.infos()[1].scheduled_at == start + 3 * SECOND


@pytest.mark.parametrize("offset", [timedelta(0), -5 * SECOND, MS])
async def test_inside_the_handler_an_alarm_that_is_due_already_fires_after_this_handler(
    stage: Any, offset: timedelta
) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            if len(stage.fired) == 1:
                await self.storage.set_alarm(self.ctx.now() + offset)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=10)
        assert len(stage.fired) == 2
        assert [info.retry_count for info in stage.infos()] == [0, 0]
        assert len({info.run_id for info in stage.infos()}) == 2


async def test_set_then_delete_inside_the_handler_fires_nothing_more(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.set_alarm(SECOND)
            await self.storage.delete_alarm()

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=4)
        assert len(stage.fired) == 1
        assert await world.due() == []


async def test_delete_inside_the_handler_is_harmless(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.delete_alarm()
            await self.storage.put("ran", True)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=4)
        assert len(stage.fired) == 1
        assert await world.rows(stage.Bell, "a") == {"ran": True}
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_delete_all_inside_the_handler_is_harmless(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.delete_all()

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=4)
        assert len(stage.fired) == 1
        assert await world.due() == []


async def test_rearming_at_now_a_thousand_times_runs_a_thousand_times_without_starving_others(stage: Any) -> None:
    async with stage.world() as world:
        running = 0

        async def handler(self: Any, info: Any) -> None:
            nonlocal running
            running += 1
            assert running == 1
            count = await self.storage.get("count", 0) + 1
            await self.storage.put("count", count)
            if count < 1_000:
                await self.storage.set_alarm(self.ctx.now())
            running -= 1

        async def nothing(self: Any) -> int:
            return len(stage.times())

        stage.handlers["a"] = handler
        start = world.now()
        await stage.set_alarm(start + SECOND)
        await stage.set_alarm(start + SECOND, "b")
        await asyncio.sleep(1)
        met = await stage.do(nothing, "c")
        await world.settle()
        assert len(stage.times()) == 1_000
        assert await world.rows(stage.Bell, "a") == {"count": 1_000}
        assert len({info.run_id for info in stage.infos()}) == 1_000
        keys = [key for key, _, _ in stage.fired]
        assert keys.index("b") < 50
        assert met < 500
        assert world.now() == start + SECOND


async def test_one_handler_at_a_time_and_a_slow_one_delays_the_next_which_runs_once(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        spans: list[tuple[datetime, datetime]] = []

        async def handler(self: Any, info: Any) -> None:
            began = self.ctx.now()
            await self.storage.set_alarm(self.ctx.now() + SECOND)
            await asyncio.sleep(30)
            spans.append((began, self.ctx.now()))
            if len(spans) == 3:
                await self.storage.delete_alarm()

        stage.handlers["a"] = handler
        await stage.set_alarm(start + SECOND)
        await world.advance(minutes=5)
        assert spans == [(start + SECOND * (1 + 30 * n), start + SECOND * (31 + 30 * n)) for n in range(3)]


async def test_calls_do_not_interleave_with_a_running_handler(stage: Any) -> None:
    async with stage.world() as world:
        order: list[str] = []

        async def handler(self: Any, info: Any) -> None:
            order.append("handler begins")
            await asyncio.sleep(5)
            order.append("handler ends")

        async def call(self: Any) -> None:
            order.append("call")

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        await stage.do(call)
        assert order == ["handler begins", "handler ends", "call"]


async def test_readers_run_beside_a_running_handler(stage: Any) -> None:
    async with stage.world() as world:
        order: list[str] = []
        start = world.now()

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("x", 2)
            await asyncio.sleep(5)
            order.append("handler ends")

        async def put(self: Any) -> None:
            await self.storage.put("x", 1)

        async def look(self: Any) -> Any:
            order.append("reader")
            return await self.storage.get("x")

        stage.handlers["a"] = handler
        await stage.do(put)
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        assert await stage.peek(look) == 1
        assert world.now() == start + 2 * SECOND
        await world.advance(seconds=10)
        assert order == ["reader", "handler ends"]
        assert await stage.peek(look) == 2


async def test_a_call_that_sets_the_alarm_before_the_waiting_handlers_turn_replaces_it(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def slow(self: Any) -> None:
            await asyncio.sleep(5)

        async def reset(self: Any) -> None:
            await self.storage.set_alarm(start + 60 * SECOND)

        await stage.set_alarm(start + 2 * SECOND)
        first = asyncio.create_task(stage.do(slow))
        await asyncio.sleep(1)
        second = asyncio.create_task(stage.do(reset))  # waits, and was there before the alarm fell due
        await asyncio.gather(first, second)
        await world.advance(minutes=2)
        assert stage.times() == [start + 60 * SECOND]


async def test_a_call_that_sets_the_alarm_after_the_waiting_handler_comes_after_it(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def slow(self: Any) -> None:
            await asyncio.sleep(5)

        async def reset(self: Any) -> None:
            await self.storage.set_alarm(start + 60 * SECOND)

        await stage.set_alarm(start + 2 * SECOND)
        first = asyncio.create_task(stage.do(slow))
        await asyncio.sleep(3)
        second = asyncio.create_task(stage.do(reset))
        await asyncio.gather(first, second)
        await world.advance(minutes=2)
        assert stage.times() == [start + 5 * SECOND, start + 60 * SECOND]


async def test_a_call_that_sets_the_alarm_while_the_handler_runs_comes_after_it(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        seen: list[Any] = []

        async def handler(self: Any, info: Any) -> None:
            await asyncio.sleep(5)
            seen.append(await self.storage.get_alarm())

        async def reset(self: Any) -> None:
            await self.storage.set_alarm(start + 60 * SECOND)

        stage.handlers["a"] = handler
        await stage.set_alarm(start + 2 * SECOND)
        await world.advance(seconds=3)
        await stage.do(reset)
        assert world.now() == start + 7 * SECOND
        await world.advance(minutes=2)
        assert seen == [None, None]
        assert stage.times() == [start + 2 * SECOND, start + 60 * SECOND]


async def test_objects_with_different_due_times_fire_in_due_order(stage: Any) -> None:
    async with stage.world() as world:
        order = [7, 3, 9, 1, 5, 8, 2, 6, 4]
        start = world.now()
        for n in order:
            await stage.set_alarm(start + n * SECOND, f"k{n}")
        await world.advance(minutes=1)
        assert [key for key, _, _ in stage.fired] == [f"k{n}" for n in sorted(order)]
        assert [at for _, _, at in stage.fired] == [start + n * SECOND for n in sorted(order)]


async def test_the_same_due_time_on_many_objects_fires_them_all(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=10)
        await asyncio.gather(*(stage.set_alarm(at, f"k{n}") for n in range(300)))
        await world.advance(minutes=11)
        assert sorted(key for key, _, _ in stage.fired) == sorted(f"k{n}" for n in range(300))
        assert {when for _, _, when in stage.fired} == {at}


async def test_several_timers_of_one_object_run_in_one_activation_by_due_time_then_insertion(stage: Any) -> None:
    async with stage.world() as world:
        other = Other()
        world.node.timer_runs.register(other)
        at = world.now() + timedelta(minutes=1)

        async def body(self: Any) -> None:
            set_timer(self, "test:later", at + MS)
            set_timer(self, "test:second", at)
            set_timer(self, "test:third", at)
            set_timer(self, "test:first", at - MS)

        await stage.do(body)
        await world.sleep_all()
        world.faults.is_down = True  # so that all are due when the node comes back
        await world.crash()
        world.faults.is_down = False
        await world.restart(after="5m")
        world.node.timer_runs.register(other)
        world.node.dispatcher.read_again()
        await world.advance(minutes=1)
        assert other.fired == ["test:first", "test:second", "test:third", "test:later"]
        assert len(stage.news) == 2


async def test_the_alarm_and_other_timers_share_the_order(stage: Any) -> None:
    async with stage.world() as world:
        other = Other()
        world.node.timer_runs.register(other)
        start = world.now()

        async def handler(self: Any, info: Any) -> None:
            other.fired.append("alarm")

        stage.handlers["a"] = handler

        async def body(self: Any) -> None:
            set_timer(self, "test:after", start + 3 * SECOND)
            await self.storage.set_alarm(start + 2 * SECOND)
            set_timer(self, "test:before", start + SECOND)
            set_timer(self, "test:same", start + 2 * SECOND)

        await stage.do(body)
        await world.advance(minutes=1)
        assert other.fired == ["test:before", "alarm", "test:same", "test:after"]


async def test_due_while_the_node_was_down_fires_at_once_on_start_once_with_its_original_time(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.crash()
        await world.restart(after="3m")
        await world.settle()
        assert stage.times() == [at + timedelta(minutes=2)]
        [info] = stage.infos()
        assert (info.scheduled_at, info.retry_count) == (at, 0)
        await world.advance(minutes=10)
        assert len(stage.fired) == 1
        [run] = await world.ledger(stage.Bell, "a")
        assert run.lateness == timedelta(minutes=2)


async def test_an_object_that_sleeps_is_woken_by_its_alarm(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)
        await world.advance(seconds=11)
        assert not world.node.awake
        await world.advance(minutes=1)
        assert stage.news == ["a", "a"]
        assert stage.times() == [at]


async def test_an_object_whose_alarm_is_far_stays_asleep(stage: Any) -> None:
    async with stage.world() as world:
        await stage.set_alarm(timedelta(minutes=15))
        await world.advance(minutes=14)
        assert stage.news == ["a"]
        assert not world.node.awake
        await world.advance(minutes=2)
        assert stage.news == ["a", "a"]


# Failing


async def fail_always(self: Any, info: Any) -> None:
    raise ValueError("no luck")


def check_backoff(stage: Any, attempts: int) -> None:
    """Each retry came 2, 4, … s after the failure before, plus at most a quarter."""
    times = stage.times()[-attempts:]
    for n, (before, after) in enumerate(pairwise(times)):
        assert 2 * 2**n * SECOND <= after - before <= 2.5 * 2**n * SECOND


async def test_a_handler_that_raises_is_tried_six_more_times_at_doubling_intervals(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(minutes=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 2, 3, 4, 5, 6]
        assert [info.is_retry for info in stage.infos()] == [False] + [True] * 6
        assert {info.scheduled_at for info in stage.infos()} == {at}
        assert len({info.run_id for info in stage.infos()}) == 1
        check_backoff(stage, 7)
        ledger = await world.ledger(stage.Bell, "a")
        assert [(run.attempt, run.verdict) for run in ledger] == [(n, "failed") for n in range(7)]
        assert all("no luck" in run.error for run in ledger)


async def test_the_interval_counts_from_the_end_of_the_failed_attempt_and_is_jittered(stage: Any) -> None:
    async with stage.world() as world:
        ends: list[datetime] = []

        async def slow_failure(self: Any, info: Any) -> None:
            await asyncio.sleep(100)
            ends.append(self.ctx.now())
            raise ValueError

        for key in ("a", "b", "c", "d"):
            stage.handlers[key] = slow_failure
            await stage.set_alarm(SECOND, key)
        await world.advance(seconds=150)
        gaps = [stage.times(key)[1] - stage.times(key)[0] - 100 * SECOND for key in ("a", "b", "c", "d")]
        assert all(2 * SECOND <= gap <= 2.5 * SECOND for gap in gaps)
        assert len(set(gaps)) > 1


async def test_after_the_last_retry_it_is_parked_with_its_error_and_history(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(minutes=4)
        [parked] = await world.parked()
        assert (parked.timer.name, parked.reason, parked.attempts) == ("alarm", "failed", 7)
        assert parked.timer.nominal_at == ms(at)
        assert parked.run_id == stage.infos()[0].run_id
        assert parked.error == "ValueError: no luck"
        assert "fail_always" in parked.traceback
        assert await world.due() == []
        assert await stage.get_alarm() is None
        await world.advance(minutes=10)
        assert len(stage.fired) == 7
        assert len(await world.parked()) == 1


async def test_during_the_wait_for_a_retry_get_alarm_returns_the_failing_alarms_time(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert len(stage.fired) == 1
        assert await stage.get_alarm() == at
        await world.sleep_all()
        assert await stage.get_alarm() == at


@pytest.mark.parametrize("interruption", ["sleep", "crash", "restart"])
async def test_a_retry_survives_sleep_crash_and_restart_with_its_count(stage: Any, interruption: str) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        for _ in range(20):
            seen = len(stage.fired)
            while len(stage.fired) == seen and seen < 7:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            await world.settle()
            if interruption == "sleep":
                await world.sleep_all()
            elif interruption == "crash":
                await world.crash()
                await world.restart()
            else:
                await world.restart()
        assert [info.retry_count for info in stage.infos()] == list(range(7))
        assert {info.scheduled_at for info in stage.infos()} == {at}
        check_backoff(stage, 7)
        assert len(await world.parked()) == 1


async def test_a_call_that_sets_the_alarm_during_the_wait_for_a_retry_replaces_it(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        stage.handlers["a"] = fail_always
        await stage.set_alarm(start + SECOND)
        await world.advance(seconds=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1]
        del stage.handlers["a"]
        await stage.set_alarm(start + 60 * SECOND)
        await world.advance(minutes=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 0]
        assert stage.times()[-1] == stage.infos()[-1].scheduled_at == start + 60 * SECOND
        assert stage.infos()[-1].run_id != stage.infos()[0].run_id


async def test_a_call_that_deletes_the_alarm_during_the_wait_for_a_retry_ends_it(stage: Any) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = fail_always
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        await stage.delete_alarm()
        assert await stage.get_alarm() is None
        await world.advance(minutes=4)
        assert len(stage.fired) == 1
        assert await world.parked() == []


async def test_a_handler_that_set_a_new_alarm_and_then_raised_keeps_the_retry_and_nothing_else(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("wrote", info.retry_count)
            await self.storage.set_alarm(timedelta(days=1))
            if info.retry_count < 2:
                raise ValueError("after setting")

        stage.handlers["a"] = handler
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert await stage.get_alarm() == at
        assert await world.rows(stage.Bell, "a") == {}
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 2]
        assert await world.rows(stage.Bell, "a") == {"wrote": 2}
        assert await stage.get_alarm() == stage.times()[-1] + timedelta(days=1)


async def test_a_handler_that_deleted_its_alarm_and_then_raised_is_retried(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.delete_alarm()
            if not info.is_retry:
                raise ValueError("after deleting")

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1]


async def test_a_handler_that_succeeds_after_retries_clears_the_count(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            if info.retry_count < 3:
                raise ValueError
            await self.storage.set_alarm(timedelta(minutes=5))

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=7)
        assert [info.retry_count for info in stage.infos()][:5] == [0, 1, 2, 3, 0]
        ledger = await world.ledger(stage.Bell, "a")
        assert [run.verdict for run in ledger][:5] == ["failed", "failed", "failed", "run", "failed"]


@pytest.mark.parametrize(
    "text", ["nul \0 inside", "lone \ud800 surrogate", "🙂 " * 5_000, ""], ids=["nul", "surrogate", "long", "empty"]
)
async def test_a_failure_with_any_text_is_written_down_retried_and_parked(stage: Any, text: str) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            raise ValueError(text)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=4)
        assert len(stage.fired) == 7
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["failed"] * 7
        assert len(await world.parked()) == 1


async def test_a_crash_during_the_handler_is_tried_again_at_once_without_being_counted(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("ran", len(stage.fired))
            if len(stage.fired) == 1:
                await asyncio.sleep(60)

        stage.handlers["a"] = handler
        await stage.set_alarm(at)
        await world.advance(seconds=5)
        await world.crash()
        assert await world.rows(stage.Bell, "a") == {}
        await world.restart()
        await world.settle()
        assert [info.retry_count for info in stage.infos()] == [0, 0]
        assert {info.scheduled_at for info in stage.infos()} == {at}
        assert len({info.run_id for info in stage.infos()}) == 1
        assert stage.times()[1] == world.now()
        assert await world.rows(stage.Bell, "a") == {"ran": 2}
        assert await world.due() == []


async def test_a_handler_that_kills_its_process_three_times_is_parked(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            world.kill()

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for life in range(1, 4):
            await world.advance(minutes=1)
            assert len(stage.fired) == life
            await world.restart()
        await world.advance(minutes=10)
        assert [info.retry_count for info in stage.infos()] == [0, 0, 0]
        [parked] = await world.parked()
        assert (parked.reason, parked.timer.name) == ("crashed", "alarm")
        assert "died 3 times" in parked.error
        assert await stage.get_alarm() is None


async def test_innocents_that_ran_beside_a_killer_are_not_parked(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def killer(self: Any, info: Any) -> None:
            await asyncio.sleep(3)
            world.kill()

        async def innocent(self: Any, info: Any) -> None:
            await asyncio.sleep(5)
            await self.storage.put("done", True)

        stage.handlers["killer"] = killer
        await stage.set_alarm(at, "killer")
        for n in range(5):
            stage.handlers[f"innocent-{n}"] = innocent
            await stage.set_alarm(at, f"innocent-{n}")
        for _ in range(12):
            await world.advance(seconds=40)
            await world.restart()
        await world.advance(minutes=2)
        assert [parked.timer.id.key for parked in await world.parked()] == ["killer"]
        for n in range(5):
            assert await world.rows(stage.Bell, f"innocent-{n}") == {"done": True}
        assert len(stage.times("killer")) == 3


async def test_a_handler_cancelled_because_the_node_stops_is_not_counted_and_runs_again(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("x", 1)
            if len(stage.fired) < 6:
                await asyncio.sleep(600)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        for life in range(1, 6):
            assert len(stage.fired) == life
            await world.restart()
            await world.settle()
        assert [info.retry_count for info in stage.infos()] == [0] * 6
        assert await world.parked() == []
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_a_store_that_goes_away_during_the_handler_is_not_counted(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("ran", len(stage.fired))
            if len(stage.fired) < 6:
                world.faults.is_down = True

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for life in range(1, 6):
            await world.advance(minutes=1)
            assert len(stage.fired) == life  # and no more while the store is away
            world.faults.is_down = False
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0] * 6
        assert len({info.run_id for info in stage.infos()}) == 1
        assert await world.parked() == []
        assert await world.rows(stage.Bell, "a") == {"ran": 6}
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_an_unavailable_object_called_by_the_handler_is_not_counted_and_backs_off(stage: Any) -> None:
    from wakeful.values.errors import Unavailable

    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            if len(stage.fired) < 12:
                raise Unavailable("the one it called is moving")

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=5)
        assert [info.retry_count for info in stage.infos()] == [0] * 12
        gaps = [after - before for before, after in pairwise(stage.times())]
        assert gaps[0] < SECOND
        assert gaps[-1] > 3 * SECOND
        assert await world.parked() == []


# Every line of the specification, and the tests that hold it. `LATER` names what other issues build.

SETTING = {
    "kept to the millisecond, get_alarm() returns it": [
        "test_a_future_time_is_kept_to_the_millisecond",
        "test_the_alarm_that_get_alarm_returns_is_an_aware_datetime_in_utc",
        "test_the_alarm_methods_are_on_ctx_too",
    ],
    "a fraction of a millisecond is dropped": ["test_a_fraction_of_a_millisecond_is_dropped"],
    "a past time means now": ["test_a_past_time_means_now"],
    "zero, negative, NaN, infinite, text, None, bool, naive: typed errors, the alarm stays": [
        "test_a_wrong_time_is_a_typed_error_and_the_alarm_that_was_set_stays"
    ],
    "the latest accepted time is named": ["test_the_latest_time_is_named_and_accepted_and_one_millisecond_more_is_not"],
    "setting replaces, only the last fires": [
        "test_setting_replaces_and_only_the_last_one_fires",
        "test_setting_replaces_within_one_turn",
    ],
    "set twice to the same instant fires once": [
        "test_set_twice_to_the_same_instant_fires_once",
        "test_set_again_to_now_while_due_fires_once",
    ],
    "get_alarm() is None before, after it ran, after delete": [
        "test_get_alarm_is_none_before_and_after_it_ran_and_after_delete"
    ],
    "deleting when none is set is fine": ["test_deleting_when_none_is_set_is_fine"],
    "a set is visible to the next read in the same turn": [
        "test_a_set_is_visible_to_the_next_read_in_the_same_turn_before_anything_is_committed"
    ],
    "set_alarm without an alarm method is an error, also in the constructor; get and delete are allowed": [
        "test_set_alarm_without_an_alarm_method_is_an_error_at_the_call",
        "test_set_alarm_without_an_alarm_method_is_an_error_in_the_constructor",
        "test_get_and_delete_are_allowed_without_an_alarm_method",
    ],
    "in the constructor or on_wake get_alarm() sees the alarm that woke it; setting replaces it": [
        "test_on_wake_sees_the_alarm_whose_firing_woke_the_object",
        "test_setting_in_on_wake_replaces_the_alarm_that_woke_the_object",
        "test_setting_in_the_constructor_replaces_the_alarm_that_woke_the_object",
        "test_set_only_if_none_in_on_wake_keeps_the_alarm_that_woke_the_object",
    ],
    "delete_all() removes keys and alarm; keep_alarm keeps it; other timers are never touched": [
        "test_delete_all_removes_every_key_and_the_alarm",
        "test_delete_all_with_keep_alarm_keeps_it",
        "test_delete_all_never_touches_timers_of_schedules_jobs_and_machines",
    ],
}

FIRING = {
    "the constructor first, then the handler; its info": [
        "test_the_constructor_runs_first_then_the_handler",
        "test_the_handler_is_told_count_zero_no_retry_and_the_time_that_was_set",
    ],
    "inside the handler get_alarm() is None; a new one fires after this handler, also when due; set then delete": [
        "test_inside_the_handler_get_alarm_is_none",
        "test_inside_the_handler_a_new_alarm_is_seen_and_fires_after_this_handler_ended",
        "test_inside_the_handler_an_alarm_that_is_due_already_fires_after_this_handler",
        "test_set_then_delete_inside_the_handler_fires_nothing_more",
        "test_delete_inside_the_handler_is_harmless",
        "test_delete_all_inside_the_handler_is_harmless",
    ],
    "re-arming at now a thousand times": [
        "test_rearming_at_now_a_thousand_times_runs_a_thousand_times_without_starving_others"
    ],
    "one handler at a time; a slow one delays the next": [
        "test_one_handler_at_a_time_and_a_slow_one_delays_the_next_which_runs_once"
    ],
    "calls do not interleave with a handler; readers run beside it": [
        "test_calls_do_not_interleave_with_a_running_handler",
        "test_readers_run_beside_a_running_handler",
    ],
    "a call that sets the alarm is before or after the handler, never in the middle": [
        "test_a_call_that_sets_the_alarm_before_the_waiting_handlers_turn_replaces_it",
        "test_a_call_that_sets_the_alarm_after_the_waiting_handler_comes_after_it",
        "test_a_call_that_sets_the_alarm_while_the_handler_runs_comes_after_it",
    ],
    "due order; same due time all fire; several timers of one object": [
        "test_objects_with_different_due_times_fire_in_due_order",
        "test_the_same_due_time_on_many_objects_fires_them_all",
        "test_several_timers_of_one_object_run_in_one_activation_by_due_time_then_insertion",
        "test_the_alarm_and_other_timers_share_the_order",
    ],
    "due while the node was down": [
        "test_due_while_the_node_was_down_fires_at_once_on_start_once_with_its_original_time"
    ],
    "a sleeping object is woken by its alarm; one whose alarm is far stays asleep": [
        "test_an_object_that_sleeps_is_woken_by_its_alarm",
        "test_an_object_whose_alarm_is_far_stays_asleep",
    ],
}

FAILING = {
    "tried again 2, 4, … 64 s after, jittered, count 1 to 6, same scheduled_at; then parked": [
        "test_a_handler_that_raises_is_tried_six_more_times_at_doubling_intervals",
        "test_the_interval_counts_from_the_end_of_the_failed_attempt_and_is_jittered",
        "test_after_the_last_retry_it_is_parked_with_its_error_and_history",
        "test_a_failure_with_any_text_is_written_down_retried_and_parked",
    ],
    "get_alarm() during the wait; the retry survives sleep, crash and restart": [
        "test_during_the_wait_for_a_retry_get_alarm_returns_the_failing_alarms_time",
        "test_a_retry_survives_sleep_crash_and_restart_with_its_count",
    ],
    "a call during the wait replaces or ends it": [
        "test_a_call_that_sets_the_alarm_during_the_wait_for_a_retry_replaces_it",
        "test_a_call_that_deletes_the_alarm_during_the_wait_for_a_retry_ends_it",
    ],
    "a handler that set a new alarm and raised: the retry stands": [
        "test_a_handler_that_set_a_new_alarm_and_then_raised_keeps_the_retry_and_nothing_else",
        "test_a_handler_that_deleted_its_alarm_and_then_raised_is_retried",
    ],
    "success after retries clears the count": ["test_a_handler_that_succeeds_after_retries_clears_the_count"],
    "a crash is tried again at once, not counted; three kills park": [
        "test_a_crash_during_the_handler_is_tried_again_at_once_without_being_counted",
        "test_a_handler_that_kills_its_process_three_times_is_parked",
        "test_innocents_that_ran_beside_a_killer_are_not_parked",
    ],
    "node stops: not counted; store unreachable: not counted, backs off": [
        "test_a_handler_cancelled_because_the_node_stops_is_not_counted_and_runs_again",
        "test_a_store_that_goes_away_during_the_handler_is_not_counted",
        "test_an_unavailable_object_called_by_the_handler_is_not_counted_and_backs_off",
    ],
}

TRANSACTIONS = {
    "alarm and keys commit and roll back together": [
        "test_alarm_and_keys_commit_together",
        "test_a_rolled_back_set_leaves_the_alarm_that_was_there",
        "test_a_rolled_back_delete_leaves_the_alarm_that_was_there",
    ],
    "transaction() is a savepoint, nested ones too": [
        "test_raising_inside_a_transaction_and_catching_outside_drops_only_its_writes",
        "test_nested_transactions_are_savepoints_too",
    ],
    "an un-awaited write that fails to encode fails the turn": [
        "test_an_unawaited_write_that_fails_to_encode_fails_the_turn"
    ],
    "values are copied when stored and when read": ["test_values_are_copied_when_stored_and_when_read"],
}

LISTING = {
    "order by UTF-8 bytes; start, start_after, end, prefix, reverse, limit": [
        "test_order_is_by_the_keys_utf8_bytes",
        "test_start_is_inclusive_and_start_after_exclusive_and_both_together_an_error",
        "test_end_is_exclusive",
        "test_prefix_combines_with_every_other_option",
        "test_empty_and_inverted_ranges_give_nothing",
        "test_reverse_walks_the_same_range_from_its_end",
        "test_limit_must_be_positive",
        "test_every_combination_of_list_options_agrees_with_a_naive_listing",
    ],
    "odd keys work, one byte too long is an error; get, delete and delete_many answers": [
        "test_odd_keys_and_the_longest_key_work",
        "test_one_byte_longer_is_an_error",
        "test_get_of_a_missing_key_gives_the_default",
        "test_delete_says_whether_it_was_there_and_delete_many_how_many",
    ],
    "listing shows the turn's own puts and hides its deletes, across pages, limit and reverse": [
        "test_listing_in_a_turn_shows_its_own_puts_and_hides_its_deletes"
    ],
    "5,000 keys in one put_many are one atomic write": ["test_five_thousand_keys_in_one_put_many_are_one_atomic_write"],
}

SLEEP = {
    "idle 9 s the same instance, idle 11 s a new one; calls, turns and transactions keep it awake": [
        "test_idle_for_nine_seconds_is_the_same_instance",
        "test_idle_for_eleven_seconds_is_a_new_instance_with_its_storage",
        "test_a_call_in_flight_keeps_it_awake",
        "test_a_running_turn_keeps_it_awake",
        "test_an_open_transaction_keeps_it_awake",
    ],
    "a constructor or on_wake that raises": [
        "test_a_constructor_that_raises_gives_the_caller_that_error_and_the_object_stays_asleep",
        "test_on_wake_that_raises_gives_the_caller_that_error_and_undoes_its_writes",
        "test_the_next_call_tries_to_wake_it_again",
        "test_a_due_alarm_counts_a_failed_wake_as_a_failure_of_the_handler",
    ],
}

LATER = {
    "in compat.workers writes before the raise are kept": "the issue that builds wakeful.compat",
}

SPECIFICATION = {
    "test_alarms.py": {**SETTING, **FIRING, **FAILING},
    "test_transactions.py": TRANSACTIONS,
    "test_storage.py": LISTING,
    "test_sleep.py": SLEEP,
}


def test_every_line_of_the_specification_has_its_tests() -> None:
    folder = Path(__file__).parent
    for file, lines in SPECIFICATION.items():
        tree = ast.parse((folder / file).read_text())
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)}
        for line, tests in lines.items():
            missing = [name for name in tests if name not in there]
            assert tests, f"{line}: no test"
            assert not missing, f"{line}: {file} has no {missing}"
        if file == "test_alarms.py":
            named = {name for tests in lines.values() for name in tests} | {
                "test_every_line_of_the_specification_has_its_tests"
            }
            assert {name for name in there if name.startswith("test_")} == named
