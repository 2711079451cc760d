"""The ledger: a row per attempt, and not for ever; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from tests.conformance.acts import SECOND, Expected
from wakeful import AlarmInfo, Limits
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Timer, run_id
from wakeful.values.times import from_datetime


async def test_the_ledger_has_a_row_per_attempt_and_the_run_id_is_stable_over_retries_and_crashes(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def handler(self: Any, info: AlarmInfo) -> None:
            if len(stage.fired) == 1:
                raise Expected("first")
            if len(stage.fired) == 2:
                await asyncio.sleep(60)  # until the crash
            await asyncio.sleep(2)

        stage.handlers["a"] = handler
        await stage.set_alarm(start + SECOND)
        await world.advance(seconds=10)
        await world.crash()
        await world.restart(after="1m")
        await world.advance(seconds=5)
        first, second = await world.ledger(stage.Bell, "a")
        assert {info.run_id for info in stage.infos()} == {first.id} == {second.id}
        assert (first.attempt, first.verdict, first.error) == (0, "failed", "tests.conformance.acts.Expected: first")
        assert (second.attempt, second.verdict, second.error) == (1, "run", None)
        assert first.nominal_at == second.nominal_at == start + SECOND
        assert first.lateness == timedelta(0)
        assert second.finished_at - second.fired_at == 2 * SECOND
        await stage.set_alarm(SECOND)
        await world.advance(seconds=5)
        assert (await world.ledger(stage.Bell, "a"))[-1].id not in {first.id}


async def test_run_ids_differ_between_settings_objects_and_names(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        for key in ("a", "b"):
            await stage.set_alarm(at, key)
        await world.advance(seconds=2)
        await stage.set_alarm(at)
        await world.settle()
        assert len({info.run_id for _, info, _ in stage.fired}) == 3
        timer = Timer(ObjectId("Bell", "a"), "alarm", 1, 1, 5)
        assert run_id(timer) == run_id(timer.later(due_at=9, attempt=3))


async def test_the_ledger_is_pruned_to_the_newest_rows(stage: Any) -> None:
    async with stage.world(limits=Limits(ledger_keep=20)) as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.set_alarm(SECOND)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await stage.set_alarm(SECOND, "b")
        await world.advance(seconds=299)
        assert len(await world.ledger(stage.Bell, "a")) > 250
        await stage.delete_alarm()
        await world.advance(seconds=10)
        ledger = await world.ledger(stage.Bell, "a")
        assert len(ledger) == 20
        assert ledger[-1].fired_at >= world.now() - 12 * SECOND
        assert len(await world.ledger(stage.Bell, "b")) == 1


async def test_the_ledger_is_pruned_by_age(stage: Any) -> None:
    async with stage.world(limits=Limits(ledger_keep_ms=600_000)) as world:
        await stage.set_alarm(SECOND)
        await world.advance(minutes=9)
        assert len(await world.ledger(stage.Bell, "a")) == 1
        await stage.set_alarm(SECOND, "b")
        await world.advance(minutes=7)
        assert await world.ledger(stage.Bell, "a") == []
        assert len(await world.ledger(stage.Bell, "b")) == 1


async def test_a_row_may_stand_for_several_occurrences_and_is_found_by_the_bare_name_of_its_schedule(
    stage: Any,
) -> None:
    async with stage.world() as world:
        start = world.now()
        now, id = from_datetime(start), ObjectId("Bell", "a")
        names = ["schedule:standup", "standup", "schedule:other", "schedule:standup", "schedule:alarm", "job:standup"]
        rows = [Entry(id, name, f"{n}", now, now, now, 0, "run", "x") for n, name in enumerate(names)]
        rows[3] = replace(rows[3], verdict="coalesced", missed=59, covers=60, first_at=now - 59_000)
        shard = shard_of(id)
        epoch = (await world.store.owners())[shard].epoch
        commit = Commit(id=id, shard=shard, epoch=epoch, now=now, entries=rows)
        assert await world.store.commit(world.node.name, [commit]) == [None]

        async def ids(name: str | None, **more: int) -> list[str]:
            return [run.id for run in await world.ledger(stage.Bell, "a", name, **more)]

        assert await ids(None) == ["0", "1", "2", "3", "4", "5"]
        assert await ids("standup") == ["0", "1", "3"]
        assert await ids("standup", limit=2) == ["1", "3"]
        assert await ids("schedule:standup") == ["0", "3"]
        assert await ids("job:standup") == ["5"]
        assert await ids("alarm") == []
        one, many = await world.ledger(stage.Bell, "a", "schedule:standup")
        assert (one.covers, one.first_at) == (1, None)
        assert (many.covers, many.first_at, many.nominal_at) == (60, start - 59 * SECOND, start)
        assert (many.missed, many.verdict) == (59, "coalesced")
