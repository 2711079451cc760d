"""A chart that changes under living machines: brought over by the class, or refused with what does not fit."""

import asyncio
from typing import Any

import pytest

from wakeful import App, Machine, errors
from wakeful.testing import World

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
