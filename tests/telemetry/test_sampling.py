"""Which traces are recorded, and what is looked at now and then."""

import asyncio

import pytest

from wakeful import App
from wakeful.telemetry import samples as module
from wakeful.telemetry.samples import sampling
from wakeful.telemetry.spans import Sampler


def test_the_first_of_a_second_and_then_one_in_so_many() -> None:
    now, rolls = [0.0], iter([0.5, 0.005, 0.5, 0.5])
    sampler = Sampler(0.01, budget=2, dice=lambda: next(rolls), now_s=lambda: now[0])
    assert [sampler.begins() for _ in range(5)] == [True, True, False, True, False]
    now[0] = 1.0
    assert [sampler.begins() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("is_sampled", [True, False])
def test_a_parent_s_decision_is_kept(is_sampled: bool) -> None:
    assert Sampler(0.0).goes_on(is_sampled=is_sampled) is is_sampled
    assert Sampler(1.0, follows=False).goes_on(is_sampled=is_sampled) is True


async def test_rows_and_lag_are_measured_while_the_block_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAG_S", 0.001)
    app = App()
    async with app.run("memory:") as node, sampling(app.deployment), sampling(app.deployment):
        while node.meter.lag.count < 3:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.001)
        assert {labels for labels, _ in node.meter.stored.items()} == {("parked",), ("timers",), ("objects",)}
        tasks = [task for task in asyncio.all_tasks() if "_measure_lag" in repr(task)]
        assert len(tasks) == 1  # twice is once
    assert not [task for task in asyncio.all_tasks() if "_measure_lag" in repr(task)]


async def test_a_store_that_is_away_leaves_the_numbers_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    from wakeful.values.errors import StoreDown

    app = App()
    async with app.run("memory:") as node:
        node.meter.stored.of("parked").set(7)

        async def count(*what: object, **more: object) -> int:
            raise StoreDown("on purpose")

        monkeypatch.setattr(node.store, "count", count)
        async with sampling(app.deployment):
            for _ in range(5):
                await asyncio.sleep(0)
        assert node.meter.stored.of("parked").value == 7
