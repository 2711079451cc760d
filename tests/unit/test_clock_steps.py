"""A wall clock that is set while calls and alarms run: their deadlines are lengths of time, and stay as long as they were."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.security.gate import Failures
from wakeful.values.errors import DeadlineExceeded

HOUR = timedelta(hours=1)


class Stage:
    """An object that hangs for as long as it is let, in a call or in its alarm."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.app = App()
        ended = self.ended

        @self.app.object
        class Slow(DurableObject):
            async def hang(self, seconds: float = 10_000) -> str:
                await asyncio.sleep(seconds)
                return "done"

            async def set_alarm(self) -> None:
                await self.storage.set_alarm(timedelta(seconds=1))

            async def alarm(self, info: Any) -> None:
                try:
                    await asyncio.sleep(10_000)
                finally:
                    ended.append("alarm")

        self.Slow = Slow

    def call(self, key: str, deadline_s: float, seconds: float = 10_000) -> "asyncio.Task[str]":
        stub = self.app.get(self.Slow, key, deadline=timedelta(seconds=deadline_s))
        return asyncio.get_running_loop().create_task(stub.hang(seconds))


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_a_call_under_way_has_as_long_as_it_was_given(by: timedelta) -> None:
    stage = Stage()
    async with stage.app.world() as world:
        short, long, longest = stage.call("a", 5), stage.call("b", 60, seconds=20), stage.call("c", 7_200)
        await world.advance(seconds=1)
        await world.step_clock(by)
        later = stage.call("d", 5)
        await world.advance(seconds=3)
        assert not any(one.done() for one in (longest, short, long, later))
        await world.advance(seconds=1.1)
        assert isinstance(short.exception(), DeadlineExceeded)
        await world.advance(seconds=1)
        assert isinstance(later.exception(), DeadlineExceeded)
        await world.advance(seconds=15)
        assert long.result() == "done"
        assert not longest.done()
        longest.cancel()


def test_a_login_that_has_to_wait_does_not_wait_for_a_clock_that_was_set_back() -> None:
    failures, now = Failures(), 10_000_000
    for _ in range(6):
        failures.failed("here", now)
    assert failures.wait_s("here", now) == 2
    assert failures.wait_s("here", now - 3_600_000) == 0
    failures.failed("here", now - 3_600_000)
    assert failures.wait_s("here", now - 3_600_000) == 4


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_so_has_an_alarm_that_runs(by: timedelta) -> None:
    stage = Stage()
    async with stage.app.world() as world:
        await stage.app.get(stage.Slow, "a").set_alarm()
        await world.advance(seconds=2)
        await world.step_clock(by)
        length = stage.app.deployment.limits.alarm_deadline_ms
        await world.advance(milliseconds=length - 2_000)
        assert stage.ended == []
        await world.advance(seconds=2)
        assert stage.ended == ["alarm"]
