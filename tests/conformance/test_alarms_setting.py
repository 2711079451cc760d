"""Setting the alarm, line by line as the specification says it (conformance-alarms.md), on every store."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.conformance.acts import SECOND, ms
from wakeful.values.errors import BadTime, NoAlarmHandler
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.values.times import LATEST_MS, to_datetime


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
