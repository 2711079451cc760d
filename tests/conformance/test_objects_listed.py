"""Objects are listed and counted from the program, by class and beginning of the key, without being woken; on every store."""

from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject, errors
from wakeful.views import objects
from wakeful.views.objects import ObjectInfo

KEYS = ["a", "acme/1", "acme/2", "acme/é", "acme0", "zeta/1"]


def make_app(**options: Any) -> tuple[App, type, type]:
    app = App(**options)

    @app.object
    class Order(DurableObject):
        async def open(self) -> None:
            await self.storage.put("is_open", True)

    @app.object
    class Other(Order):
        pass

    return app, Order, Other


async def keys(app: App, cls: type, prefix: str = "") -> list[str]:
    return [order.key async for order in app.objects(cls, prefix)]


async def test_objects_come_by_key_and_are_counted_without_being_woken(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PAGE", 2)
    app, order, other = make_app()
    async with app.world(store=store_url) as world:
        began = world.now()
        for key in reversed(KEYS):
            await world.get(order, key).open()
        await world.get(other, "acme/9").open()
        await world.advance(minutes=1)
        await world.sleep_all()
        wakes = world.node.meter.wakes.value
        assert await keys(app, order) == KEYS
        assert await keys(app, order, "acme/") == ["acme/1", "acme/2", "acme/é"]
        assert await keys(app, order, "nobody") == []
        counts = [await app.count(order, prefix) for prefix in ("", "acme/", "acme", "nobody", "acme/\U0010ffff")]
        assert counts == [6, 3, 4, 0, 0]
        assert await app.count(other) == 1
        first = [one async for one in app.objects(order, "acme/1")]
        assert first == [ObjectInfo("acme/1", began, began, 1, first[0].bytes)]
        assert world.node.meter.wakes.value == wakes


async def test_objects_of_several_stores_are_one_list(tmp_path: Path) -> None:
    app, order, _ = make_app(stores={"eu/": f"sqlite:{tmp_path / 'eu.db'}"})
    async with app.run("memory:"):
        for key in ("us/1", "eu/2", "eu/1", "ap/1"):
            await app.get(order, key).open()
        assert await keys(app, order) == ["ap/1", "eu/1", "eu/2", "us/1"]
        assert (await app.count(order), await app.count(order, "eu/")) == (4, 2)


async def test_objects_of_an_app_that_does_not_run_are_not_known() -> None:
    app, order, _ = make_app()
    with pytest.raises(errors.NotRunning):
        await keys(app, order)
    with pytest.raises(errors.NotRunning):
        await app.count(order)
    async with app.run("memory:"):
        with pytest.raises(errors.UnknownClass):
            await app.count(int)
