"""A process that dies at any trip to the store: every acknowledged job runs, each effect once, each cancel holds."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from wakeful import App, DurableObject, Job, JobSpec, RetryPolicy, fixed
from wakeful.testing import World
from wakeful.values.errors import WakefulError

STEP = 3  # every third probe in one run of the suite; the three starts cover all


class Story:
    """One program of jobs, and what it was told about each."""

    def __init__(self) -> None:
        self.app = App()
        self.acked: dict[str, Job] = {}
        self.cancelled: dict[str, bool] = {}
        story = self

        @self.app.object
        class Clerk(DurableObject):
            async def work(self, label: str) -> str:
                await self.storage.put(f"did:{label}", await self.storage.get(f"did:{label}", 0) + 1)
                if label.startswith("twice") and self.ctx.job.attempt == 1:
                    raise ValueError("on purpose")
                if label.startswith("fan"):
                    for n in range(2):
                        await self.jobs.schedule(self.ctx.get(Clerk, "b").work, f"leaf {label} {n}")
                    await self.jobs.schedule(self.ctx.get(Clerk, "c").work, f"keyed {label}", key=label)
                return label

            async def ask(self, label: str) -> Job:
                return await self.jobs.schedule(self.ctx.get(Clerk, "c").work, label, key=label, after=1)

        self.Clerk: Any = Clerk
        self.story = story

    async def tell(self) -> None:
        """Everything once, as far as the process lives."""
        jobs, a, b = self.app.jobs, self.app.get(self.Clerk, "a"), self.app.get(self.Clerk, "b")
        with suppress(WakefulError, asyncio.CancelledError):
            self.acked["plain"] = await jobs.schedule(a.work, "plain", after=1)
            self.acked["keyed"] = await jobs.schedule(b.work, "keyed", key="k", after=1)
            self.acked["fan"] = await jobs.schedule(a.work, "fan", after=1)
            self.acked["twice"] = await jobs.schedule(a.work, "twice", retry=RetryPolicy(3, fixed("1s")))
            self.acked["asked"] = await a.ask("asked")
            gone = await jobs.schedule(a.work, "gone", after=2)
            self.acked["first"] = await jobs.schedule(a.work, "first", after=2)
            self.acked["then"] = await jobs.schedule(b.work, "then", depends_on=[self.acked["first"]])
            specs = [JobSpec(self.app.get(self.Clerk, key).work, (f"member {key}",)) for key in "abc"]
            batch = await jobs.batch(specs, then=JobSpec(b.work, ("all",)))
            self.acked["all"] = batch.then
            self.acked |= {f"member {key}": job for key, job in zip("abc", batch.jobs, strict=True)}
            self.cancelled["gone"] = await jobs.cancel(gone.id)

    async def check(self, world: World) -> None:
        did: dict[str, int] = {}
        for key in "abc":
            rows = await world.rows(self.Clerk, key)
            did |= {name.removeprefix("did:"): count for name, count in rows.items() if name.startswith("did:")}
        assert set(did.values()) <= {1}, did
        missing = set(self.acked) - set(did)
        assert not missing, missing
        if "fan" in self.acked:
            assert {"leaf fan 0", "leaf fan 1", "keyed fan"} <= set(did)
        if "gone" in self.cancelled:
            assert ("gone" in did) is not self.cancelled["gone"]
        for label, job in self.acked.items():
            found = await self.app.jobs.get(job.id)
            assert (found.state, found.result) == ("done", label)
        assert await world.due() == []
        assert await world.parked() == []


async def probes() -> int:
    story = Story()
    async with story.app.world() as world:
        before = world.faults.probes
        await story.tell()
        await world.advance(seconds=30)
        await story.check(world)
        assert len(story.acked) == 11
        return world.faults.probes - before


@pytest.mark.parametrize("start", range(STEP))
async def test_a_crash_at_every_probe_loses_and_doubles_nothing(start: int) -> None:
    for number in range(1 + start, await probes() + 40, STEP):
        story = Story()
        async with story.app.world() as world:
            last = world.faults.probes + number

            def crash(name: str, at: int, world: World = world, last: int = last) -> None:
                if at == last:
                    world.kill()

            world.faults.on_probe = crash
            telling = asyncio.ensure_future(story.tell())
            await world.advance(seconds=30)
            world.faults.on_probe = None
            await world.restart()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            await world.advance(seconds=60)
            try:
                await story.check(world)
            except BaseException as error:
                error.add_note(f"crash at probe {number}")
                raise
