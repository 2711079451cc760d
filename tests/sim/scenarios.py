"""Moments that chance finds too seldom, set up by hand; each raises AssertionError when its promise breaks."""

import asyncio
from datetime import timedelta
from typing import Any

from wakeful import App, DurableObject, errors
from wakeful.testing.world import World


async def _verdicts(world: World, cls: type, key: str) -> list[str]:
    return [f"{run.verdict} {run.attempt}" for run in await world.ledger(cls, key)]


async def a_call_that_waits_behind_a_failed_wake_leaves_the_retry_alone() -> None:
    app = App()
    wakes: list[bool] = []

    @app.object
    class Moody(DurableObject):
        async def on_wake(self) -> None:
            if wakes and wakes.pop():
                await asyncio.sleep(1)
                raise ValueError("not now")

        async def arm(self) -> None:
            await self.storage.set_alarm(timedelta(hours=1))

        async def ask(self) -> Any:
            return await self.storage.get_alarm()

        async def alarm(self) -> None: ...

    async with app.world() as world:
        await world.get(Moody, "a").arm()
        await world.sleep_all()
        wakes.append(True)
        await asyncio.sleep(3600.5)
        due = await world.get(Moody, "a").ask()  # waits behind the alarm whose wake is failing
        assert due is not None
        await world.advance(seconds=4)
        assert await _verdicts(world, Moody, "a") == ["failed 0", "run 1"]


async def outages_of_the_store_are_not_laid_at_the_handlers_door() -> None:
    app = App()

    @app.object
    class Patient(DurableObject):
        async def arm(self) -> None:
            await self.storage.set_alarm(timedelta(seconds=1))

        async def alarm(self) -> None:
            await asyncio.sleep(1)
            await self.storage.put("done", await self.storage.get("done", 0) + 1)

    async with app.world() as world:
        await world.get(Patient, "a").arm()
        for n in range(6):
            world.faults.fail_commit(2 * n + 1)  # its start is noted, its end fails
        await world.advance(minutes=10)
        assert await world.parked() == []
        assert await world.rows(Patient, "a") == {"done": 1}
        assert await _verdicts(world, Patient, "a") == ["run 0"]


async def a_stop_hands_back_no_alarm_that_was_replaced() -> None:
    app = App()

    @app.object
    class Busy(DurableObject):
        async def arm(self, seconds: float) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def work(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

        async def alarm(self) -> None:
            await self.storage.put("ran", True)

    async with app.world() as world:
        busy = world.get(Busy, "a")
        await busy.arm(5)
        calls = [asyncio.create_task(call) for call in (busy.work(4.9), busy.arm(7200), busy.work(40))]
        await asyncio.sleep(6)  # the first alarm is due and waits behind the turn that runs
        before = (await world.due())[0].seq
        await world.restart()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert results[:2] == [None, None]
        assert isinstance(results[2], errors.Unavailable)
        await world.advance(hours=1)
        assert [timer.seq for timer in await world.due()] == [before]
        assert await world.rows(Busy, "a") == {}


async def a_commit_that_fails_alone_loses_no_timer() -> None:
    app = App()

    @app.object
    class Alone(DurableObject):
        async def arm(self, seconds: float) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def alarm(self) -> None:
            await self.storage.put("ran", await self.storage.get("ran", 0) + 1)

    async with app.world() as world:
        alone, other = world.get(Alone, "a"), world.get(Alone, "b")
        await alone.arm(5)
        await other.arm(5)
        store: Any = world.node.committer._store
        commit = store.commit
        refused: list[bool] = []

        async def refuse_once(node: str, commits: Any) -> Any:
            if not refused and any(one.id.key == "a" and one.puts for one in commits):
                refused.append(True)
                fine = iter(await commit(node, [one for one in commits if one.id.key != "a"]))
                return [errors.StoreError("bad row") if one.id.key == "a" else next(fine) for one in commits]
            return await commit(node, commits)

        store.commit = refuse_once
        await world.advance(seconds=30)
        assert refused
        assert (await world.rows(Alone, "a"), await world.rows(Alone, "b")) == ({"ran": 1}, {"ran": 1})
        assert await world.due() == []


async def a_clean_stop_does_not_absolve_a_handler_that_kills() -> None:
    app = App()
    begun: list[str] = []
    script = ["kill", "wait"]  # then it kills for ever

    @app.object
    class Killer(DurableObject):
        async def arm(self) -> None:
            await self.storage.set_alarm(timedelta(seconds=1))

        async def alarm(self) -> None:
            begun.append(script.pop(0) if script else "kill")
            if begun[-1] == "kill":
                world.kill()
            await asyncio.sleep(60)

    async with app.world() as world:
        await world.get(Killer, "a").arm()
        await asyncio.sleep(2)
        await world.restart()
        assert begun == ["kill", "wait"]
        await world.restart()  # stops cleanly while the handler runs
        for _ in range(3):
            await world.restart()
        assert begun == ["kill", "wait", "kill", "kill"]
        assert [parked.reason for parked in await world.parked()] == ["crashed"]


SCENARIOS = (
    a_clean_stop_does_not_absolve_a_handler_that_kills,
    a_call_that_waits_behind_a_failed_wake_leaves_the_retry_alone,
    outages_of_the_store_are_not_laid_at_the_handlers_door,
    a_stop_hands_back_no_alarm_that_was_replaced,
    a_commit_that_fails_alone_loses_no_timer,
)
