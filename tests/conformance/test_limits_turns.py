"""Limits on concurrent turns, slow start, and fairness between tenants; on every store."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from tests.conformance.acts import SECOND, sleep
from wakeful import AlarmInfo, Limits
from wakeful.values.ids import tenant_of


class Meter:
    """An alarm's handler that takes a while, and counts how many run at once."""

    def __init__(self, seconds: float = 1) -> None:
        self.seconds = seconds
        self.running = 0
        self.most = 0
        self.begun: list[str] = []

    async def __call__(self, bell: Any, info: AlarmInfo) -> None:
        self.begun.append(bell.ctx.key)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1


async def arm(stage: Any, meter: Meter, keys: Iterable[str], at: Any) -> None:
    """Give all of them an alarm, one millisecond after another so that their order is known."""

    async def one(index: int, key: str) -> None:
        stage.handlers[key] = meter
        await stage.set_alarm(at + index * SECOND / 1_000, key)

    for index, key in enumerate(keys):
        await one(index, key)


@pytest.mark.parametrize(
    "limits",
    [
        {"concurrent_turns": 3},
        {"class_turns": 3},
        {"tenant_turns": 3},
        {"turns_of": {"Bell": 3}},
        {"class_turns": 7, "turns_of": {"Bell": 3}},
    ],
    ids=["node", "class", "tenant", "turns_of", "turns_of instead of class"],
)
async def test_a_limit_of_3_with_10_due_more_than_one_at_once_and_never_more_than_3(stage: Any, limits: Any) -> None:
    async with stage.world(limits=Limits(**limits)) as world:
        meter = Meter()
        start = world.now()
        await arm(stage, meter, [f"acme/{n}" for n in range(10)], start + 10 * SECOND)
        await world.advance(seconds=60)
        assert len(stage.fired) == 10
        assert meter.most == 3
        assert len(await world.due()) == 0


async def test_a_bound_of_one_class_or_tenant_does_not_slow_others(stage: Any) -> None:
    async with stage.world(limits=Limits(tenant_turns=1)) as world:
        meter = Meter()
        start = world.now()
        await arm(stage, meter, ["acme/1", "acme/2", "acme/3", "b", "c"], start + 10 * SECOND)
        await world.advance(seconds=10.5)
        assert sorted(meter.begun) == ["acme/1", "b", "c"]
        await world.advance(seconds=10)
        assert meter.begun[3:] == ["acme/2", "acme/3"]


async def test_slow_start_grows_from_its_initial_value_to_the_limit_and_never_above(stage: Any) -> None:
    meter = Meter()
    limits = Limits(concurrent_turns=20, slow_start_turns=2, slow_start_ms=36_000)
    async with stage.world(limits=limits) as world:
        start = world.now()
        await arm(stage, meter, [f"k{n}" for n in range(400)], start + SECOND)
        await world.crash()
        await world.restart(after="1h")
        at_once = []
        for _ in range(60):
            meter.most = meter.running
            await world.advance(seconds=1)
            at_once.append(meter.most)
        assert at_once[0] in (2, 3)
        assert all(later >= earlier for earlier, later in pairwise(at_once[:36]))
        assert max(at_once) == 20
        assert 10 <= at_once[18] <= 12
        assert len({key for key, _, _ in stage.fired}) == 400
        assert not world.node.slow_start.is_on


async def test_slow_start_off_means_full_at_once(stage: Any) -> None:
    meter = Meter()
    async with stage.world(limits=Limits(concurrent_turns=20, slow_start_turns=0, slow_start_ms=0)) as world:
        start = world.now()
        await arm(stage, meter, [f"k{n}" for n in range(60)], start + SECOND)
        await world.crash()
        await world.restart(after="1h")
        assert meter.running == 20
        await world.advance(seconds=10)
        assert meter.most == 20
        assert len(stage.fired) == 60


# Fairness


async def test_a_tenant_with_one_due_timer_runs_among_the_first_though_another_has_hundreds_before_it(
    stage: Any,
) -> None:
    async with stage.world(limits=Limits(concurrent_turns=2)) as world:
        meter = Meter(0.1)
        start = world.now()
        await arm(stage, meter, [f"a/{n}" for n in range(300)], start + 10 * SECOND)
        await arm(stage, meter, ["b/1", "c"], start + 11 * SECOND)
        await world.crash()
        await world.restart(after="1m")
        await world.advance(seconds=60)
        assert len(meter.begun) == 302
        assert meter.begun.index("b/1") < 20
        assert meter.begun.index("c") < 20
        of_a = [key for key in meter.begun if tenant_of(key) == "a"]
        assert of_a == [f"a/{n}" for n in range(300)]  # in order of their due times all the same


async def test_a_tenant_is_found_behind_more_than_memory_may_hold_of_another(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=2, near_timers=40)) as world:
        meter = Meter(0.1)
        start = world.now()
        await arm(stage, meter, [f"a/{n}" for n in range(300)], start + 10 * SECOND)
        await arm(stage, meter, ["b/1"], start + 11 * SECOND)
        await world.crash()
        await world.restart(after="1m")
        held = 0
        for _ in range(60):
            await world.advance(seconds=1)
            queue = world.node.queue
            held = max(held, len(queue) + len(queue.lines))
        assert len(meter.begun) == len(stage.fired) == 301
        assert meter.begun.index("b/1") < 30
        of_a = [key for key in meter.begun if tenant_of(key) == "a"]
        assert of_a == [f"a/{n}" for n in range(300)]
        assert held <= 2 * 40 + 20
        assert not world.node.queue.lines.behind


async def test_calls_of_a_tenant_do_not_wait_behind_all_of_anothers(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=2)) as world:
        start = world.now()
        many = [asyncio.create_task(stage.do(sleep(1), f"a/{n}")) for n in range(20)]
        await world.settle()
        assert await stage.do(sleep(1), "b/1") == "slept"
        assert world.now() <= start + 3 * SECOND
        assert await asyncio.gather(*many) == ["slept"] * 20


async def test_several_tenants_with_much_due_get_the_same(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=3)) as world:
        meter = Meter(0.1)
        start = world.now()
        for index, tenant in enumerate("abc"):
            await arm(stage, meter, [f"{tenant}/{n}" for n in range(60)], start + (10 + index) * SECOND)
        await world.crash()
        await world.restart(after="1m")
        await world.advance(seconds=60)
        assert len(meter.begun) == 180
        half = [tenant_of(key) for key in meter.begun[:90]]
        assert all(20 <= half.count(tenant) <= 40 for tenant in "abc"), half
