"""Two versions of a program and one `self.state`: what the older does not know it carries along, what does not fit it says; on every store."""

import asyncio
import dataclasses
import gc
import itertools
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.conformance.acts import Expected
from wakeful import DurableObject, reader
from wakeful.runtime.registry import Registry
from wakeful.values import codec
from wakeful.values.codec import RESTS
from wakeful.values.errors import BadValue, Undecodable, Unfit

HERE = sys.modules[__name__]
MODULE = __name__


def _dataclass(name: str, fields: list[Any]) -> Any:
    return _made(dataclasses.make_dataclass(name, [_field(*one) for one in fields]), name)


def _slotted(name: str, fields: list[Any]) -> Any:
    return _made(dataclasses.make_dataclass(name, [_field(*one) for one in fields], slots=True), name)


def _struct(name: str, fields: list[Any]) -> Any:
    return msgspec.defstruct(name, fields, module=MODULE)


def _field(name: str, kind: Any, default: Any) -> Any:
    made = dataclasses.field(default_factory=default.copy) if isinstance(default, list | dict) else default
    return (name, kind, made)


def _made(kind: Any, name: str) -> Any:
    kind.__module__, kind.__qualname__ = MODULE, name
    return kind


KINDS = {"dataclass": _dataclass, "slotted": _slotted, "struct": _struct}


def versions(make: Callable[[str, list[Any]], Any]) -> tuple[SimpleNamespace, SimpleNamespace]:
    """The types of the older program and of the newer one, which has fields and a whole type that the older has not."""
    old_line = make("Line", [("sku", str, ""), ("count", int, 0)])
    place = make("Place", [("town", str, "")])
    new_line = make(
        "Line", [("sku", str, ""), ("colour", str, "none"), ("origin", place | None, None), ("count", int, 0)]
    )

    def order(line: Any, *more: Any) -> Any:
        held = [("lines", list[line], []), ("by", dict[str, line], {}), ("first", line | None, None)]
        return make("Order", [*held, ("total", int, 0), *more])

    old = SimpleNamespace(Line=old_line, Order=order(old_line), Place=None)
    due = ("due", datetime | None, None)
    new = SimpleNamespace(
        Line=new_line, Place=place, Order=order(new_line, ("points", int, 0), ("place", place | None, None), due)
    )
    return old, new


def program(types: SimpleNamespace) -> Any:
    """The object's class with these types as its own."""

    class Shop(DurableObject):
        state: types.Order

        async def fill(self, order: Any) -> None:
            self.state = order
            await self.storage.put("line", order.first)

        async def change(self, how: str) -> None:
            await ACTS[how](self)

        async def alarm(self) -> None:
            self.state.total += 1
            self.state.lines[0].count += 1

        async def later(self) -> None:
            await self.storage.set_alarm(timedelta(minutes=5))

        @reader
        async def look(self) -> Any:
            return self.state

        @reader
        async def row(self) -> Any:
            return await self.storage.get("line")

    return Shop


async def _count(self: Any) -> None:
    self.state.total += 1
    self.state.lines[0].count += 1


async def _move(self: Any) -> None:
    self.state.lines.append(self.state.by.pop("a"))


async def _renew(self: Any) -> None:
    self.state.lines[0] = type(self.state.lines[0])("tea", 7)


async def _assign(self: Any) -> None:
    self.state = type(self.state)(total=5)


async def _undo(self: Any) -> None:
    self.state.total += 1
    try:
        async with self.storage.transaction():
            self.state.lines[0].count += 100
            raise Expected
    except Expected:
        self.state.lines[0].count += 1


async def _raise(self: Any) -> None:
    self.state.total = 99
    raise Expected


async def _row(self: Any) -> None:
    line = await self.storage.get("line")
    line.count += 1
    await self.storage.put("line", line)


async def _adopt(self: Any) -> None:
    self.state.lines.append(await self.storage.get("line"))


async def _half(self: Any) -> None:
    await _count(self)
    await self.ctx.commit()
    await _count(self)


async def _float(self: Any) -> None:
    self.state.total = 1.5


ACTS = {act.__name__[1:]: act for act in (_count, _move, _renew, _assign, _undo, _raise, _row, _adopt, _half, _float)}


class Roll:
    """Deploys one version after the other into the same world."""

    def __init__(self, stage: Any, world: Any, monkeypatch: Any) -> None:
        self._stage, self._world, self._patch = stage, world, monkeypatch

    async def to(self, types: SimpleNamespace) -> Any:
        await self._world.crash()
        for name in ("Line", "Place", "Order"):
            self._patch.setattr(HERE, name, getattr(types, name), raising=False)
        self._stage.app.deployment.registry = Registry()
        cls = program(types)
        self._stage.app.object(cls)
        await self._world.restart()
        return self._world.get(cls, "s")


def full(new: SimpleNamespace) -> Any:
    """An order of the newer program, with something everywhere that the older does not know."""

    def line(sku: str) -> Any:
        return new.Line(sku=sku, colour=f"{sku}-red", origin=new.Place(town="Łódź"), count=1)

    return new.Order(
        lines=[line("tea"), line("milk")],
        by={"a": line("salt")},
        first=line("egg"),
        total=1,
        points=2**70,
        place=new.Place(town="Bonn"),
        due=datetime(2026, 10, 25, 2, 30, tzinfo=UTC),
    )


@pytest.fixture(params=KINDS)
def types(request: Any) -> tuple[SimpleNamespace, SimpleNamespace]:
    return versions(KINDS[request.param])


def _expect(how: str, order: Any, new: SimpleNamespace) -> None:
    """The same change in the newer program's own terms."""
    if how in ("count", "undo", "alarm", "half"):
        order.total += 2 if how == "half" else 1
        order.lines[0].count += 2 if how == "half" else 1
    elif how == "move":
        order.lines.append(order.by.pop("a"))
    elif how == "renew":
        order.lines[0] = new.Line(sku="tea", count=7)
    elif how == "assign":
        order.lines, order.by, order.first, order.total = [], {}, None, 5
    elif how == "adopt":
        order.lines.append(order.first)


@pytest.mark.parametrize("how", ["count", "move", "renew", "assign", "undo", "alarm", "adopt", "half", "raise"])
async def test_an_older_program_that_changes_the_state_keeps_what_it_does_not_know(
    stage: Any, types: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = types
    async with stage.world() as world:
        roll = Roll(stage, world, monkeypatch)
        shop = await roll.to(new)
        await shop.fill(full(new))
        shop = await roll.to(old)
        assert (await shop.look()).total == 1
        expected = full(new)
        if how == "alarm":
            await shop.later()
            await world.advance("10m")
        elif how == "raise":
            with pytest.raises(Expected):
                await shop.change(how)
        else:
            await shop.change(how)
        _expect(how, expected, new)
        if how != "assign":  # a turn later, in the same copy and in another
            await shop.change("count")
            await world.sleep_all()
            await shop.change("count")
            expected.total += 2
            expected.lines[0].count += 2
        shop = await roll.to(new)
        assert await shop.look() == expected


async def test_a_row_of_a_type_that_lost_fields_keeps_them_when_it_is_read_changed_and_put(
    stage: Any, types: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = types
    async with stage.world() as world:
        roll = Roll(stage, world, monkeypatch)
        await (await roll.to(new)).fill(full(new))
        await (await roll.to(old)).change("row")
        found = await (await roll.to(new)).row()
        assert found == new.Line(sku="egg", colour="egg-red", origin=new.Place(town="Łódź"), count=2)


async def test_what_is_carried_along_is_let_go_with_the_object(
    stage: Any, types: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = types
    async with stage.world() as world:
        roll = Roll(stage, world, monkeypatch)
        await (await roll.to(new)).fill(full(new))
        shop = await roll.to(old)
        for how in ("count", "row", "adopt", "undo", "count"):
            await shop.change(how)
        assert RESTS
        del shop
        await world.sleep_all()
        await asyncio.sleep(1)
    gc.collect()
    assert not RESTS


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Inner:
    n: Any = 0


@dataclasses.dataclass
class IntInner(Inner):
    n: int = 0


IntInner.__qualname__ = "Inner"
GOOD: dict[str, tuple[Any, Any]] = {
    "an int for a float": (3, float),
    "a bool for an int": (True, int),
    "None that is optional": (None, int | None),
    "one of several": ("x", int | str),
    "items": ([1, 2], list[int]),
    "a tuple": ((1, "x"), tuple[int, str]),
    "a set": ({1}, set[int]),
    "keys and values": ({1: "x"}, dict[int, str]),
    "an enum": (Colour.RED, Colour),
    "a time": (datetime(2026, 1, 1, tzinfo=UTC), datetime),
    "anything": ({"x": [1]}, Any),
    "bare": ([1, "x"], list),
}
# What is stored, what the class says now, and the words for place, stored and wanted.
BAD: dict[str, tuple[Any, Any, tuple[str, str, str]]] = {
    "an int for a str": (1, str, ("x", "int", "str")),
    "a str for an int": ("1", int, ("x", "str", "int")),
    "None for an int": (None, int, ("x", "None", "int")),
    "a float for an int": (1.5, int, ("x", "float", "int")),
    "a str for a time": ("2026-01-01", datetime, ("x", "str", "datetime")),
    "a str for an enum": ("red", Colour, ("x", "str", "Colour")),
    "an item": ([1, "x"], list[int], ("x[1]", "str", "int")),
    "a value": ({"a": 1, "b": [2, None]}, dict[str, int | list[int]], ("x['b'][1]", "None", "int")),
    "a list for a dict": ([1], dict[str, int], ("x", "list", "dict[str, int]")),
    "none of several": (b"x", int | str | None, ("x", "bytes", "int | str | None")),
    "a dict for a dataclass": ({"n": 1}, Inner, ("x", "dict", "Inner")),
    "in a dataclass": ([Inner("x")], list[IntInner], ("x[0].n", "str", "int")),
}


def holding(kind: Any, default: Any, how: str) -> Any:
    box = KINDS[how]("Box", [("x", kind, default), ("tries", int, 0)])

    class Holder(DurableObject):
        state: box

        async def put(self, value: Any) -> None:
            self.state.x = value

        async def later(self) -> None:
            await self.storage.set_alarm(timedelta(minutes=1))

        async def touch(self) -> Any:
            self.state.tries += 1
            return self.state.x

        @reader
        async def look(self) -> Any:
            return self.state.x

        async def alarm(self) -> None:
            self.state.tries += 1

    return Holder


async def _deployed(stage: Any, world: Any, cls: Any) -> Any:
    await world.crash()
    stage.app.deployment.registry = Registry()
    stage.app.object(cls)
    await world.restart()
    return world.get(cls, "h")


async def _stored(stage: Any, world: Any, value: Any, kind: Any, how: str, monkeypatch: Any) -> Any:
    """An object whose state was written with this value, in a program that wants that type."""
    loose = await _deployed(stage, world, holding(Any, "unset", how))
    await loose.put(value)
    await loose.later()
    if kind == list[IntInner]:
        monkeypatch.setattr(HERE, "Inner", IntInner)
    return await _deployed(stage, world, holding(kind, ..., how))


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("case", GOOD)
async def test_a_value_that_fits_its_annotation_is_read_as_ever(
    stage: Any, case: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, kind = GOOD[case]
    async with stage.world() as world:
        held = await _stored(stage, world, value, kind, how, monkeypatch)
        assert await held.look() == value
        assert await held.touch() == value


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("case", BAD)
async def test_a_value_whose_type_no_longer_fits_is_an_error_that_names_it(
    stage: Any, case: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, kind, words = BAD[case]
    async with stage.world() as world:
        held = await _stored(stage, world, value, kind, how, monkeypatch)
        for method in ("look", "touch", "look"):
            with pytest.raises(Unfit) as caught:
                await getattr(held, method)()
            error = caught.value
            assert (error.path, error.stored, error.wanted) == words
            assert f"Holder/h: state.{words[0]} is stored as {words[1]}, and Box wants {words[2]};" in str(error)
            assert error.code == "state.fit"


async def test_the_timer_of_a_state_that_does_not_fit_is_tried_again_parked_and_works_with_the_right_program(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.world() as world:
        await _stored(stage, world, "text", int, "dataclass", monkeypatch)
        await world.advance("6h")  # days would take minutes on PostgreSQL
        (parked,) = await world.parked()
        assert "state.x is stored as str, and Box wants int" in parked.error
        assert parked.timer.attempt > 1
        right = await _deployed(stage, world, holding(str, "", "dataclass"))
        assert await right.look() == "text"
        await world.node.redrive(parked)
        await world.advance("1m")
        assert await world.parked() == []
        assert await right.touch() == "text"


async def test_a_state_that_could_not_be_read_again_is_refused_in_the_turn_that_made_it(
    stage: Any, types: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = types
    async with stage.world() as world:
        shop = await Roll(stage, world, monkeypatch).to(old)
        with pytest.raises(BadValue, match=r"Shop/s: state.total would be stored as float, and Order wants int"):
            await shop.change("float")
        assert (await shop.look()).total == 0


async def test_a_type_in_a_known_field_that_is_not_loaded_is_named_with_the_object(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_homes", [])  # another test's program may have a type of that name
    old, new = versions(_dataclass)
    async with stage.world() as world:
        roll = Roll(stage, world, monkeypatch)
        await (await roll.to(new)).fill(full(new))
        old.Line = None
        shop = await roll.to(old)
        with pytest.raises(Undecodable, match=r"Shop/s: state: stored value is a .*:Line, which is not loaded here"):
            await shop.look()


async def test_a_state_that_is_assigned_stays_though_the_turn_before_put_in_parts_of_a_newer_program(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look at it took the state before for it, and the assignment was lost."""
    old, new = (_struct("Line", [("sku", str, ""), *more]) for more in ([], [("colour", str, "red")]))
    order = _struct("Order", [("line", Any, None), ("total", int, 0)])

    class Shelf(DurableObject):
        state: order  # type: ignore[valid-type]

        async def keep(self) -> None:
            await self.storage.put("line", new("x"))

        async def look(self) -> int:
            return self.state.total

        async def take(self) -> None:
            self.state.line = await self.storage.get("line")

        async def assign(self) -> int:
            self.state = order(None, 7)
            return self.state.total

    async with stage.world() as world:
        monkeypatch.setattr(HERE, "Line", new, raising=False)
        shelf = await _deployed(stage, world, Shelf)
        await shelf.keep()
        monkeypatch.setattr(HERE, "Line", old)
        shelf = await _deployed(stage, world, Shelf)
        assert await shelf.look() == 0
        await shelf.take()
        assert await shelf.assign() == 7
        assert await shelf.look() == 7


@pytest.mark.parametrize("how", ["dataclass", "struct"])
async def test_what_a_default_makes_up_is_the_same_next_time_also_for_a_field_that_is_new(stage: Any, how: str) -> None:
    """An id or a time that a turn only read was not saved, and another the next time the object woke."""
    numbers = itertools.count(1)

    def plate(*names: str) -> Any:
        if how == "struct":
            made = [(name, int, msgspec.field(default_factory=lambda: next(numbers))) for name in names]
            return msgspec.defstruct("Plate", [*made, ("items", list, [])], module=MODULE)
        fields: Any = [(name, int, dataclasses.field(default_factory=lambda: next(numbers))) for name in names]
        return dataclasses.make_dataclass("Plate", fields)

    def program_of(kind: Any) -> Any:
        class Car(DurableObject):
            state: kind

            async def look(self) -> Any:
                return dict(codec.fields_of(self.state))

        return Car

    async with stage.world() as world:
        seen = []
        for names in ("a", "a", "ab", "ab"):
            seen.append(await (await _deployed(stage, world, program_of(plate(*names)))).look())
        assert len({one["a"] for one in seen}) == 1
        assert seen[2]["b"] == seen[3]["b"]
