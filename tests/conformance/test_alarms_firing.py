"""The alarm fires, line by line as the specification says it (conformance-alarms.md), on every store."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.acts import MS, SECOND, Owner, ms
from wakeful.runtime.turn import CURRENT
from wakeful.values.timers import Timer


def set_timer(name: str, due_at: datetime) -> None:
    """Set a feature's timer in the running turn, as features do."""
    turn = CURRENT.get()
    assert turn is not None
    activation = turn.activation
    at = ms(due_at)
    turn.set_timer(Timer(activation.id, name, at, at, activation.node.next_seq(activation.shard)))


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
        other = Owner()
        world.node.timer_runs.register(other)
        at = world.now() + timedelta(minutes=1)

        async def body(self: Any) -> None:
            set_timer("test:later", at + MS)
            set_timer("test:second", at)
            set_timer("test:third", at)
            set_timer("test:first", at - MS)

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
        other = Owner()
        world.node.timer_runs.register(other)
        start = world.now()

        async def handler(self: Any, info: Any) -> None:
            other.fired.append("alarm")

        stage.handlers["a"] = handler

        async def body(self: Any) -> None:
            set_timer("test:after", start + 3 * SECOND)
            await self.storage.set_alarm(start + 2 * SECOND)
            set_timer("test:before", start + SECOND)
            set_timer("test:same", start + 2 * SECOND)

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
