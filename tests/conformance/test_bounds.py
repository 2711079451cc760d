"""Bounds of a node, and the classes it takes; on every store."""

import asyncio
from typing import Any

from tests.conformance.acts import SECOND, add_one, sleep
from wakeful import AlarmInfo, Context, DurableObject, Limits, Unavailable

# Bounds


async def test_the_least_recently_used_object_sleeps_first_when_too_many_are_awake(stage: Any) -> None:
    async with stage.world(limits=Limits(awake_objects=3)) as world:
        for key in "abc":
            await stage.do(add_one, key)
        await stage.do(add_one, "a")
        await stage.do(add_one, "d")
        assert sorted(id.key for id in world.node.awake) == ["a", "c", "d"]
        assert await stage.do(add_one, "b") == 2
        assert sorted(id.key for id in world.node.awake) == ["a", "b", "d"]


async def test_busy_objects_stay_awake_and_the_bound_holds_again_when_they_are_done(stage: Any) -> None:
    async with stage.world(limits=Limits(awake_objects=3)) as world:
        tasks = [asyncio.create_task(stage.do(sleep(1), f"k{n}")) for n in range(8)]
        await world.settle()
        assert len(world.node.awake) == 8
        assert await asyncio.gather(*tasks) == ["slept"] * 8
        await world.settle()
        assert len(world.node.awake) <= 3


async def test_no_more_turns_run_at_once_than_the_limit_says(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=2)) as world:
        running = most = 0

        async def body(self: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1

        async def handler(self: Any, info: AlarmInfo) -> None:
            await body(self)

        start = world.now()
        for n in range(4):
            stage.handlers[f"k{n}"] = handler
            await stage.set_alarm(start + SECOND, f"k{n}")
        await asyncio.sleep(1)
        await asyncio.gather(*(stage.do(body, f"k{n}") for n in range(8)))
        await world.advance(seconds=30)
        assert len(stage.fired) == 4
        assert most == 2


async def test_nested_calls_do_not_deadlock_at_the_limit(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        def tell(key: str) -> Any:
            async def body(self: Any) -> str:
                await asyncio.sleep(1)
                return await self.ctx.get(stage.Bell, key).do(stage.act(sleep(1)))

            return body

        results = await asyncio.gather(
            stage.do(tell("x"), "a"), stage.do(tell("x"), "b"), stage.do(tell("c"), "c2"), stage.do(tell("y"), "d")
        )
        assert results == ["slept"] * 4
        assert world.now() <= start + 10 * SECOND


async def test_a_nested_call_behind_one_that_waits_for_a_slot_does_not_deadlock(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        async def tell(self: Any) -> str:
            await asyncio.sleep(2)
            return await self.ctx.get(stage.Bell, "b").do(stage.act(sleep(1)))

        first = asyncio.create_task(stage.do(tell, "a"))  # holds the only slot
        await asyncio.sleep(1)
        second = asyncio.create_task(stage.do(sleep(1), "b"))  # has b's turn, waits for the slot
        third = asyncio.create_task(stage.do(sleep(1), "b"))
        assert await asyncio.gather(first, second, third) == ["slept"] * 3
        assert world.now() <= start + 10 * SECOND


async def test_a_nested_call_behind_a_due_alarm_that_waits_for_a_slot_does_not_deadlock(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        async def tell(self: Any) -> str:
            await asyncio.sleep(2)
            return await self.ctx.get(stage.Bell, "b").do(stage.act(sleep(1)))

        await stage.set_alarm(start + SECOND, "b")
        assert await stage.do(tell, "a") == "slept"
        assert world.now() <= start + 10 * SECOND
        assert len(stage.fired) == 1


async def test_a_full_mailbox_tells_callers_to_back_off(stage: Any) -> None:
    async with stage.world(limits=Limits(mailbox=3)) as world:
        tasks = [asyncio.create_task(stage.do(sleep(1))) for _ in range(6)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[:4] == ["slept"] * 4
        assert all(isinstance(result, Unavailable) for result in results[4:])
        assert "back off" in str(results[4])
        assert await stage.do(add_one) == 1
        assert len(await world.rows(stage.Bell, "a")) == 1


# Classes


class Plain:
    """No base class."""

    made = 0

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.woken = False
        Plain.made += 1

    async def on_wake(self) -> None:
        self.woken = True

    async def add(self) -> int:
        assert self.woken
        await self.ctx.set_alarm(SECOND)
        return await add_one(self.ctx)

    async def alarm(self) -> None:
        await self.ctx.storage.put("rang", self.ctx.run is not None)


async def test_a_plain_class_without_the_base_class_works_the_same(stage: Any) -> None:
    stage.app.object(Plain)
    async with stage.world() as world:
        plain = world.get(Plain, "p")
        assert await plain.add() == 1
        await world.sleep_all()
        assert await plain.add() == 2
        await world.advance(seconds=2)
        assert await world.rows(Plain, "p") == {"count": 2, "rang": True}


async def test_on_wake_runs_once_before_the_first_turn_of_each_activation(stage: Any) -> None:
    async with stage.world() as world:
        order: list[str] = []

        async def wake(self: Any) -> None:
            order.append("wake begins")
            await asyncio.sleep(1)
            order.append("wake ends")

        def turn(name: str) -> Any:
            async def body(self: Any) -> None:
                order.append(name)

            return body

        stage.on_wake = wake
        await asyncio.gather(stage.do(turn("one")), stage.do(turn("two")), stage.peek(turn("reader")))
        assert order[:2] == ["wake begins", "wake ends"]
        assert sorted(order[2:]) == ["one", "reader", "two"]
        await world.sleep_all()
        await stage.do(turn("three"))
        assert order[5:] == ["wake begins", "wake ends", "three"]


async def test_ctx_knows_its_object_the_time_and_the_run(stage: Any) -> None:
    async with stage.world() as world:
        seen: list[Any] = []

        async def handler(self: Any, info: AlarmInfo) -> None:
            run = self.ctx.run
            seen.append((run.id, run.name, run.attempt, run.nominal_at, run.verdict))
            assert run.id == info.run_id

        async def body(self: Any) -> list[Any]:
            assert self.ctx.run is None
            self.ctx.log.info("hello")
            return [tuple(self.ctx.id), self.ctx.cls, self.ctx.key, self.ctx.now()]

        stage.handlers["a"] = handler
        assert await stage.do(body) == [("Bell", "a"), "Bell", "a", world.now()]
        at = world.now() + SECOND
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert [(name, attempt, nominal) for _, name, attempt, nominal, _ in seen] == [("alarm", 0, at)]


async def test_arguments_and_answers_are_copies(stage: Any) -> None:
    class Keeper(DurableObject):
        async def swap(self, value: list[int]) -> list[int]:
            value.append(2)
            self.value = value
            return value

        async def look(self) -> list[int]:
            return self.value

    stage.app.object(Keeper)
    async with stage.world() as world:
        given = [1]
        keeper = world.get(Keeper, "k")
        answer = await keeper.swap(given)
        answer.append(3)
        assert given == [1]
        assert await keeper.look() == [1, 2]
