"""`self.state`: a typed value that lives across turns without anyone saving it; on every store."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.conformance.acts import Expected
from wakeful import DurableObject, reader
from wakeful.runtime.registry import Registry
from wakeful.values.errors import (
    BadOption,
    BadValue,
    ReadOnly,
)


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)
    total: int = 0


class Tally(msgspec.Struct):
    counts: dict[str, int] = {}
    note: str = "new"


class Shop(DurableObject):
    state: Basket

    async def add(self, item: str, *, fail: bool = False, hold: float = 0) -> int:
        self.state.items.append(item)
        self.state.total += 1
        if hold:
            await asyncio.sleep(hold)
        if fail:
            raise Expected
        return self.state.total

    async def replace(self, items: list[str]) -> None:
        self.state = Basket(items, len(items))

    async def wrong(self) -> None:
        self.state = Tally()  # type: ignore[assignment]

    async def unencodable(self) -> None:
        self.state.items.append(object())  # type: ignore[arg-type]

    async def savepoint(self, *, touch_first: bool) -> list[str]:
        if touch_first:
            self.state.items.append("kept")
        try:
            async with self.storage.transaction():
                self.state.items.append("dropped")
                self.state.total = 99
                raise Expected
        except Expected:
            pass
        return self.state.items

    async def halfway(self) -> None:
        self.state.items.append("durable")
        await self.ctx.commit()
        self.state.items.append("undone")
        raise Expected

    async def untouched(self) -> None:
        await self.storage.put("x", 1)

    @reader
    async def look(self) -> Basket:
        return self.state

    @reader
    async def scribble(self) -> int:
        self.state.items.append("never")
        return len(self.state.items)

    @reader
    async def assign(self) -> None:
        self.state = Basket(["never"])


class Counter(DurableObject):
    state: Tally

    async def count(self, name: str) -> int:
        self.state.counts[name] = self.state.counts.get(name, 0) + 1
        return self.state.counts[name]

    @reader
    async def look(self) -> Tally:
        return self.state


async def test_state_is_a_typed_value_that_is_saved_with_the_turn_that_changed_it(stage: Any) -> None:
    stage.app.object(Shop)
    stage.app.object(Counter)
    async with stage.world() as world:
        shop, counter = world.get(Shop, "s"), world.get(Counter, "c")
        assert await shop.look() == Basket()
        assert await shop.add("tea") == 1
        assert await counter.count("x") == 1
        await world.sleep_all()
        assert await shop.look() == Basket(["tea"], 1)
        assert await counter.look() == Tally({"x": 1}, "new")
        await world.crash()
        await world.restart()
        assert await shop.add("milk") == 2
        assert await counter.count("x") == 2
        await shop.replace(["only"])
        await world.crash()
        await world.restart()
        assert await shop.look() == Basket(["only"], 1)
        assert await world.rows(Shop, "s") == {}


async def test_state_rolls_back_with_its_turn(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")
        with pytest.raises(Expected):
            await shop.add("bad", fail=True)
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(Expected):
            await shop.halfway()
        assert (await shop.look()).items == ["tea", "durable"]
        assert await shop.add("milk") == 2
        await world.sleep_all()
        assert (await shop.look()).items == ["tea", "durable", "milk"]


@pytest.mark.parametrize("touch_first", [False, True])
async def test_state_rolls_back_to_its_savepoint(stage: Any, touch_first: bool) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")
        expected = ["tea", "kept"] if touch_first else ["tea"]
        assert await shop.savepoint(touch_first=touch_first) == expected
        assert await shop.look() == Basket(expected, 1)
        await world.sleep_all()
        assert await shop.look() == Basket(expected, 1)


async def test_state_touched_only_in_a_transaction_that_raised_is_left_alone(stage: Any) -> None:
    stage.app.object(Shop)

    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")

        async def body(self: Any) -> None:
            try:
                async with self.storage.transaction():
                    self.state.items.append("dropped")
                    raise Expected
            except Expected:
                pass

        Shop.quiet = lambda self: body(self)  # type: ignore[attr-defined]
        original = Shop.untouched
        Shop.untouched = body  # type: ignore[method-assign]
        try:
            await shop.untouched()
        finally:
            Shop.untouched = original  # type: ignore[method-assign]
            del Shop.quiet  # type: ignore[attr-defined]
        await world.sleep_all()
        assert await shop.look() == Basket(["tea"], 1)


async def test_a_reader_gets_a_copy_of_the_state(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world():
        shop = stage.app.get(Shop, "s")
        await shop.add("tea")
        assert await shop.scribble() == 2
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(ReadOnly):
            await shop.assign()
        turn = asyncio.create_task(shop.add("milk", hold=10, fail=True))
        await asyncio.sleep(1)
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(Expected):
            await turn
        assert await shop.look() == Basket(["tea"], 1)


async def test_state_that_was_not_changed_is_not_written(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.look()
        await shop.untouched()
        info = await world.info(Shop, "s")
        assert info is not None
        assert info.rows == 1


async def test_a_state_of_the_wrong_type_or_unencodable_is_an_error(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world():
        shop = stage.app.get(Shop, "s")
        with pytest.raises(BadValue, match="state must be a Basket, not Tally"):
            await shop.wrong()
        with pytest.raises(BadValue, match=r"Shop/s: state: .*items.*\[0\]"):
            await shop.unencodable()
        assert await shop.look() == Basket()

        async def body(self: Any) -> Any:
            return self.state

        with pytest.raises(BadOption, match="declares no state"):
            await stage.do(body)


@dataclass
class NewBasket:
    items: list[str] = field(default_factory=list)
    currency: str = "EUR"
    paid: bool = False


class NewShop(DurableObject):
    state: NewBasket

    @reader
    async def look(self) -> NewBasket:
        return self.state

    async def pay(self) -> None:
        self.state.paid = True


async def test_state_survives_a_class_whose_fields_changed(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        await world.get(Shop, "s").add("tea")
        await world.crash()
        stage.app.deployment.registry = Registry()
        stage.app.object(NewShop, name="Shop")
        await world.restart()
        shop = world.get(NewShop, "s")
        assert await shop.look() == NewBasket(["tea"], "EUR", False)
        await shop.pay()
        await world.sleep_all()
        assert await shop.look() == NewBasket(["tea"], "EUR", True)
