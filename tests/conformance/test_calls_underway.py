"""What is under way is seen (since when, for whom, waiting for what) and can be stopped, as by a deadline; on every store."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Gate, add_one, sleep
from tests.conformance.cluster_stage import Cluster, key_of
from wakeful import Limits, errors
from wakeful.operations.acts import Acts
from wakeful.operations.call_looks import CANCEL
from wakeful.security import audit
from wakeful.views import calls
from wakeful.views.view import View


async def under_way(world: Any, **wanted: Any) -> list[Any]:
    return (await calls.page(View.of_node(world.node), limit=1_000, **wanted)).rows


async def cancel(world: Any, row: Any) -> None:
    await Acts.of_node(world.node, "tester").cancel_call(row["id"])


def write_and_hang(seconds: float = 100) -> Any:
    async def body(self: Any) -> str:
        await self.storage.put("x", 1)
        await asyncio.sleep(seconds)
        return "done"

    return body


async def test_a_turn_and_those_behind_it_are_seen(stage: Any) -> None:
    async with stage.world() as world:
        first = asyncio.ensure_future(stage.do(write_and_hang(30)))
        await world.advance(seconds=2)
        second = asyncio.ensure_future(stage.do(add_one))
        third = asyncio.ensure_future(stage.do(add_one))
        await world.advance(seconds=3)
        rows = await under_way(world)
        assert [(row["class"], row["key"], row["method"], row["kind"]) for row in rows] == [
            ("Bell", "a", "do", "call")
        ] * 3
        assert [(row["state"], row["for_ms"]) for row in rows] == [
            ("running", 5_000),
            ("waiting", 3_000),
            ("waiting", 3_000),
        ]
        assert rows[0]["waits_for"] == "its own code, or what that awaits outside"
        assert [row["waits_for"] for row in rows[1:]] == ["its turn, behind do", "its turn, behind do and 1 more"]
        assert {row["node"] for row in rows} == {world.node.name}
        assert {row["caller"] for row in rows} == {None}
        assert await under_way(world, cls="Mute") == []
        assert await under_way(world, prefix="b") == []
        await world.advance(seconds=30)
        assert [await first, await second, await third] == ["done", 1, 2]
        assert await under_way(world) == []


async def test_whoever_waits_for_another_object_says_for_which(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(write_and_hang(30))

        async def asks(self: Any) -> Any:
            return await self.ctx.get(stage.app.deployment.registry.by_name("Bell").cls, "b").do(name)

        async def asks_two(self: Any) -> Any:
            bells = [self.ctx.get(stage.app.deployment.registry.by_name("Bell").cls, key).do(name) for key in "cd"]
            return await asyncio.gather(*bells)

        asked = [asyncio.ensure_future(stage.do(asks)), asyncio.ensure_future(stage.do(asks_two, "e"))]
        await world.advance(seconds=1)
        rows = {row["key"]: row for row in await under_way(world)}
        assert (rows["a"]["waits_for"], rows["b"]["caller"]) == ("Bell/b.do", "Bell/a")
        assert rows["e"]["waits_for"] == "Bell/c.do and 1 other call"
        assert rows["b"]["waits_for"].startswith("its own code")
        assert {row["state"] for row in rows.values()} == {"running"}
        await world.advance(seconds=40)
        assert await asyncio.gather(*asked) == ["done", ["done", "done"]]


async def test_a_turn_that_is_cancelled_is_undone_and_its_caller_is_told_by_whom(stage: Any) -> None:
    async with stage.world() as world:
        hanging = asyncio.ensure_future(stage.do(write_and_hang(), request_key="once"))
        behind = asyncio.ensure_future(stage.do(add_one))
        await world.advance(seconds=1)
        row, _ = await under_way(world)
        await cancel(world, row)
        with pytest.raises(
            errors.CallCancelled, match=r"Bell/a\.do was cancelled by an operator; what it wrote was undone"
        ):
            await hanging
        assert await behind == 1
        assert "x" not in await world.rows(stage.Bell, "a")
        [audited] = (await audit.page(world.node.store)).rows
        assert (audited["actor"], audited["act"], audited["target"]) == ("tester", "call.cancel", row["id"])
        assert audited["outcome"] == "done"
        with pytest.raises(errors.Conflict, match="had ended"):
            await cancel(world, row)
        assert world.node.meter.expired.value == 0  # its deadline had nothing to do with it


async def test_a_request_key_whose_call_was_cancelled_is_free_for_a_repeat(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(write_and_hang(5))
        bell = stage.app.get(stage.Bell, "a", request_key="once")
        first = asyncio.ensure_future(bell.do(name))
        await world.advance(seconds=1)
        [row] = await under_way(world)
        await cancel(world, row)
        with pytest.raises(errors.CallCancelled):
            await first
        assert await bell.do(name) == "done"  # it ran, and was not remembered as anything


async def test_what_waits_for_its_turn_is_cancelled_without_a_trace(stage: Any) -> None:
    async with stage.world() as world:
        hanging = asyncio.ensure_future(stage.do(write_and_hang(10)))
        waiting = asyncio.ensure_future(stage.do(add_one))
        await world.advance(seconds=1)
        _, row = await under_way(world)
        await cancel(world, row)
        with pytest.raises(errors.CallCancelled):
            await waiting
        assert len(await under_way(world)) == 1
        await world.advance(seconds=10)
        assert await hanging == "done"
        assert "n" not in await world.rows(stage.Bell, "a")


async def test_a_turn_that_swallows_it_is_undone_all_the_same(stage: Any) -> None:
    async with stage.world() as world:

        async def stubborn(self: Any) -> str:
            await self.storage.put("x", 1)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
            return "done"

        hanging = asyncio.ensure_future(stage.do(stubborn))
        await world.advance(seconds=1)
        [row] = await under_way(world)
        await cancel(world, row)
        with pytest.raises(errors.CallCancelled):
            await hanging
        assert await world.rows(stage.Bell, "a") == {}


async def test_a_reader_is_seen_beside_the_turn_and_cancelled(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        turn = asyncio.ensure_future(stage.do(write_and_hang(20)))
        looks = asyncio.ensure_future(stage.peek(sleep(100)))
        await world.advance(seconds=1)
        rows = {row["kind"]: row for row in await under_way(world)}
        assert set(rows) == {"call", "reader"}
        await cancel(world, rows["reader"])
        with pytest.raises(errors.CallCancelled):
            await looks
        await world.advance(seconds=30)
        assert await turn == "done"


async def test_a_due_timer_is_seen_and_one_that_is_cancelled_is_tried_again(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(self: Any, info: Any) -> None:
            await self.storage.put("rang", True)
            if info.retry_count == 0:
                await asyncio.sleep(100)

        stage.handlers["a"] = slow
        await stage.set_alarm(world.now() + SECOND)
        await world.advance(seconds=3)
        [row] = await under_way(world)
        assert (row["method"], row["kind"], row["state"], row["for_ms"]) == ("alarm", "timer", "running", 2_000)
        await cancel(world, row)
        await world.advance(seconds=10)
        first, second = await world.ledger(stage.Bell, "a")
        assert (first.verdict, second.verdict) == ("failed", "run")
        assert "Bell/a.alarm was cancelled by an operator" in (first.error or "")


async def test_one_whose_turn_has_ended_is_not_undone_though_its_commit_is_on_its_way(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            writing = asyncio.ensure_future(stage.do(add_one))
            await world.advance(seconds=1)
            [row] = await under_way(world, cls="Bell")
            assert (row["state"], row["waits_for"]) == ("committing", "storage: a commit on its way to disk")
            target, name = calls.parse_call_id(row["id"])
            with pytest.raises(errors.Conflict, match="its turn had ended, and what it wrote is on its way to disk"):
                await world.node.send(target, CANCEL, (name,), {})
            gate.open()
        assert await writing == 2


async def test_a_turn_without_a_slot_says_so(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1, slow_start_turns=1)) as world:
        first = asyncio.ensure_future(stage.do(sleep(10)))
        second = asyncio.ensure_future(stage.do(sleep(10), "b"))
        await world.advance(seconds=1)
        rows = {row["key"]: row for row in await under_way(world)}
        assert (rows["b"]["state"], rows["b"]["waits_for"]) == ("waiting", "a slot: as many turns run as may at once")
        now = world.now()
        await cancel(world, rows["b"])
        with pytest.raises(errors.CallCancelled):
            await second
        assert world.now() == now  # its audit row did not wait for a slot, behind what hangs
        await world.advance(seconds=20)
        await first


async def test_nothing_of_it_is_told_to_another_tenant(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(write_and_hang(5))

        async def asks(self: Any) -> Any:
            return await self.ctx.get(stage.Bell, "us/b").do(name)

        asked = asyncio.ensure_future(stage.do(asks, "eu/a"))
        await world.advance(seconds=1)
        [row] = await under_way(world, prefix="eu/")
        assert (row["key"], row["waits_for"], row["node"]) == ("eu/a", "another object", None)
        [row] = await under_way(world, prefix="us/")
        assert (row["key"], row["caller"]) == ("us/b", None)
        await world.advance(seconds=10)
        await asked


@pytest.mark.parametrize("id", ["", "Bell", "Bell/a", "Bell@x", "/a@x", "Bell/a@"])
async def test_what_is_no_id_is_refused(stage: Any, id: str) -> None:
    async with stage.world() as world:
        with pytest.raises(errors.BadName):
            await Acts.of_node(world.node, "tester").cancel_call(id)
        with pytest.raises(errors.Conflict, match="had ended"):
            await Acts.of_node(world.node, "tester").cancel_call("Bell/a@0123456789ab")
        assert not await world.rows(stage.Bell, "a")


async def test_calls_of_all_nodes_are_seen_from_any_and_cancelled(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2)
    async with world:
        here, there = (key_of(member) for member in world.members)
        asked = [asyncio.ensure_future(troupe.cell(key).add(50.0)) for key in (here, there)]
        await world.advance(seconds=2)
        for member in world.members:
            found = await calls.page(View.of_node(member.node))
            assert ({row["key"] for row in found.rows}, found.mute) == ({here, there}, [])
            assert {row["node"] for row in found.rows} == {one.name for one in world.members}
        rows = {row["key"]: row for row in (await calls.page(View.of_node(world.members[0].node))).rows}
        await Acts.of_node(world.members[0].node, "tester").cancel_call(rows[there]["id"])
        with pytest.raises(errors.CallCancelled, match="by an operator"):
            await asked[1]
        with pytest.raises(errors.Conflict, match="had ended"):
            await Acts.of_node(world.members[0].node, "tester").cancel_call(rows[there]["id"])
        await world.advance(seconds=60)
        assert await asked[0] == 1
        assert "n" not in await world.rows(troupe.Cell, there)


async def test_a_call_over_two_nodes_is_one_row_and_says_who_waits(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2)
    async with world:
        here, there = (key_of(member) for member in world.members)
        blocker = asyncio.ensure_future(troupe.cell(there).add(20.0))
        await world.advance(seconds=1)
        asked = asyncio.ensure_future(troupe.at(world.members[0], here).tell(there, "x", 0.0))
        await world.advance(seconds=1)
        rows = (await calls.page(View.of_node(world.members[1].node))).rows
        assert [(row["key"], row["method"]) for row in rows] == [(there, "add"), (here, "tell"), (there, "tally")]
        assert rows[1]["waits_for"] == f"Cell/{there}.tally"
        assert (rows[2]["caller"], rows[2]["waits_for"]) == (f"Cell/{here}", "its turn, behind add")
        await world.advance(seconds=30)
        assert (await blocker, await asked) == (1, 2)
