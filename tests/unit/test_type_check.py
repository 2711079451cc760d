"""Calls within a program are looked at while it is being written: by annotation, and without converting anything."""

from collections import Counter
from collections.abc import ItemsView, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypedDict, TypeVar

import pytest

from wakeful import App, DurableObject
from wakeful.operations.type_check import MEMBERS_MAX, check_call, fits
from wakeful.values.errors import BadValue

app = App()
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
Cents = NewType("Cents", int)
T = TypeVar("T")


class Colour(Enum):
    RED = "red"


@dataclass
class CheckedItem:
    name: str


class Line(TypedDict):
    name: str


class Box(Generic[T], dict[str, T]):
    """Whose parameter is not that of its keys."""


class Quiet(Protocol):
    def hush(self) -> None: ...


@app.object
class Reminder(DurableObject):
    async def add(self, text: str, at: datetime, *, tags: list[str] = []) -> str:  # noqa: B006
        return text

    async def plan(self, at: Any) -> None:
        await self.schedules.add("every 1d", self.add, "daily", at, name="daily")

    async def pass_on(self, at: Any) -> str:
        return str(await app.get(Reminder, "other").add("passed on", at))


FITTING = [
    (1, int), (True, int), (1, float), ("a", str), (None, str | None), ("a", Literal["a", "b"]), (NOON, datetime),
    (Colour.RED, Colour), (CheckedItem("a"), CheckedItem), ([1], list[int]), ((1, "a"), tuple[int, str]), ((1, 2), tuple[int, ...]),
    ({"a": 1}, dict[str, int]), ({"a": 1}, Mapping[str, float]), ((1, 2), Sequence[int]), ({1}, set[int]),
    (5, Annotated[int, "of something"]), (5, Cents), ({"name": "a"}, Line), (object(), Quiet), ([], list[int]),
    ([[1], []], list[list[int]]), (timedelta(1), timedelta | str | float), ("x", "a name that is nowhere"),
    ([*range(MEMBERS_MAX), "not looked at"], list[int]), (Counter("a"), Counter[str]), (Box(a=1), Box[int]),
    ({"a": 1}.items(), ItemsView[str, int]),
]  # fmt: skip
MISFITS = [
    ("1", int), (1, str), (None, str), ("c", Literal["a", "b"]), (True, Literal[1]), ("2030-01-01", datetime),
    ("red", Colour), ({"name": "a"}, CheckedItem), ([1, "a"], list[int]), ((1,), tuple[int, str]), ((1, "a"), tuple[int, ...]),
    ({1: 1}, dict[str, int]), ({"a": "b"}, dict[str, int]), ("5", Cents), ("5", Annotated[int, "of something"]),
    ([1], Line), (1.5, int), ([["a"]], list[list[int]]), (5, timedelta | str),
]  # fmt: skip


@pytest.mark.parametrize(("value", "hint"), FITTING)
def test_what_is_of_its_type_fits(value: Any, hint: Any) -> None:
    assert fits(value, hint)


@pytest.mark.parametrize(("value", "hint"), MISFITS)
def test_what_is_not_does_not_and_nothing_is_converted(value: Any, hint: Any) -> None:
    assert not fits(value, hint)


async def test_a_call_a_job_and_a_schedule_are_checked_where_they_are_made() -> None:
    async with app.world() as world:
        world.node.check_call = check_call
        bob = app.get(Reminder, "bob")
        wrong = r"Reminder\.add: argument 'at': expected datetime\.datetime, got str '2030-01-01'"
        with pytest.raises(BadValue, match=wrong) as met:
            await bob.add("call home", "2030-01-01")  # type: ignore[arg-type]
        assert met.value.code == "arguments.type"
        with pytest.raises(BadValue, match=wrong):
            await app.jobs.schedule(bob.add, "call home", "2030-01-01", after="1d")
        with pytest.raises(BadValue, match=wrong):
            await bob.plan("2030-01-01")
        with pytest.raises(BadValue, match=wrong):
            await bob.pass_on("2030-01-01")
        with pytest.raises(BadValue, match=r"Reminder\.add: argument 'tags': expected list\[str\], got str 'home'"):
            await bob.add("call home", NOON, tags="home")  # type: ignore[arg-type]
        with pytest.raises(BadValue, match=r"Reminder\.add: 'at' is missing; it takes text, at, tags"):
            await bob.add("call home")  # type: ignore[call-arg]
        assert await bob.add("call home", NOON, tags=["home"]) == "call home"
        await app.jobs.schedule(bob.add, "call home", NOON, after="1d")
        await bob.plan(NOON)
        assert await bob.pass_on(NOON) == "passed on"


async def test_nobody_looks_in_production() -> None:
    async with app.world():
        assert await app.get(Reminder, "bob").add("call home", "2030-01-01") == "call home"  # type: ignore[arg-type]
