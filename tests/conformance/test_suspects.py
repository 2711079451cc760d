"""Timers that were running when their process died: tried again side by side, unless they are under grave suspicion."""

import asyncio
from datetime import timedelta
from typing import Any

from tests.conformance.desk import Desk, at
from wakeful.cli.checkups import timers
from wakeful.runtime.status import status_of
from wakeful.runtime.timer_runs import TRIED_MAX
from wakeful.values.commits import start_note
from wakeful.values.ids import shard_of
from wakeful.views import due
from wakeful.views.nodes import members
from wakeful.views.view import View

SECOND = timedelta(seconds=1)
MANY = 150
RUN_S = 10


async def test_many_that_ran_when_a_process_died_are_tried_again_side_by_side(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await asyncio.sleep(RUN_S)
            await self.storage.put("done", True)

        for n in range(MANY):
            stage.handlers[f"a{n}"] = handler
            await stage.set_alarm(at, f"a{n}")
        await world.advance(seconds=5)
        assert len(stage.fired) == MANY
        await world.crash()
        await world.restart()
        await world.advance(seconds=4 * RUN_S)  # one after the other they would take 25 minutes
        assert len(stage.fired) == 2 * MANY
        for n in range(MANY):
            assert await world.rows(stage.Bell, f"a{n}") == {"done": True}
        assert await world.parked() == []


async def test_jobs_tried_again_after_crashes_are_not_overtaken_by_later_ones_of_their_object(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(RUN_S)

        desk.handlers.update(dict.fromkeys(("other", "first", "second"), slow))
        await desk.jobs.schedule(desk.at("z").work, "other", at=at(1))
        for number, label in enumerate(("first", "second", "third", "fourth")):
            await desk.jobs.schedule(desk.at("x").work, label, at=at(1 + number / 10))
        for _ in range(2):  # both that run are under suspicion twice, so from then on each is tried alone
            await world.advance(seconds=5)
            await world.crash()
            desk.seen.clear()
            await world.restart()
        await desk.jobs.schedule(desk.at("x").work, "fifth", after=2)  # due while one of the two is tried
        await world.advance(seconds=10 * RUN_S)
        assert [seen.label for seen in desk.seen if seen.object == "x"] == [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
        ]
        assert [seen.label for seen in desk.seen if seen.object == "z"] == ["other"]
        assert await world.parked() == []


async def test_one_tried_again_is_not_overtaken_by_later_ones_that_wait_in_its_busy_object(stage: Any) -> None:
    """While it waited for room a call came to its object, and behind that a later job: it goes before that one."""
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(RUN_S)

        desk.handlers.update(dict.fromkeys(("other", "first"), slow))
        await desk.jobs.schedule(desk.at("z").work, "other", at=at(1))
        await desk.jobs.schedule(desk.at("x").work, "first", at=at(1.1))
        for _ in range(2):
            await world.advance(seconds=5)
            await world.crash()
            desk.seen.clear()
            await world.restart()
        await world.advance(seconds=1)
        assert [seen.label for seen in desk.seen] == ["other"]  # alone, and the first of x waits for it
        call = asyncio.ensure_future(desk.do(lambda clerk: asyncio.sleep(2 * RUN_S), key="x"))
        await world.advance(milliseconds=1)
        await desk.jobs.schedule(desk.at("x").work, "second", after=1)
        await desk.jobs.schedule(desk.at("x").work, "third", after=2)
        await world.advance(seconds=10 * RUN_S)
        await call
        assert [seen.label for seen in desk.seen if seen.object == "x"] == ["first", "second", "third"]
        assert await world.parked() == []


async def test_one_to_be_parked_behind_another_of_its_object_leaves_nobody_in_line(stage: Any) -> None:
    """It is not tried, so nobody would go on with the line after it."""
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(RUN_S + len(desk.seen) / 10)  # one ends after the other

        others = [f"z{n}" for n in range(TRIED_MAX + 6)]
        desk.handlers.update(dict.fromkeys(("earlier", "deadly", "last", *others), slow))
        for label in others:
            await desk.jobs.schedule(desk.at(label).work, label, at=at(1))
        await desk.jobs.schedule(desk.at("x").work, "earlier", at=at(1.1))
        await desk.jobs.schedule(desk.at("x").work, "deadly", at=at(1.2))
        await desk.jobs.schedule(desk.at("y").work, "last", at=at(1.3))
        await world.advance(seconds=5)
        node = world.node
        deadly = max((timer for timer in await world.due() if timer.id.key == "x"), key=lambda timer: timer.due_at)
        shard = shard_of(deadly.id)
        note = start_note(deadly, shard, node.epochs[shard], 2, node.clock.now())  # as if two had died of it before
        assert await node.store.commit(node.name, [note]) == [None]
        await world.crash()
        desk.seen.clear()
        await world.restart()
        await world.advance(seconds=10 * RUN_S)
        assert len(await world.parked()) == 1
        assert sorted(seen.label for seen in desk.seen) == sorted(["earlier", "last", *others])


async def _twice_dead(desk: Desk, world: Any, labels: tuple[str, ...]) -> None:
    """Jobs of half a minute, each of an object of its own, that two processes died of; one of them is being tried."""

    async def slow(clerk: Any, job: Any) -> None:
        await asyncio.sleep(3 * RUN_S)

    desk.handlers.update(dict.fromkeys(labels, slow))
    for number, label in enumerate(labels):
        await desk.jobs.schedule(desk.at(label).work, label, at=at(1 + number / 10))
    for _ in range(2):
        await world.advance(seconds=5)
        await world.crash()
        desk.seen.clear()
        await world.restart()
    await world.advance(seconds=RUN_S)


async def test_what_waits_to_be_tried_alone_is_not_said_to_run_and_says_behind_what_it_waits(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await _twice_dead(desk, world, ("a", "b", "c", "d"))
        await desk.jobs.schedule(desk.at("c").work, "later")  # not overtaken, so it waits too
        await world.advance(seconds=1)
        assert [seen.label for seen in desk.seen] == ["a"]
        node = world.node
        for view in (View.of_node(node), View.of_store(node.store, node.clock.now())):
            rows = (await due.page(view)).rows
            assert [row["key"] for row in rows] == ["a", "b", "c", "d", "c"]
            assert [row["is_running"] for row in rows] == [True, False, False, False, False]
            why = "its process died twice while it ran or waited: tried one at a time, behind Clerk/a job work"
            assert [row["held_by"] for row in rows] == [None, why, why, why, "behind job work of its object"]
            [own] = (await due.page(view, "Clerk", prefix="b")).rows  # who sees only these is not told of others
            assert own["held_by"] == why.replace("Clerk/a job work", "another")
        status = status_of(node)
        assert (status["timers_running"], status["timers_in_line"]) == (1, 4)
        behind = {"class": "Clerk", "key": "a", "timer": rows[0]["timer"]}
        assert status["line"] == {"waiting": 4, "is_alone": True, "behind": behind, "for_ms": status["line"]["for_ms"]}
        assert RUN_S * 1_000 <= status["line"]["for_ms"] <= (RUN_S + 1) * 1_000
        await world.advance(seconds=20 * RUN_S)
        assert await world.due() == []
        status = status_of(node)
        assert (status["timers_running"], status["timers_in_line"], status["line"]) == (0, 0, None)


async def test_a_process_that_died_once_leaves_nothing_in_line_and_what_it_left_is_said_to_run_again(
    stage: Any,
) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(RUN_S)

        desk.handlers.update(dict.fromkeys(("a", "b"), slow))
        for label in ("a", "b"):
            await desk.jobs.schedule(desk.at(label).work, label, at=at(1))
        await world.advance(seconds=5)
        await world.crash()
        await world.restart()
        await world.advance(seconds=1)
        rows = (await due.page(View.of_node(world.node))).rows
        assert [(row["is_running"], row["held_by"]) for row in rows] == [(True, None)] * 2
        assert status_of(world.node)["line"] is None


async def test_the_doctor_counts_what_waits_in_line_as_overdue_and_says_behind_what(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await _twice_dead(desk, world, ("a", "b", "c", "d"))
        node = world.node
        found = await members(node.store, node.clock.now())
        found = found._replace(nodes=[member._replace(state="up") for member in found.nodes])  # a world has no leases
        for said in ({node.name: status_of(node)}, {}):  # also where no node can be asked
            [late, line] = await timers(node.store, found, said)
            assert (late.status, late.text.split(",")[0]) == ("warn", "3 timers overdue")
            assert (line.status, line.check) == ("warn", "timers")
            since = ", which has been tried for 10 s" if said else ""
            assert line.text == (
                "3 timers wait in line, because processes died while they ran or waited: they are tried one at a "
                f"time, now Clerk/a job work{since}"
            )
            assert "wakeful jobs cancel" in line.remedy
        await world.advance(seconds=20 * RUN_S)
        [well] = await timers(node.store, await members(node.store, node.clock.now()), {})
        assert (well.status, well.text) == ("ok", "0 timers waiting, none overdue")
