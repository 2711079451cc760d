"""An overloaded node: due timers wait and lose nothing, calls are answered, and everybody can see it; on every store."""

import asyncio
import logging
from typing import Any

import pytest

from tests.conformance.acts import SECOND, add_one
from wakeful import App, Limits
from wakeful.runtime.status import status_of
from wakeful.values.errors import BadOption


class Load:
    """What the program answers when it is asked."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        return self.answer


async def test_overloaded_dispatch_waits_rechecks_by_the_clock_and_then_all_run(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    load = Load()
    stage.restock(overloaded=load)
    caplog.set_level(logging.WARNING)
    async with stage.world() as world:
        start = world.now()
        for n in range(10):
            await stage.set_alarm(start + 10 * SECOND, f"k{n}")
        load.answer = "the queue of the mail server is full"
        await world.advance(minutes=1)
        assert stage.fired == []
        overload = world.node.overload
        assert (overload.is_on, overload.episodes, overload.why) == (True, 1, "the queue of the mail server is full")
        status = status_of(world.node)["overload"]
        assert status["is_on"]
        assert status["since_at"] == int((start + 10 * SECOND).timestamp() * 1000)
        assert status["why"] == overload.why
        assert [record.code for record in caplog.records if "overloaded" in record.message] == ["node.overload"]  # type: ignore[attr-defined]
        assert await stage.do(add_one, "other") == 1  # calls are answered
        load.answer = None
        await world.advance(seconds=1)
        assert sorted(key for key, _, _ in stage.fired) == sorted(f"k{n}" for n in range(10))
        assert not overload.is_on
        assert 49_000 <= overload.paused_ms <= 51_000
        asked = load.asked
        await world.advance(minutes=10)
        assert load.asked == asked  # nobody is asked while there is nothing to do
        assert status_of(world.node)["overload"]["since_at"] is None


async def test_flapping_overload_loses_none(stage: Any) -> None:
    load = Load()
    stage.restock(overloaded=load, limits=Limits(concurrent_turns=2))
    async with stage.world() as world:
        start = world.now()
        for n in range(40):
            await stage.set_alarm(start + (10 + n // 4) * SECOND, f"k{n}")
        await world.advance(seconds=9)
        for step in range(30):
            load.answer = step % 2 == 0
            await world.advance(seconds=0.7)
        load.answer = False
        await world.advance(seconds=10)
        assert sorted(key for key, _, _ in stage.fired) == sorted(f"k{n}" for n in range(40))
        assert world.node.overload.episodes > 3
        assert await world.due() == []


async def test_it_stays_overloaded_over_a_crash_only_as_long_as_the_program_says_so(stage: Any) -> None:
    load = Load()
    stage.restock(overloaded=load)
    async with stage.world() as world:
        await stage.set_alarm(world.now() + SECOND)
        load.answer = True
        await world.advance(seconds=5)
        await world.crash()
        await world.restart(after="1m")
        await world.advance(seconds=5)
        assert stage.fired == []
        assert world.node.overload.is_on
        load.answer = False
        await world.advance(seconds=1)
        assert len(stage.fired) == 1


async def test_a_question_that_raises_counts_as_no_and_is_told_once(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> bool:
        raise ValueError("no such metric")

    stage.restock(overloaded=broken)
    async with stage.world() as world:
        for n in range(3):
            await stage.set_alarm(world.now() + (n + 1) * SECOND, f"k{n}")
        await world.advance(seconds=10)
        assert len(stage.fired) == 3
    assert sum("overloaded() raised" in record.message for record in caplog.records) == 1


async def test_an_event_loop_that_is_late_again_and_again_is_overloaded_once_is_a_hiccup(stage: Any) -> None:
    async with stage.world(limits=Limits(overload_lag_ms=1_000)) as world:
        overload = world.node.overload
        start = world.now()

        async def busy(self: Any, info: Any) -> None:
            await asyncio.sleep(30)

        stage.handlers["long"] = busy
        await stage.set_alarm(start + SECOND, "long")
        await world.advance(seconds=1.1)
        assert len(stage.fired) == 1
        # Setting the clock ahead makes what was asked for come late, as a loop that is kept busy does.
        await world.step_clock(2 * SECOND)
        await world.advance(seconds=0.1)
        await world.advance(seconds=0.3)
        assert not overload.is_on
        assert overload.episodes == 0


@pytest.mark.sources_only("it swaps Committer.backlog, which is asked directly by what was compiled with it")
async def test_a_store_that_does_not_keep_up_is_overload(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.world() as world:
        overload = world.node.overload
        backlog = 5_000
        monkeypatch.setattr(type(world.node.committer), "backlog", property(lambda self: backlog))
        await stage.set_alarm(world.now() + SECOND)
        await world.advance(seconds=5)
        assert stage.fired == []
        assert overload.is_on
        assert "5000 commits are on their way" in overload.why
        backlog = 0
        await world.advance(seconds=1)
        assert len(stage.fired) == 1
        assert not overload.is_on


def test_a_question_that_can_not_be_asked_at_once_is_refused() -> None:
    async def later() -> bool:
        return True

    nonsense: Any
    for nonsense in (later, True, "busy"):
        with pytest.raises(BadOption, match="overloaded must be a plain function"):
            App(overloaded=nonsense)
