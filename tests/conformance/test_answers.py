"""`Again`, `Stop` and `Next` returned to a run that does not know them: a failed attempt that says what to return."""

import re
from datetime import timedelta
from typing import Any

import pytest

from wakeful import Again, App, DurableObject, Next, RetryPolicy, Stop

ONE = RetryPolicy(max_attempts=1)


class Desk(DurableObject):
    answer: Any = None  # of the test at hand

    async def begin(self, kind: str) -> None:
        await self.storage.put("kind", kind)
        if kind == "alarm":
            await self.storage.set_alarm(timedelta(seconds=5))
        elif kind == "job":
            await self.jobs.schedule(self.work, after="5s", retry=ONE)
        else:
            await self.schedules.add("every 1h", self.work, name="s", retry=ONE)
            if kind == "trigger":
                await self.schedules.trigger("s")

    async def work(self) -> Any:
        await self.storage.put("written", True)
        return type(self).answer

    async def alarm(self) -> Any:
        return await self.work()


@pytest.mark.parametrize(
    ("kind", "answer", "wanted"),
    [
        ("schedule", Again("10s"), r"Desk/a\.work returned Again, which a schedule does not know; return Next\(after=…\)"),
        ("schedule", Stop("gone"), r"returned Stop, which a schedule does not know; end .* schedules\.cancel\(name\)"),
        ("trigger", Again("10s"), "returned Again, which a schedule does not know"),
        ("alarm", Again("10s"), r"Desk/a\.alarm returned Again, which an alarm does not know; .*set_alarm\(…\)"),
        ("alarm", Next(after="10s"), r"returned Next, which an alarm does not know; .*set_alarm\(…\)"),
        ("alarm", Stop(), "returned Stop, which an alarm does not know; return nothing"),
        ("job", Next(after="10s"), r"Desk/a\.work returned Next, which a job does not know; return Again\(after=…\)"),
    ],
)  # fmt: skip
async def test_the_answer_of_another_kind_is_a_failed_attempt(stage: Any, kind: str, answer: Any, wanted: str) -> None:
    app = App()
    cls: Any = app.object(type("Desk", (Desk,), {"answer": answer}))
    async with app.world(store=stage.url) as world:
        await world.get(cls, "a").begin(kind)
        await world.advance(hours=1, minutes=30)
        parked = await world.parked()
        assert len(parked) == (2 if kind == "trigger" else 1)  # and its own occurrence
        assert re.search(wanted, parked[0].error)
        assert "errors.BadHandler: " in parked[0].error
        assert "[handler.answer]" in parked[0].error
        assert await world.rows(cls, "a") == {"kind": kind}  # what it wrote is undone


@pytest.mark.parametrize(("kind", "answer"), [("job", Again("2h")), ("job", Stop()), ("schedule", Next(after="2h"))])
async def test_its_own_answer_is_taken(stage: Any, kind: str, answer: Any) -> None:
    app = App()
    cls: Any = app.object(type("Desk", (Desk,), {"answer": answer}))
    async with app.world(store=stage.url) as world:
        await world.get(cls, "a").begin(kind)
        await world.advance(hours=1, minutes=30)
        assert await world.parked() == []
        assert (await world.rows(cls, "a"))["written"] is True


async def test_a_function_on_the_apps_clock_is_told_too(stage: Any) -> None:
    app = App()

    @app.every.hour(retry=ONE)
    async def nightly() -> Stop:
        return Stop("enough")

    async with app.world(store=stage.url, start="2026-01-01T00:30Z") as world:
        await world.advance(hours=1)
        [parked] = await world.parked()
        assert "returned Stop, which a schedule does not know" in parked.error
