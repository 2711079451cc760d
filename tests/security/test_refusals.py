"""Audit rows: acts before they are done, refusals that can't fill the disk, and rates with a time to come back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.security.stage_security import Door, program
from wakeful import App, Limits
from wakeful.operations.acts import Acts, Which
from wakeful.security.audit import LOG, page
from wakeful.security.gate import Buckets, Failures, Gate
from wakeful.security.refusals import KINDS_MAX
from wakeful.values.errors import BadOption, Conflict, StoreDown, UnknownMethod, UnknownSchedule

NOW = 1_700_000_000_000


@asynccontextmanager
async def doors(**options: Any) -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        yield Door(app, world, **options)


async def test_a_flood_of_refusals_is_a_handful_of_rows() -> None:
    async with doors() as door:
        await door.token("admin")
        for number in range(3_000):
            client = (f"10.0.{number % 90}.1", 1)
            await door.ask("GET", "/v1/objects", client=client)
        rows = [row for row in await door.audit() if row["kind"] == "refusal"]
        assert len(rows) <= KINDS_MAX + 3
        await door.world.advance(seconds=61)
        rows = [row for row in await door.audit() if row["kind"] == "refusal"]
        assert len(rows) <= 2 * (KINDS_MAX + 3)
        assert sum(row["count"] for row in rows) == 3_000
        assert any(row["actor"] == "others" for row in rows)


async def test_what_was_counted_of_a_minute_is_written_when_the_node_stops_in_it() -> None:
    async with doors() as door:
        await door.token("admin")
        for _ in range(50):
            await door.ask("GET", "/v1/objects", client=("10.0.0.1", 1))
        await door.world.restart()
        rows = [row for row in await door.audit() if row["kind"] == "refusal"]
        assert sum(row["count"] for row in rows) == 50


async def test_refusals_do_not_push_out_what_operators_did() -> None:
    app = App(limits=Limits(audit_rows=5))
    async with app.world() as world:
        node = world.node
        for number in range(8):
            await node.send(LOG, "begin", ("me", f"act {number}", "x", {}), {})
        for number in range(30):
            await node.send(LOG, "refuse", ([{"actor": "they", "act": str(number), "outcome": "denied"}],), {})
        rows = (await page(world.store, limit=100)).rows
        assert [row["act"] for row in rows if row["kind"] == "act"] == [f"act {n}" for n in (7, 6, 5, 4, 3)]
        assert [row["act"] for row in rows if row["kind"] == "refusal"] == ["29", "28", "27", "26", "25"]


async def test_pages_of_rows_have_no_gap_and_a_bad_cursor_is_said() -> None:
    async with App().world() as world:
        for number in range(25):
            actor = "me" if number % 2 else "you"
            await world.node.send(LOG, "begin", (actor, f"act {number}", "x", {}), {})
        seen, cursor = [], None
        while True:
            found = await page(world.store, limit=7, cursor=cursor)
            seen += [row["number"] for row in found.rows]
            cursor = found.cursor
            if cursor is None:
                break
        assert seen == list(range(25, 0, -1))
        mine = await page(world.store, limit=5, actor="me")
        assert len(mine.rows) == 5
        assert {row["actor"] for row in mine.rows} == {"me"}
        assert mine.cursor is not None
        for bad in ("x", "-1", "1" * 20, "١"):
            with pytest.raises(BadOption) as caught:
                await page(world.store, cursor=bad)
            assert caught.value.code == "cursor"


async def test_every_act_has_a_row_that_says_how_it_ended() -> None:
    async with doors() as door:
        id = await door.object("eu/1")
        acts = Acts.of_node(door.world.node, "token:ops")
        await acts.pause(id, "daily", note="why")
        await acts.resume(id, "daily")
        await acts.trigger(id, "daily")
        now = door.world.now()
        assert await acts.backfill(id, "daily", now - timedelta(days=3), now, dry_run=True)  # no act, so no row
        await acts.add_schedule(id, "every day at 10:00", "put", "x", name="second")
        await acts.reschedule(id, "second", "every day at 11:00")
        assert await acts.cancel(id, "second")
        with pytest.raises(UnknownSchedule):
            await acts.pause(id, "nothing")
        with pytest.raises(Conflict):
            await acts.drain("n1")
        job = await door.app.jobs.schedule(door.app.get(door.app.box, "eu/1").put, "x", after="1h")  # type: ignore[attr-defined]
        assert await acts.cancel_job(job.id)
        rows = await door.audit()
        assert [(row["act"], row["outcome"]) for row in reversed(rows)] == [
            ("schedule.pause", "done"),
            ("schedule.resume", "done"),
            ("schedule.trigger", "done"),
            ("schedule.add", "done"),
            ("schedule.reschedule", "done"),
            ("schedule.cancel", "done"),
            ("schedule.pause", "failed"),
            ("node.drain", "failed"),
            ("job.cancel", "done"),
        ]
        assert {row["actor"] for row in rows} == {"token:ops"}
        assert rows[-1]["detail"] == {"note": "why", "until": None}
        assert rows[-1]["target"] == "Box/eu/1 daily"
        assert "nothing" in rows[2]["error"]


async def test_parked_timers_are_redriven_by_number_or_within_a_prefix() -> None:
    async with doors() as door:
        for key in ("eu/1", "us/1"):
            await door.object(key)
        await door.world.advance(days=2)
        acts = Acts.of_node(door.world.node, "me")
        parked = await door.world.parked()
        numbers = {one.timer.id.key: one.number for one in parked}
        found = await acts.redrive(Which(numbers=[numbers["us/1"], 999], prefix="eu/"))
        assert {row["problem"] for row in found} == {"is not parked"}
        found = await acts.redrive(Which(is_all=True, prefix="eu/"))
        assert {row["key"] for row in found} == {"eu/1"}
        assert all(row["ok"] for row in found)
        with pytest.raises(BadOption):
            await acts.redrive(Which())


async def test_a_number_that_two_stores_have_given_is_asked_about() -> None:
    app = program(stores={"us/": "memory:"})
    async with app.world() as world:
        door = Door(app, world)
        for key in ("eu/1", "us/1"):
            await door.object(key)
        await world.advance(days=2)
        acts = Acts.of_node(world.node, "me")
        numbers = [one.number for one in await world.parked()]
        twice = next(number for number in numbers if numbers.count(number) == 2)
        found = await acts.redrive(Which(numbers=[twice]))
        assert [row["ok"] for row in found] == [False, False]
        assert "several stores" in found[0]["problem"]
        [one] = await acts.redrive(Which(numbers=[twice], cls="Box", key="us/1"))
        assert (one["key"], one["ok"]) == ("us/1", True)


async def test_only_methods_for_callers_go_on_a_schedule_from_outside() -> None:
    async with doors() as door:
        id = await door.object("eu/1")
        acts = Acts.of_node(door.world.node, "me")
        for method in ("inside", "alarm", "plain", "nothing"):
            with pytest.raises(UnknownMethod):
                await acts.add_schedule(id, "every day at 10:00", method)
        with pytest.raises(UnknownMethod):
            await acts.add_schedule(id, "every day at 10:00", "put", "x", on_missed="inside")
        assert await door.audit() == []


async def test_what_can_not_be_written_down_is_not_done() -> None:
    async with doors() as door:
        id = await door.object("eu/1")
        await door.world.sleep_all()
        acts = Acts.of_node(door.world.node, "me")
        door.world.faults.is_down = True
        with pytest.raises(StoreDown):
            await acts.pause(id, "daily")
        door.world.faults.is_down = False
        await door.world.advance(seconds=30)
        assert (await door.app.schedules(door.app.box, "eu/1").get("daily")).state == "active"  # type: ignore[attr-defined]


async def test_an_act_that_was_cut_off_is_still_begun() -> None:
    async with doors() as door:
        done = asyncio.Event()

        async def act() -> None:
            async with Acts.of_node(door.world.node, "me").row("long", "x"):
                done.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(act())
        await done.wait()
        await door.world.crash()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await door.world.restart()
        [row] = await door.audit()
        assert (row["act"], row["outcome"], row["ended_at"]) == ("long", "begun", None)


async def test_a_token_that_asks_too_often_is_told_when_to_come_back() -> None:
    async with doors() as door:
        token, other = await door.token("read", rate=2.0), await door.token("read")
        codes = [(await door.ask("GET", "/v1/objects", token=token)).status for _ in range(5)]
        assert codes == [200, 200, 429, 429, 429]
        found = await door.ask("GET", "/v1/objects", token=token)
        assert found.code == "denied.rate"
        assert int(found.headers["retry-after"]) == 1
        assert (await door.ask("GET", "/v1/objects", token=other)).status == 200
        await door.world.advance(seconds=1)
        assert (await door.ask("GET", "/v1/objects", token=token)).status == 200
        assert "denied.rate" in {code for code, _ in await door.refusals()}


async def test_an_address_that_asks_too_often_waits_and_others_do_not() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world, gate=Gate(app.deployment, address_rate=3))
        codes = [(await door.ask("GET", "/v1/objects")).status for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        assert (await door.ask("GET", "/v1/objects", client=("127.0.0.2", 1))).status == 200


async def test_those_who_are_refused_all_the_time_are_told_to_wait() -> None:
    async with doors() as door:
        token = await door.token("read")
        codes = [(await door.ask("GET", "/v1/objects")).status for _ in range(130)]
        assert codes[:100] == [401] * 100
        assert codes[-1] == 429
        assert (await door.ask("GET", "/v1/objects", token=token)).status == 200  # who may is not held up


def test_buckets_hold_a_burst_and_fill_by_the_second() -> None:
    buckets = Buckets(10, 5)
    assert [buckets.take("a", NOW) for _ in range(6)] == [0, 0, 0, 0, 0, 0.1]
    assert buckets.take("a", NOW + 99) > 0
    assert buckets.take("a", NOW + 100) == 0
    assert buckets.take("b", NOW + 100) == 0
    assert buckets.take("a", NOW - 5_000) > 0  # a clock that was set back gives nothing


def test_memory_of_addresses_is_bounded() -> None:
    buckets, failures = Buckets(1, 1), Failures()
    for number in range(30_000):
        buckets.take(str(number), NOW)
        failures.failed(str(number), NOW)
    assert len(buckets._left) <= 10_000
    assert len(failures._failed) <= 10_000


def test_failures_wait_longer_each_time_and_are_forgotten() -> None:
    failures = Failures()
    waits = []
    for _ in range(16):
        failures.failed("a", NOW)
        waits.append(failures.wait_s("a", NOW))
    assert waits[:4] == [0, 0, 0, 0]
    assert waits[4:8] == [1, 2, 4, 8]
    assert waits[-1] == 300
    assert failures.wait_s("a", NOW + 3_600_000) == 0
