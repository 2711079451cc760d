"""A crash before or after any commit: one final verdict for each occurrence, and each effect once; on every store."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, effects, since
from wakeful import RetryPolicy, Run, Unavailable, fixed
from wakeful.policy.plan import Due
from wakeful.schedules.steps import occurrence_of
from wakeful.values.ids import ObjectId

END = 115


class Life:
    """The same two minutes of schedules each time, with one crash at a chosen commit."""

    def __init__(self, stage: Any, crash_at: tuple[str, int] | None, key: str) -> None:
        self.rota = Rota(stage)
        self.crash_at = crash_at
        self.keys = {"catch": key, "slow": f"{key}-slow"}  # two objects, or the one would wait for the other
        self.commits: Counter[str] = Counter()
        self.crashes = 0
        self.rota.handlers["catch"] = self._catch
        self.rota.handlers["slow"] = self._slow

    async def _catch(self, clock: Any, run: Run) -> None:
        if run.attempt == 0 and not run.is_backfill and run.nominal_at in (after(40), after(60)):
            raise ValueError("on purpose")

    async def _slow(self, clock: Any, run: Run) -> None:
        if run.nominal_at == after(80):
            await asyncio.sleep(15)

    async def run(self) -> Any:
        """What became of every occurrence, by schedule."""
        async with self.rota.world() as world:
            world.faults.on_probe = lambda name, _: self._probe(world, name)
            retry = RetryPolicy(2, fixed("3s"))
            catch: dict[str, Any] = {"catch_up": "all", "max_catch_up": 2, "grace": "2s", "overlap": "queue_all"}
            slow: dict[str, Any] = {"catch_up": "latest", "grace": "30s", "overlap": "queue_one", "max_runs": 7}

            await self._do(world, "catch", "add", lambda clock: clock.schedules.add(
                "every 10s", clock.tick, name="catch", retry=retry, **catch))  # fmt: skip
            await self._do(world, "slow", "add", lambda clock: clock.schedules.add(
                "every 10s", clock.tick, name="slow", on_missed="missed", **slow))  # fmt: skip
            await world.crash()
            await world.restart(after=timedelta(seconds=45) - (world.now() - after(0)))
            await self._until(world, 66)
            await self._do(world, "catch", "trigger", lambda clock: clock.schedules.trigger("catch"))
            await self._do(
                world, "catch", "backfill", lambda clock: clock.schedules.backfill("catch", after(0), after(45))
            )
            await self._until(world, END)
            world.faults.on_probe = None
            await world.advance(seconds=1)
            return await self._judge(world)

    def _probe(self, world: Any, name: str) -> None:
        self.commits[name] += 1
        if self.crash_at is not None and not self.crashes and (name, self.commits[name]) == self.crash_at:
            self.crashes += 1
            world.kill()

    async def _until(self, world: Any, seconds: float) -> None:
        """Let time pass, coming back at once from a crash."""
        task = asyncio.ensure_future(asyncio.sleep((after(seconds) - world.now()).total_seconds()))
        while not task.done():
            if world._node is None:
                await world.restart()
            await asyncio.wait([task], timeout=0.5)
        if world._node is None:
            await world.restart()

    async def _do(self, world: Any, whose: str, request: str, body: Any) -> None:
        """An operation that its caller repeats, under the same request key, until it has an answer."""
        act = self.rota.name(body)
        while True:
            if world._node is None:
                await world.restart()
            try:
                clock = self.rota.app.get(self.rota.Clock, self.keys[whose], request_key=request)
                await asyncio.wait_for(clock.do(act), 5)
                return
            except (Unavailable, TimeoutError):
                await asyncio.sleep(0)

    async def _judge(self, world: Any) -> dict[str, dict[float, str]]:
        found = {name: await self._judge_one(world, name) for name in self.keys}
        assert (await world.rows(self.rota.Clock, self.keys["slow"]))["told"] == 3
        return found

    async def _judge_one(self, world: Any, name: str) -> dict[float, str]:
        """The final verdicts of the schedule's own occurrences, after checking that each run has one and one effect."""
        key = self.keys[name]
        by_run: dict[str, list[Run]] = {}
        for row in await world.ledger(self.rota.Clock, key, f"schedule:{name}"):
            by_run.setdefault(row.id, []).append(row)
        own: dict[float, str] = {}
        beside: list[float] = []
        for id, attempts in by_run.items():
            verdicts = [row.verdict for row in attempts]
            assert set(verdicts[:-1]) <= {"failed"}, (name, verdicts)
            nominal = since(attempts[0].nominal_at)
            at = int(attempts[0].nominal_at.timestamp() * 1000)
            if id == occurrence_of(ObjectId("Clock", key), name, Due(at)).run_id:
                own[nominal] = str(verdicts[-1])
            else:
                assert verdicts[-1] == "run"
                beside.append(nominal)
        assert [round(at) for at in sorted(beside)] == ([10, 20, 30, 40, 66] if name == "catch" else [])
        assert await effects(world, self.rota, key) == {
            id: 1 for id, attempts in by_run.items() if attempts[-1].verdict == "run"
        }
        counters = (await self.rota.on(key).get(name)).counters
        sums = Counter([*own.values(), *("run" for _ in beside)])
        assert counters.occurrences == sums.total()
        assert (counters.runs, counters.failures, counters.skipped, counters.overlap) == (
            sums["run"], sums["failed"], sums["skipped"], sums["overlap"],
        )  # fmt: skip
        return own


CAUGHT = {10: "skipped", 20: "skipped", **dict.fromkeys(range(30, END, 10), "run")}
# Seven runs: 40 to 70, 80 with its queue of one, and one more.
SLOW = {10: "skipped", 20: "skipped", 30: "skipped", **dict.fromkeys(range(40, 101, 10), "run")}


async def test_without_a_crash_it_is_known_what_becomes_of_every_occurrence(stage: Any) -> None:
    found = await Life(stage, None, "a").run()
    assert found == {"catch": CAUGHT, "slow": SLOW}


@pytest.mark.parametrize("when", ["commit.before", "commit.after"])
async def test_a_crash_at_any_commit_leaves_one_verdict_each_and_each_effect_once(stage: Any, when: str) -> None:
    spots = range(1, 200) if stage.url == "memory:" else (4, 11, 23)
    crashes = 0
    for n in spots:
        life = Life(stage, (when, n), f"life-{n}")
        found = await life.run()
        crashes += life.crashes
        if not life.crashes:
            assert n > 20  # there were no more commits than that
            break
        # Time stands still in a crash, so it changes no verdict.
        assert found["catch"] == CAUGHT, (n, found["catch"])
        # But a slow run that is done over ends later, and one more falls due meanwhile.
        assert found["slow"] in (SLOW, {**SLOW, 110: "overlap"}), (n, found["slow"])
    assert crashes >= 3
