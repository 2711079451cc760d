"""Machines that arrive: their delays keep their deadlines, their actors run again, and all of it is one commit."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.importers import import_stage as stage
from wakeful import Machine
from wakeful.importers import xstate
from wakeful.machines.node_machines import NodeMachines
from wakeful.machines.records import Parent
from wakeful.values.errors import BadInput, Conflict, Unavailable
from wakeful.values.ids import ObjectId

AFTER = "xstate.after.60000.order.paid"
O1 = ObjectId("Order", "o-1")


def lived(body: Callable[[Any, Any], Awaitable[None]], app: Any = None) -> None:
    """Run it in a world of virtual time, with something that imports into Order/o-1."""

    async def do() -> None:
        async with (app or stage.make_app()).world(start=stage.START) as world:

            async def bring(data: dict[str, Any], *, id: ObjectId = O1, **options: Any) -> Any:
                found = msgspec.to_builtins(xstate.read(data))
                return await world.node.send(id, "machine.import", (found,), options)

            await body(world, bring)

    asyncio.run(do())


async def snapshot(world: Any) -> Any:
    return await world.node.send(O1, "snapshot", (), {})


async def verdicts(world: Any) -> list[str]:
    order = world.app.deployment.registry.by_name("Order").cls
    return [run.verdict for run in await world.ledger(order, "o-1", f"machine:{AFTER}")]


def said(report: dict[str, Any], kind: str) -> dict[str, str]:
    return {one["name"]: one["note"] for one in report[kind]}


def test_a_delay_fires_at_the_deadline_it_had() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring({**stage.PAID, "_scheduledEvents": stage.scheduled(AFTER, 60_000, ago=20_000)})
        assert said(report, "taken")[AFTER] == "due 2026-11-15T11:00:40.000Z"
        assert (await snapshot(world)).value == {"paid": "y"}
        await world.advance(seconds=39)
        assert (await snapshot(world)).value == {"paid": "y"}
        await world.advance(seconds=2)
        assert (await snapshot(world)).status == "done"
        assert await verdicts(world) == ["run"]

    lived(body)


def test_a_delay_that_is_past_fires_at_once_and_once() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring({**stage.PAID, "_scheduledEvents": stage.scheduled(AFTER, 60_000, ago=3_600_000)})
        assert said(report, "taken")[AFTER] == "was due 2026-11-15T10:01:00.000Z: fires at once"
        await world.advance(seconds=1)
        assert (await snapshot(world)).value == "expired"
        assert await verdicts(world) == ["run"]

    lived(body)


def test_delays_that_the_file_lacks_are_counted_anew_or_left() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring(stage.PLACED, is_dry=True, restarts=False)
        assert set(said(report, "left")) == {"xstate.after.24h.order.placed", "xstate.after.soon.order.placed"}
        report = await bring(stage.PLACED)
        assert (
            "counted from now, due 2026-11-16T11:00:00.000Z" in said(report, "taken")["xstate.after.24h.order.placed"]
        )
        due = (await snapshot(world)).due
        assert due["xstate.after.soon.order.placed"] - world.now() == timedelta(hours=1)

    lived(body)


def test_a_delay_that_has_fired_is_not_set_again() -> None:
    async def body(world: Any, bring: Any) -> None:
        events = stage.scheduled("xstate.after.86400000.order.placed", stage.DAY)
        await bring({**stage.PLACED, "_scheduledEvents": events})
        assert list((await snapshot(world)).due) == ["xstate.after.24h.order.placed"]
        await bring({**stage.PLACED, "_scheduledEvents": {}}, replaces=True)
        assert (await snapshot(world)).due == {}
        assert await world.due() == []

    lived(body)


def test_a_delay_in_milliseconds_is_the_one_that_the_chart_writes_as_text() -> None:
    async def body(world: Any, bring: Any) -> None:
        events = stage.scheduled("xstate.after.86400000.order.placed", stage.DAY, ago=stage.DAY // 2)
        await bring({**stage.PLACED, "_scheduledEvents": events})
        due = (await snapshot(world)).due
        assert due["xstate.after.24h.order.placed"] - world.now() == timedelta(hours=12)

    lived(body)


def test_actors_of_active_states_run_again_with_their_input() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring({**stage.PAID, "_scheduledEvents": stage.scheduled(AFTER, 60_000)})
        taken = said(report, "taken")
        assert taken["shipping"] == "ship runs again from its start"
        assert taken["kid1"] == "Kid goes on where it was"
        await world.advance(seconds=6)
        assert (await snapshot(world)).context == {"n": 1, "shipped": {"q": 1}}

    lived(body)


KID: dict[str, Any] = {"status": "active", "value": "b", "historyValue": {}, "context": {"size": 7}, "children": {}}


def with_kid(kid: dict[str, Any], **more: Any) -> dict[str, Any]:
    children = {id: {"src": "Kid", "snapshot": one, "syncSnapshot": False} for id, one in {"kid1": kid, **more}.items()}
    return {**stage.PAID, "children": children}


async def kid_of(world: Any, id: str = "kid1") -> Any:
    return await world.node.send(ObjectId("Kid", f"o-1/{id}"), "snapshot", (), {})


def test_the_version_before_reads_the_letter_to_a_child_as_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    letters: list[Any] = []
    monkeypatch.setattr(NodeMachines, "mail", lambda self, turn, target, letter: letters.append(letter))

    async def body(world: Any, bring: Any) -> None:
        await bring(with_kid(KID), restarts=True)
        [(kind, *rest)] = letters
        parent, input = (
            Parent(*rest[0]),
            rest[1],
        )  # as caeae0f unpacks it: it begins the child, and looks at nothing more
        assert (kind, parent.id, parent.actor, input) == ("start", O1, "kid1", None)

    lived(body)


def test_a_child_machine_goes_on_where_it_was_and_belongs_to_its_parent() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring(with_kid(KID), restarts=True)
        taken = said(report, "taken")
        assert (taken["kid1"], taken["kid1: active"]) == ("Kid goes on where it was", "")
        await world.settle()
        kid = await kid_of(world)
        assert (kid.value, kid.context) == ("b", {"size": 7})
        await world.node.send(ObjectId("Kid", "o-1/kid1"), "send", ("TELL",), {})
        await world.settle()
        assert (await snapshot(world)).value == "out"  # it told its parent, which left the state that it was for
        assert (await kid_of(world)).status == "new"

    lived(body)


def test_the_delays_of_a_child_machine_keep_their_deadlines() -> None:
    async def body(world: Any, bring: Any) -> None:
        events = {
            **stage.scheduled("xstate.after.5000.kid.a", 5_000, ago=2_000, actor="kid1"),
            **stage.scheduled(AFTER, 60_000),
        }
        report = await bring({**with_kid({**KID, "value": "a"}), "_scheduledEvents": events})
        assert said(report, "taken")["kid1: xstate.after.5000.kid.a"] == "due 2026-11-15T11:00:03.000Z"
        await world.advance(milliseconds=2_900)
        assert (await kid_of(world)).value == "a"
        await world.advance(milliseconds=200)
        assert (await kid_of(world)).value == "b"

    lived(body)


def test_a_child_that_an_action_started_comes_along_when_the_chart_knows_it() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring(with_kid(KID, kid2={**KID, "context": {"size": 2}}))
        assert said(report, "taken")["kid2"] == "Kid goes on where it was"
        await world.settle()
        assert (await kid_of(world, "kid2")).context == {"size": 2}
        await world.crash()
        await world.restart()
        assert (await world.node.send(O1, "send", ("OUT",), {})).value == "out"

    lived(body)


def test_a_child_that_does_not_fit_its_chart_keeps_all_of_them_out() -> None:
    async def body(world: Any, bring: Any) -> None:
        for is_dry in (True, False):
            with pytest.raises(BadInput, match=r"actor kid1 \(Kid\): .*'gone'"):
                await bring(with_kid({**KID, "value": "gone"}), is_dry=is_dry)
        assert (await snapshot(world)).status == "new"

    lived(body)


def test_actors_that_had_ended_or_that_nothing_here_is_stay_behind() -> None:
    async def body(world: Any, bring: Any) -> None:
        children = {
            "shipping": {"src": "ship", "snapshot": {"status": "done", "output": 1}},
            "loose": {"src": "gone", "snapshot": {"status": "active"}},
            "nameless": {"src": {}, "snapshot": {"status": "active"}},
        }
        report = await bring({**stage.PAID, "children": children})
        assert said(report, "left") == {
            "shipping": "it is done",
            "loose": "no active state invokes it, and no action of the chart starts it",
            "nameless": "no active state invokes it, and no action of the chart starts it",
        }

    lived(body)


def test_history_is_kept() -> None:
    async def body(world: Any, bring: Any) -> None:
        await bring(stage.OUT)
        after = await world.node.send(O1, "send", ("BACK",), {})
        assert after.value == {"paid": "y"}

    lived(body)


def test_a_delayed_event_of_its_own_arrives_too() -> None:
    async def body(world: Any, bring: Any) -> None:
        events = {**stage.scheduled("r1", 5_000, event="REMIND"), **stage.scheduled(AFTER, 60_000)}
        await bring({**stage.PAID, "_scheduledEvents": events})
        await world.advance(seconds=6)
        assert (await snapshot(world)).value == "expired"

    lived(body)


def test_a_machine_that_is_done_stays_done() -> None:
    async def body(world: Any, bring: Any) -> None:
        done = {**stage.PLACED, "value": "expired", "status": "done", "output": 7, "children": stage.PAID["children"]}
        report = await bring({**done, "_scheduledEvents": stage.scheduled(AFTER, 1)})
        assert set(said(report, "left")) == {AFTER, "shipping", "kid1"}
        now = await snapshot(world)
        assert (now.status, now.output, now.due) == ("done", 7, {})
        assert await world.due() == []

    lived(body)


def test_a_dry_run_writes_nothing() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring(stage.PAID, is_dry=True)
        assert (report["is_imported"], report["value"]) == (False, {"paid": "y"})
        assert (await snapshot(world)).status == "new"
        assert await world.due() == []

    lived(body)


def test_what_lives_is_replaced_only_when_that_is_wished() -> None:
    async def body(world: Any, bring: Any) -> None:
        await world.node.send(O1, "send", ("PAY",), {})
        with pytest.raises(Conflict, match="has been started already; --replace"):
            await bring(stage.PLACED)
        report = await bring(stage.PLACED, replaces=True)
        assert report["was_replaced"]
        assert (await snapshot(world)).value == "placed"
        names = {timer.name for timer in await world.due() if timer.id == O1}
        assert names == {"machine:xstate.after.24h.order.placed", "machine:xstate.after.soon.order.placed"}

    lived(body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**stage.PLACED, "value": "nowhere"}, "nowhere"),
        ({**stage.PLACED, "value": {"placed": "x"}}, "placed"),
        ({**stage.OUT, "historyValue": {"cart.h": []}}, "'#cart.h', and the chart has no such state"),
        (
            {**stage.PAID, "_scheduledEvents": stage.scheduled("xstate.after.9.shop.paid", 9)},
            "delay xstate.after.9.shop.paid: the chart has no such delay; its ids are like",
        ),
    ],
)
def test_a_snapshot_of_another_chart_is_refused_and_nothing_is_written(data: dict[str, Any], message: str) -> None:
    async def body(world: Any, bring: Any) -> None:
        with pytest.raises(BadInput) as caught:
            await bring(data)
        assert message in caught.value.message
        assert (await snapshot(world)).status == "new"

    lived(body)


def test_a_delay_of_a_state_that_is_not_active_is_left() -> None:
    async def body(world: Any, bring: Any) -> None:
        report = await bring({**stage.PLACED, "_scheduledEvents": stage.scheduled(AFTER, 60_000)})
        assert said(report, "left")[AFTER] == "its state '#order.paid' is not active"

    lived(body)


def test_an_older_version_of_the_chart_is_migrated() -> None:
    app = stage.make_app()

    @app.object
    class Newer(Machine):
        chart = {"initial": "b", "states": {"b": {}}}
        version = 2

        def migrate(self, snapshot: dict[str, Any], from_version: int) -> dict[str, Any]:
            return {**snapshot, "value": {"a": "b"}[snapshot["value"]]}

    async def body(world: Any, bring: Any) -> None:
        id = ObjectId("Newer", "n")
        report = await bring({**stage.PLACED, "value": "a"}, id=id, from_version=1)
        assert report["value"] == "b"

    lived(body, app)


def test_a_class_that_is_no_machine_takes_none() -> None:
    async def body(world: Any, bring: Any) -> None:
        with pytest.raises(
            BadInput, match="Plain is no Machine, so it has no chart; the program's machines: Kid, Order"
        ):
            await bring(stage.PLACED, id=ObjectId("Plain", "p"))

    lived(body)


def test_what_was_brought_in_survives_a_crash() -> None:
    async def body(world: Any, bring: Any) -> None:
        await bring({**stage.PAID, "_scheduledEvents": stage.scheduled(AFTER, 60_000, ago=20_000)})
        await world.crash()
        await world.restart(after="30s")
        assert (await snapshot(world)).context == {"n": 1, "shipped": {"q": 1}}
        await world.advance(seconds=11)
        assert (await snapshot(world)).value == "expired"

    lived(body)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_fails_leaves_all_of_it_or_nothing(when: Any) -> None:
    async def body(world: Any, bring: Any) -> None:
        await snapshot(world)
        data = {**stage.PAID, "_scheduledEvents": stage.scheduled(AFTER, 60_000, ago=20_000)}
        world.faults.fail_commit(when=when)
        with pytest.raises(Unavailable):
            await bring(data)
        await world.advance(seconds=5)  # until the store is back
        now = await snapshot(world)
        names = {timer.name for timer in await world.due() if timer.id == O1}
        if when == "before":
            assert (now.status, names) == ("new", set())
            await bring(data)
        else:
            assert (now.value, f"machine:{AFTER}" in names) == ({"paid": "y"}, True)
        await world.advance(seconds=41)
        assert await verdicts(world) == ["run"]

    lived(body)


def test_the_chart_of_a_class_can_be_asked_for_without_an_object() -> None:
    async def body(world: Any, bring: Any) -> None:
        found = await world.node.send(ObjectId("Order", "never"), "machine.chart", (), {})
        assert (found["version"], found["config"]["id"]) == (1, "order")
        assert json.dumps(found["config"])

    lived(body)
