"""What a job, a schedule or a parked timer carries: shown without the program's types, cut to size, masked by scope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from wakeful import App, DurableObject, RetryPolicy, fixed
from wakeful.jobs.job import Job
from wakeful.security.scopes import Caller, with_implied
from wakeful.testing.world import World
from wakeful.values.codec import encode
from wakeful.values.ids import ObjectId
from wakeful.views import arguments, jobs, objects, parked, schedules
from wakeful.views.arguments import EACH_CHARS, LISTED_BYTES, SHOWN_CHARS, words
from wakeful.views.plain import text
from wakeful.views.view import View

ONCE = RetryPolicy(max_attempts=1, backoff=fixed("1s"))
TILL = ObjectId("Till", "a")
TWICE = RetryPolicy(max_attempts=2, backoff=fixed("1s"))


@dataclass
class Card:
    number: str

    def __post_init__(self) -> None:
        if is_looking:
            raise AssertionError("the program's own code ran for somebody who only looks")


is_looking = False


class Till(DurableObject):
    async def pay(self, card: Card, cents: int, *, note: str = "") -> str:
        if cents > 100:
            raise ConnectionError("the bank is closed")
        return f"paid {cents}"

    async def open(self) -> None:
        await self.schedules.add("every 2 hours", self.pay, Card("4000"), 7, kwargs={"note": "rent"}, name="rent")
        await self.schedules.add("after 1m", self.pay, Card("4111"), 700, name="fails", retry=ONCE)


@asynccontextmanager
async def till() -> AsyncIterator[tuple[World, Job]]:
    app = App()
    cls = app.object(type("Till", (Till,), {}))
    async with app.world() as world:
        stub = world.get(cls, "a")
        await stub.open()
        failed = await app.jobs.schedule(stub.pay, Card("4222"), 500, note="big", retry=TWICE, metadata={"order": 17})
        await world.advance(minutes=2)
        yield world, failed


def viewed(world: World, *scopes: str) -> View:
    return View.for_caller(world.node, Caller("somebody", with_implied(list(scopes))))


async def test_a_failed_job_shows_its_arguments_metadata_and_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with till() as (world, job):
        monkeypatch.setattr(f"{__name__}.is_looking", True)
        found = await jobs.show(View.of_node(world.node), job.id)
        given = found["arguments"]
        assert given is not None
        assert (given["count"], given["kwargs"], given["left_out"]) == (3, {"note": "big"}, 0)
        card, cents = given["args"] or []
        assert (card["number"], cents) == ("4222", 500)
        assert card["$type"].endswith("Card")
        assert found["metadata"] == {"order": 17}
        attempts = [(one["attempt"], one["verdict"], one["error"]) for one in found["attempts"]]
        assert attempts == [
            (2, "failed", "ConnectionError: the bank is closed"),
            (1, "failed", "ConnectionError: the bank is closed"),
        ]
        assert {one["node"] for one in found["attempts"]} == {world.node.name}
        [row] = [one for one in (await parked.page(View.of_node(world.node))).rows if one["job"] == job.id]
        assert found["parked"] == row["number"]
        assert (row["method"], row["arguments"], row["metadata"]) == ("pay", given, {"order": 17})


async def test_a_schedule_and_its_parked_run_show_what_its_method_is_called_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with till() as (world, _):
        monkeypatch.setattr(f"{__name__}.is_looking", True)
        view = View.of_node(world.node)
        rows = {row["schedule"]: row for row in (await schedules.page(view, "Till", "a")).rows}
        assert rows["rent"]["arguments"]["args"][1:] == [7]  # type: ignore[index]
        assert rows["rent"]["arguments"]["kwargs"] == {"note": "rent"}
        shown = await schedules.show(view, TILL, "rent")
        assert shown["arguments"] == rows["rent"]["arguments"]
        [row] = [one for one in (await parked.page(view)).rows if one["schedule"] == "fails"]
        assert row["method"] == "pay"
        assert row["arguments"]["args"][1] == 700  # type: ignore[index]
        assert (await parked.show(view, row["number"]))["arguments"] == row["arguments"]


async def test_who_may_only_look_sees_how_many_there_are_and_no_value() -> None:
    async with till() as (world, job):
        for scopes, is_masked in (
            (("read",), True),
            (("call", "read"), True),
            (("operate",), False),
            (("admin",), False),
        ):
            view = viewed(world, *scopes)
            rows: list[Any] = [
                await jobs.show(view, job.id),
                *(await parked.page(view)).rows,
                *(await schedules.page(view)).rows,
                await schedules.show(view, TILL, "rent"),
            ]
            assert len(rows) == 6
            for row in rows:
                given = row["arguments"]
                assert given["count"] in (2, 3)
                assert given["is_masked"] is is_masked
                assert (given["args"] is None) is is_masked
                assert (given["kwargs"] is None) is is_masked
            assert any(secret in str(rows) for secret in ("4000", "4111", "4222", "rent'}", "big")) is not is_masked
        shown = await objects.show(viewed(world, "read"), TILL)
        assert all(one["arguments"]["is_masked"] for one in [*shown["parked"], *shown["schedules"]])  # type: ignore[index]


class _Seer:
    shows_arguments = True


SEER: Any = _Seer()


async def test_what_is_large_is_cut_and_it_is_said_how_much() -> None:
    data = encode([["x" * 200_000, list(range(50_000)), 7], {"note": "n" * 500}])
    given = await arguments.show(SEER, data)
    assert given["count"] == 4
    first, numbers, seven = given["args"] or []
    assert first == "x" * SHOWN_CHARS + "…"
    assert numbers.startswith("[0, 1, 2")
    assert len(numbers) == EACH_CHARS + 1
    assert seven == 7
    assert (given["kwargs"] or {})["note"] == "n" * EACH_CHARS + "…"
    whole = 200_000 - SHOWN_CHARS + len(str(list(range(50_000)))) - EACH_CHARS + 500 - EACH_CHARS
    assert given["left_out"] == whole
    assert words(given).endswith(f"({whole:,} bytes left out)")


def test_a_list_reads_nothing_large() -> None:
    data = encode([["x" * LISTED_BYTES], {}])
    assert arguments.brief(SEER, data) == {
        "count": None, "args": None, "kwargs": None, "left_out": len(data), "is_masked": False
    }  # fmt: skip
    assert arguments.brief(SEER, None)["count"] == 0
    assert words(arguments.brief(SEER, encode([["tea"], {"at": 5}]))) == '"tea", at=5'
    assert words(arguments.brief(SEER, None)) == "none"


def test_many_arguments_are_not_all_shown() -> None:
    given = arguments.brief(SEER, encode([[1] * 2_000, {}]))
    assert (given["count"], len(given["args"] or []), given["left_out"]) == (2_000, 1_000, 1_000)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x09abc", encode(7), encode([1, 2, 3]), encode([1, 2])])
def test_what_can_t_be_read_is_said_in_its_place(data: bytes) -> None:
    given = arguments.brief(SEER, data)
    assert given["count"] is None
    assert "$error" in str(given["args"])


@pytest.mark.parametrize("given", [[{"a": 1}, [5]], [["tea"], ["at"]], [{"a": 1}, {}], ["tea", {}], {"a": 1, "b": 2}])
def test_what_is_no_list_with_names_is_shown_as_it_is(given: Any) -> None:
    shown = arguments.read(encode(given), is_masked=False)
    assert shown["count"] is None
    assert shown["args"] == [{"$error": f"these are no arguments: {text(given)}"}]
    assert arguments.read(encode(given), is_masked=True)["args"] is None
