"""Asking about jobs: few of many are found without walking past all, a turn knows what it scheduled, odd questions are answered."""

import asyncio
from typing import Any

import pytest

from wakeful import App, DurableObject, JobSpec
from wakeful.cli.output import clock_time, relative
from wakeful.jobs.queries import PAGE
from wakeful.values.errors import BadOption, KeyTaken, Reentrancy
from wakeful.values.times import LATEST_MS
from wakeful.views.due import page
from wakeful.views.view import View

app = App()


@app.object
class Desk(DurableObject):
    async def work(self) -> None:
        await asyncio.sleep(60)

    async def rest(self) -> None: ...

    async def order(self, other: str) -> tuple[str, str]:
        job = await self.jobs.schedule(app.get(Desk, other).rest, after="1h")
        own = await self.jobs.schedule(self.rest, after="2h")
        with pytest.raises(Reentrancy, match="only once this turn has ended"):
            await self.jobs.wait(job)
        return (await self.jobs.get(job)).state, (await self.jobs.get(own)).state


async def test_those_that_run_or_wait_are_found_without_walking_past_all_that_are_far_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with app.world() as world:
        far = [JobSpec(app.get(Desk, f"far-{n}").rest, after="30d") for n in range(4 * PAGE)]
        first = (await app.jobs.schedule_many(far))[0]
        held = await app.jobs.schedule(app.get(Desk, "b").rest, depends_on=(first,))
        running = await app.jobs.schedule(app.get(Desk, "a").work)
        await world.advance(seconds=1)
        store, reads = world.node.store, list[Any]()
        find = store.find_timers

        async def watched(query: Any) -> Any:
            reads.append(await find(query))
            return reads[-1]

        monkeypatch.setattr(store, "find_timers", watched)
        assert [job.id for job in await app.jobs.list(state="running")] == [running.id]
        assert [job.id for job in await app.jobs.list(state="waiting")] == [held.id]
        assert sum(map(len, reads)) <= PAGE + 1
        assert len(await app.jobs.list(state="scheduled", limit=10_000)) == 4 * PAGE


async def test_a_turn_knows_the_jobs_that_it_scheduled_and_can_not_wait_for_them() -> None:
    async with app.world() as world:
        assert await world.get(Desk, "a").order("b") == ("scheduled", "scheduled")


async def test_one_that_waits_for_others_has_no_time() -> None:
    async with app.world() as world:
        first = await app.jobs.schedule(app.get(Desk, "a").rest, after="1h")
        await app.jobs.schedule(app.get(Desk, "b").rest, depends_on=(first,))
        found = (await page(View.of_node(world.node))).rows
        assert [row["held_by"] for row in found] == [None, None, "waits for other jobs"]
    assert (clock_time(LATEST_MS + 1), relative(LATEST_MS + 1, 0)) == ("-", "once others have run")


async def test_odd_questions_are_answered() -> None:
    async with app.world() as world:
        desk = world.get(Desk, "a")
        several = [JobSpec(app.get(Desk, f"{n}").rest, after="1h", key="k") for n in range(3)]
        assert len(await app.jobs.schedule_many(one for one in several)) == 3  # type: ignore[arg-type]
        for odd in (5, "text", {}):
            with pytest.raises(BadOption, match="takes a list of JobSpec"):
                await app.jobs.schedule_many(odd)  # type: ignore[arg-type]
        for odd in ({"cls": 5}, {"cls": "Desk", "key": 5}, {"tag": b"x"}):
            with pytest.raises(BadOption, match="by text"):
                await app.jobs.list(**odd)  # type: ignore[arg-type]
        with pytest.raises(KeyTaken, match="`schedule` it with replace=True"):
            await app.jobs.schedule_many([JobSpec(app.get(Desk, "0").work, after="1h", key="k")])
        assert await desk.order("b") == ("scheduled", "scheduled")
