"""Timers beyond the alarm: unknown classes, other owners, more than memory holds; on every store."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Owner, set_timers
from wakeful import Limits
from wakeful.runtime.registry import Registry
from wakeful.values.errors import (
    UnknownClass,
)


async def test_timers_of_an_unknown_class_stay_and_are_reported_and_run_once_a_node_knows_the_class(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        await stage.set_alarm(at)
        await stage.set_alarm(at, "b")
        await world.crash()
        known, stage.app.deployment.registry = stage.app.deployment.registry, Registry()
        with caplog.at_level(logging.WARNING, "wakeful"):
            await world.restart(after="1m")
            await world.advance(minutes=11)
        assert stage.fired == []
        reports = [record for record in caplog.records if getattr(record, "code", "") == "timer.unknown"]
        assert len(reports) == 1
        assert "knows no class 'Bell'" in reports[0].getMessage()
        assert world.node.dispatcher.unknown == {"Bell"}
        assert len(await world.due()) == 2
        assert await world.store.known_classes() == ["Bell"]
        with pytest.raises(UnknownClass):
            world.get(stage.Bell, "a")
        await world.crash()
        stage.app.deployment.registry = known
        await world.restart()
        await world.advance(seconds=1)
        assert sorted(key for key, _, _ in stage.fired) == ["a", "b"]
        assert {info.scheduled_at for _, info, _ in stage.fired} == {at}


async def test_timers_that_no_feature_here_owns_stay_too(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(set_timers(world, ("test:x", SECOND)))
        await world.advance(minutes=1)
        assert [timer.name for timer in await world.due()] == ["test:x"]
        assert world.node.dispatcher.unknown == {"test"}
        owner = Owner()
        await world.crash()
        await world.restart()
        world.node.timer_runs.register(owner)
        world.node.dispatcher.read_again()
        await world.advance(minutes=6)
        assert owner.fired == ["test:x"]
        assert await world.due() == []


async def test_several_due_timers_of_one_object_run_in_one_activation_in_order_each_a_turn(stage: Any) -> None:
    async with stage.world() as world:
        owner = Owner()
        owner.fails = {"test:1"}
        names = [(f"test:{n}", timedelta(seconds=10 + n // 2)) for n in (4, 1, 0, 3, 2, 5)]
        await stage.do(set_timers(world, *names))
        await world.crash()
        await world.restart(after="1m")
        world.node.timer_runs.register(owner)
        world.node.dispatcher.read_again()
        await world.advance(seconds=1)
        # By due time, then in the order in which they were set.
        assert owner.fired == ["test:1", "test:0", "test:3", "test:2", "test:4", "test:5"]
        assert stage.news == ["a", "a"]
        assert sorted(await world.rows(stage.Bell, "a")) == ["test:0", "test:2", "test:3", "test:4", "test:5"]
        assert [parked.timer.name for parked in await world.parked()] == ["test:1"]


async def test_more_due_timers_than_memory_holds_all_fire_in_order(stage: Any) -> None:
    for near in (1, 2, 10):
        async with stage.world(limits=Limits(near_timers=near)) as world:
            stage.fired.clear()
            start = world.now()
            for n in range(25):
                await stage.set_alarm(start + timedelta(seconds=1 + (n * 7) % 25), f"{near}-{n}")
            assert len(world.node.queue) <= max(near, 1)
            await world.advance(seconds=30)
            assert [at for _, _, at in stage.fired] == [start + timedelta(seconds=1 + n) for n in range(25)]
