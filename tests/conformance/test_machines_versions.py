"""A chart that changes under living machines: brought over by the class, or refused with what does not fit."""

import asyncio
from typing import Any

import pytest

from wakeful import App, Machine, errors
from wakeful.machines.records import ROW
from wakeful.testing import World
from wakeful.values.codec import decode
from wakeful.values.ids import ObjectId

OLD = {
    "initial": "cart",
    "context": {"n": 0},
    "states": {
        "cart": {"on": {"BUY": "bought"}, "after": {"1h": "left"}},
        "bought": {"invoke": {"id": "pack", "src": "pack"}},
        "left": {},
    },
}
NEW = {
    "initial": "basket",
    "context": {"n": 0},
    "states": {
        "basket": {"on": {"BUY": "bought"}, "after": {"2h": "left"}},
        "bought": {},
        "left": {},
    },
}


def program(chart: Any, *, number: int = 1, migrating: Any = None) -> tuple[App, Any]:
    """One version of a program."""
    app = App()

    class Shop(Machine):
        version = number

        async def pack(self, context: Any, event: Any) -> None:
            await asyncio.sleep(3600)

    Shop.chart = chart
    if migrating is not None:
        Shop.migrate = migrating  # type: ignore[method-assign]
    return app, app.object(Shop)


async def hand_on(world: World, app: App) -> World:
    """Another program comes up on the same disk."""
    await world.crash()
    later = app.world(start=world.now())
    later._disk = world._disk
    later._warp = world._warp
    later.faults = world.faults
    later._beside = world._beside
    await later._boot()
    return later


def renamed(self: Any, snapshot: dict[str, Any], from_version: int) -> dict[str, Any]:
    assert from_version == 1
    if snapshot["value"] != "cart":
        return {**snapshot, "children": {}}
    pending = [
        {**one, "id": "xstate.after.2h.Shop.basket", "due_at": one["due_at"] + 3_600_000}
        | {"event": {"type": "xstate.after.2h.Shop.basket"}}
        for one in snapshot["pending"]
    ]
    return {**snapshot, "value": "basket", "pending": pending}


async def test_a_class_brings_its_machines_over_with_their_delays() -> None:
    old, shop = program(OLD)
    new, new_shop = program(NEW, number=2, migrating=renamed)
    async with old.world() as world:
        began = world.now()
        await world.get(shop, "a").start()
        await world.get(shop, "b").start()
        await world.get(shop, "b").send("BUY")
        await world.settle()
        later = await hand_on(world, new)
        assert (await later.get(new_shop, "a").snapshot()).value == "basket"  # a look writes nothing
        assert [t.name for t in await later.due() if t.id.key == "a"] == ["machine:xstate.after.1h.Shop.cart"]
        assert (await later.get(new_shop, "b").send("NOTHING")).value == "bought"
        await later.settle()
        assert [t.name for t in await later.due() if t.id.key == "b"] == []  # its method is not in the new chart
        await later.advance(hours=1, minutes=1)  # the old timer is due, and turns into the new one
        [timer] = await later.due()
        assert timer.name == "machine:xstate.after.2h.Shop.basket"
        await later.advance(hours=1)
        snapshot = await later.get(new_shop, "a").snapshot()
        assert (snapshot.value, snapshot.version) == ("left", 2)
        runs = await later.ledger(new_shop, "a", "machine:xstate.after.2h.Shop.basket")
        assert [(run.fired_at - began).total_seconds() for run in runs] == [7200]
        later.kill()
        await world.restart()


async def test_one_that_does_not_fit_is_refused_and_its_timers_are_parked() -> None:
    old, shop = program(OLD)
    new, new_shop = program(NEW)
    async with old.world() as world:
        await world.get(shop, "a").start()
        later = await hand_on(world, new)
        for call in (later.get(new_shop, "a").send("BUY"), later.get(new_shop, "a").snapshot()):
            with pytest.raises(errors.Conflict, match=r"Shop/a does not fit.*'cart'.*migrate") as refused:
                await call
            assert refused.value.code == "chart.unfit"
        await later.advance(hours=1)
        [parked] = await later.parked()
        assert (parked.timer.name, "cart" in parked.error) == ("machine:xstate.after.1h.Shop.cart", True)
        later.kill()
        await world.restart()
        # The old program comes back: nothing was reset, and what was parked can be redriven.
        assert (await world.get(shop, "a").snapshot()).value == "cart"
        await world.node.redrive(parked)
        await world.settle()
        assert (await world.get(shop, "a").snapshot()).value == "left"


async def test_a_delay_that_the_chart_does_not_know_any_more_does_not_vanish() -> None:
    old, shop = program(OLD)
    changed = {**OLD, "states": {**OLD["states"], "cart": {"on": {"BUY": "bought"}, "after": {"5h": "left"}}}}  # type: ignore[dict-item]
    new, new_shop = program(changed)
    async with old.world() as world:
        await world.get(shop, "a").start()
        later = await hand_on(world, new)
        with pytest.raises(errors.Conflict, match=r"no delay 'xstate.after.1h.Shop.cart'"):
            await later.get(new_shop, "a").send("BUY")
        later.kill()
        await world.restart()


async def test_a_newer_snapshot_waits_for_the_newer_program() -> None:
    old, shop = program(OLD)
    new, new_shop = program(OLD, number=2)
    async with new.world() as world:
        await world.get(new_shop, "a").start()
        earlier = await hand_on(world, old)
        with pytest.raises(errors.Conflict, match="finish the roll-out"):
            await earlier.get(shop, "a").send("BUY")
        await earlier.advance(hours=1, minutes=10)
        assert await earlier.parked() == []
        earlier.kill()
        await world.restart()
        await world.advance(minutes=2)
        assert (await world.get(new_shop, "a").snapshot()).value == "left"


async def test_a_migration_that_answers_nonsense_is_refused() -> None:
    old, shop = program(OLD)
    new, new_shop = program(NEW, number=2, migrating=lambda self, snapshot, version: None)
    async with old.world() as world:
        await world.get(shop, "a").start()
        later = await hand_on(world, new)
        with pytest.raises(errors.Conflict, match="migrate must return a snapshot"):
            await later.get(new_shop, "a").send("BUY")
        later.kill()
        await world.restart()


def packing(name: str) -> dict[str, Any]:
    """A chart in which that state has its method under an id of its own making."""
    states = {"cart": {"on": {"BUY": name}}, name: {"invoke": {"src": "pack", "onDone": "packed"}}, "packed": {}}
    return {"initial": "cart", "context": {"n": 0}, "states": states}


async def test_a_method_whose_answer_would_be_for_nobody_does_not_vanish() -> None:
    old, shop = program(packing("bought"))
    without = packing("bought")
    without["states"]["bought"] = {"on": {"PACKED": "packed"}}
    new, new_shop = program(without)
    async with old.world() as world:
        await world.get(shop, "a").send("BUY")
        await world.settle()
        later = await hand_on(world, new)
        with pytest.raises(errors.Conflict, match=r"the chart has no actor '0.Shop.bought', which runs.*migrate"):
            await later.get(new_shop, "a").send("NOTHING")
        await later.advance(hours=2)
        assert [one.timer.name for one in await later.parked()] == ["machine-run:0.Shop.bought"]
        later.kill()
        await world.restart()


async def test_a_method_that_a_migration_puts_under_another_id_runs_there() -> None:
    def moved(self: Any, snapshot: dict[str, Any], from_version: int) -> dict[str, Any]:
        children = {"0.Shop.paid": snapshot["children"]["0.Shop.bought"]}
        return {**snapshot, "value": "paid", "children": children}

    old, shop = program(packing("bought"))
    new, new_shop = program(packing("paid"), number=2, migrating=moved)
    async with old.world() as world:
        await world.get(shop, "a").send("BUY")
        await world.settle()
        later = await hand_on(world, new)
        assert (await later.get(new_shop, "a").send("NOTHING")).value == "paid"
        assert [timer.name for timer in await later.due()] == ["machine-run:0.Shop.paid"]
        await later.advance(hours=1, minutes=1)
        assert (await later.get(new_shop, "a").snapshot()).value == "packed"
        assert await later.parked() == []
        later.kill()
        await world.restart()


async def test_a_migration_may_change_the_snapshot_in_place() -> None:
    def waiting(self: Any, snapshot: dict[str, Any], from_version: int) -> dict[str, Any]:
        pending, children = snapshot["pending"], snapshot["children"]
        pending.clear()
        due_at = self.ctx.now().timestamp() * 1000 + 60_000
        id = "xstate.after.1m.Shop.bought"
        pending.append({"id": id, "due_at": int(due_at), "delay_ms": 60_000, "event": {"type": id}, "target": None})
        children["pack"] = {"src": "pack"}
        snapshot["value"] = "bought"
        return snapshot

    plain = {"initial": "cart", "context": {"n": 0}, "states": {"cart": {"on": {"BUY": "bought"}}, "bought": {}}}
    timed = {"initial": "cart", "states": {"cart": {"after": {"1h": "bought"}}, "bought": {}}}
    fresh = {"initial": "cart", "states": {"cart": {}, "bought": BOUGHT, "left": {}}}
    for before in (plain, timed):
        old, shop = program(before)
        new, new_shop = program(fresh, number=2, migrating=waiting)
        async with old.world() as world:
            await world.get(shop, "a").start()
            await world.get(shop, "b").start()
            later = await hand_on(world, new)
            await later.get(new_shop, "a").send("NOTHING")
            names = {timer.name for timer in await later.due() if timer.id.key == "a"}
            assert names == {"machine:xstate.after.1m.Shop.bought", "machine-run:pack"}
            row = await later.node.store.read(ObjectId("Shop", "a"), ROW[0], [ROW[1]])
            kept = decode(row[ROW[1]])["snapshot"]
            assert (len(kept["pending"]), [*kept["children"]]) == (1, ["pack"])
            again = await hand_on(later, new)
            assert list((await again.get(new_shop, "a").snapshot()).due) == ["xstate.after.1m.Shop.bought"]
            await again.get(new_shop, "new").start()
            assert (await again.get(new_shop, "new").snapshot()).due == {}
            await again.advance(minutes=2)
            assert (await again.get(new_shop, "a").snapshot()).value == "left"
            assert await again.parked() == []
            again.kill()
            await world.restart()


BOUGHT = {"invoke": {"id": "pack", "src": "pack"}, "after": {"1m": "left"}}


async def test_what_migrate_left_unfit_is_said_to_be_so() -> None:
    old, shop = program(OLD)
    new, new_shop = program(NEW, number=2, migrating=lambda self, snapshot, _: {**snapshot, "value": "basket"})
    async with old.world() as world:
        await world.get(shop, "a").start()
        later = await hand_on(world, new)
        words = r"though migrate has had it: pending: .*'xstate.after.1h.Shop.cart'; let migrate rename it"
        with pytest.raises(errors.Conflict, match=words):
            await later.get(new_shop, "a").send("BUY")
        later.kill()
        await world.restart()
