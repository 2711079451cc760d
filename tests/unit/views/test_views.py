"""What the edges show: pages over several stores, everything once, and nobody is woken."""

import base64
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.views.views_stage import all_pages, deployment
from wakeful import App, DurableObject
from wakeful.schedules import functions
from wakeful.store.protocol import Query
from wakeful.store.sqlite import store as sqlite_store
from wakeful.values.errors import BadOption, UnknownJob, UnknownObject, UnknownParked, UnknownSchedule
from wakeful.values.ids import ObjectId
from wakeful.views import classes, due, jobs, ledger, nodes, objects, pages, parked, schedules, search
from wakeful.views.pages import read_cursor, write_cursor
from wakeful.views.view import FUNCTIONS, View


def test_the_class_of_functions_is_the_one_that_is_shown() -> None:
    assert functions.CLASS == FUNCTIONS


async def test_objects_of_all_stores_are_paged_in_one_order_and_reserved_ones_are_not_shown() -> None:
    async with deployment() as (_, view):
        assert len(view.stores) == 2
        one = [(row["class"], row["key"]) for row in (await objects.page(view, limit=100)).rows]
        assert one == sorted((cls, f"{at}/{n}") for cls in ("Desk", "Drawer") for at in ("eu", "us") for n in range(5))
        for limit in (1, 3, 20):
            rows = await all_pages(objects.page, view, limit=limit)
            assert [(row["class"], row["key"]) for row in rows] == one
        assert [row["key"] for row in await all_pages(objects.page, view, "Desk", "us/", limit=2)] == [
            f"us/{n}" for n in range(5)
        ]
        assert [row["key"] for row in (await objects.page(view, contains="/3")).rows] == ["eu/3", "us/3"] * 2
        reserved = await all_pages(objects.page, view, limit=2, reserved=True)
        assert len(reserved) > 20
        assert any(row["class"] == FUNCTIONS for row in reserved)
        assert [row["class"] for row in (await objects.page(view, FUNCTIONS)).rows] == [FUNCTIONS]
        assert await objects.count(view) == 20


async def test_every_list_gives_each_row_once_whatever_the_page() -> None:
    async with deployment() as (_, view):
        for page, key, count in (
            (due.page, ("class", "key", "timer"), 31),  # 3 of each desk, and the function's
            (ledger.page, ("class", "key", "number"), 20),  # the one-off ran, the job failed
            (parked.page, ("class", "key", "number"), 10),
            (jobs.page, ("id",), 20),
            (schedules.page, ("class", "key", "schedule"), 31),  # one of three has ended; and the function's own
        ):
            whole = (await page(view, limit=1_000)).rows
            assert len(whole) == len({tuple(row[name] for name in key) for row in whole}) == count, page
            for limit in (1, 7):
                assert await all_pages(page, view, limit=limit) == whole, page
            json.dumps(whole)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_every_store_shows_the_same(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:{tmp_path}/x.db" if kind == "sqlite" else request.getfixturevalue("postgres_schema_url")
    async with deployment(keys=3, stores=False) as (_, view):
        wanted = await everything(view)
    async with deployment(keys=3, stores=False, store=url) as (_, view):
        assert await everything(view) == wanted


async def everything(view: View) -> list[Any]:
    """All lists, page by page, without what each store numbers itself."""
    found: list[Any] = []
    for page in (objects.page, due.page, ledger.page, parked.page, jobs.page, schedules.page):
        found.append([_unnumbered(row) for row in await all_pages(page, view, limit=4)])
    found.append([row["key"] for row in await all_pages(objects.page, view, "Desk", "us/", "1", limit=1)])
    for text in ("us/1", "ticking", "later", "the pen", "esk"):
        found.append([(hit["kind"], hit["class"], hit["key"]) for hit in await search.find(view, text) if "key" in hit])
    found.append(_unnumbered(await objects.show(view, ObjectId("Desk", "us/1"))))
    found.append((await classes.page(view)).rows)
    return found


def _unnumbered(row: Any) -> Any:
    if isinstance(row, list):
        return [_unnumbered(one) for one in row]
    if not isinstance(row, dict):
        return row
    # Runs and jobs without keys have names that are made of chance and of the owner's epoch.
    made = ("number", "run_id", "id", "node", "job")
    return {
        name: _unnumbered(value)
        for name, value in row.items()
        if name not in made and not str(value).startswith(("job:lose", "Desk/"))
    }


async def test_what_is_due_comes_in_the_order_of_firing_over_all_stores() -> None:
    async with deployment() as (_, view):
        rows = (await due.page(view, limit=100)).rows
        assert [row["due_at"] for row in rows] == sorted(row["due_at"] for row in rows)
        assert {row["key"][:3] for row in rows[:10] if row["class"] == "Desk"} == {"eu/", "us/"}
        assert {row["key"] for row in (await due.page(view, prefix="us/", limit=100)).rows} == {
            f"us/{n}" for n in range(5)
        }
        assert [row["timer"] for row in (await due.page(view, "Desk", "us/1")).rows] == [
            "schedule:ticking",
            "job:=later",
            "schedule:nightly",
        ]
        assert [row["class"] for row in (await due.page(view, FUNCTIONS)).rows] == [FUNCTIONS]


async def test_a_paused_schedule_holds_its_timer_and_says_so() -> None:
    async with deployment(keys=1) as (world, view):
        await world.node.send(ObjectId("Desk", "eu/0"), "schedules.pause", ("ticking",), {"note": "dust"})
        held = {row["key"]: row["held_by"] for row in (await due.page(view, name="schedule:ticking")).rows}
        assert held == {"eu/0": "paused", "us/0": None}
        [row] = (await schedules.page(view, state="paused")).rows
        assert (row["key"], row["schedule"], row["note"]) == ("eu/0", "ticking", "dust")


async def test_looking_wakes_nothing() -> None:
    async with deployment(keys=2) as (world, view):
        before = sum(len(home.awake) for home in world.node.all_homes)
        for page in (objects.page, due.page, ledger.page, parked.page, jobs.page, schedules.page, classes.page):
            await page(view)
        await nodes.page(view)
        await search.find(view, "eu/1")
        shown = await objects.show(view, ObjectId("Desk", "eu/1"))
        await schedules.show(view, ObjectId("Desk", "eu/1"), "ticking")
        assert sum(len(home.awake) for home in world.node.all_homes) == before
        assert (shown["storage"]["paper/2"], len(shown["timers"]), len(shown["parked"])) == ({"n": 2}, 3, 1)
        assert [row["schedule"] for row in shown["schedules"]] == ["nightly", "soon", "ticking"]
        json.dumps(shown)


async def test_storage_is_paged_by_key() -> None:
    async with deployment(keys=1, stores=False) as (_, view):
        id = ObjectId("Desk", "us/0")
        rows = await all_pages(objects.storage, view, id, limit=1)
        assert [row["key"] for row in rows] == ["paper/0", "paper/1", "paper/2"]
        assert rows[0]["value"] == {"n": 0}
        assert [row["key"] for row in (await objects.storage(view, id, "paper/1")).rows] == ["paper/1"]
        assert (await objects.storage(view, id, "other")).rows == []


async def test_schedules_are_filtered_by_tag_state_and_text() -> None:
    async with deployment(keys=2) as (world, view):
        await world.node.send(ObjectId("Desk", "us/1"), "schedules.cancel", ("ticking",), {})
        names = lambda rows: sorted((row["key"], row["schedule"]) for row in rows)  # noqa: E731
        assert names(await all_pages(schedules.page, view, limit=1, tag="slow")) == [
            ("eu/0", "ticking"),
            ("eu/1", "ticking"),
            ("us/0", "ticking"),
        ]
        assert len(await all_pages(schedules.page, view, limit=2, contains="NIGHT")) == 4
        assert len(await all_pages(schedules.page, view, limit=2, contains="us/1")) == 2
        own = [("eu/0", name) for name in ("nightly", "soon", "ticking")]
        assert names((await schedules.page(view, "Desk", "eu/0")).rows) == own
        assert names(await all_pages(schedules.page, view, "Desk", "eu/0", limit=1)) == own
        with pytest.raises(BadOption, match="there are active"):
            await schedules.page(view, state="tired")
        with pytest.raises(BadOption, match="keys are per class"):
            await schedules.page(view, key="eu/0")


async def test_the_last_verdict_says_when_it_was_given_also_of_a_backfill() -> None:
    async with deployment(keys=1) as (world, view):
        await world.advance(hours=30)
        desk = ObjectId("Desk", "us/0")
        await world.node.send(
            desk,
            "schedules.backfill",
            ("nightly", world.now() - timedelta(days=20), world.now() - timedelta(days=10)),
            {},
        )
        await world.advance(minutes=1)
        [row] = (await schedules.page(view, "Desk", "us/0", contains="nightly")).rows
        assert row["last"] == {
            "nominal_at": "2026-03-18T02:30:00.000Z",
            "fired_at": "2026-03-28T18:02:00.000Z",  # a minute ago, and not ten days
            "verdict": "run",
            "is_backfill": True,
        }


async def test_ended_schedules_are_found_beside_those_with_a_next_time() -> None:
    app = App()

    @app.object
    class Plan(DurableObject):
        async def make(self) -> None:
            await self.schedules.add("after 1m", "run", name="once")
            await self.schedules.add("every hour", "run", name="often")

        async def run(self) -> None:
            pass

    async with app.world() as world:
        for n in range(3):
            await world.get(Plan, f"p{n}").make()
        await world.advance(minutes=5)
        view = View.of_node(world.node)
        every = await all_pages(schedules.page, view, limit=2)
        assert [(row["schedule"], row["state"]) for row in every] == [("often", "active")] * 3 + [("once", "done")] * 3
        assert len(await all_pages(schedules.page, view, limit=1, state="done")) == 3
        assert len(await all_pages(schedules.page, view, limit=1, state="active")) == 3


async def test_a_filter_that_leaves_most_out_gives_short_pages_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOKS_MAX", 3)
    async with deployment() as (_, view):
        is_last = lambda info: info.id.key == "us/4"  # noqa: E731
        found, cursor, asked = [], None, 0
        while True:
            some = await pages.find(view, pages.OBJECTS, Query(), limit=2, cursor=cursor, keep=is_last)
            found += some.rows
            asked += 1
            cursor = some.cursor
            if cursor is None:
                break
        assert [str(info.id) for info in found] == ["Desk/us/4", "Drawer/us/4"]
        assert asked > 3


async def test_one_of_each_is_shown_and_what_is_not_there_is_an_error_of_its_own() -> None:
    async with deployment(keys=1) as (world, view):
        [first] = (await parked.page(view, "Desk", "us/0")).rows
        assert "the pen is lost" in (await parked.show(view, first["number"], ObjectId("Desk", "us/0")))["traceback"]
        with pytest.raises(BadOption, match="say of which object"):
            await parked.show(view, first["number"])  # each store counts from one
        with pytest.raises(UnknownParked):
            await parked.show(view, 99)
        [job] = (await jobs.page(view, "Desk", "us/0", "failed")).rows
        assert (await jobs.show(view, job["id"]))["error"] == "ValueError: the pen is lost"
        with pytest.raises(UnknownJob):
            await jobs.show(view, "Desk/us%2F0/nope")
        with pytest.raises(UnknownObject):
            await objects.show(view, ObjectId("Desk", "nobody"))
        with pytest.raises(UnknownSchedule):
            await schedules.show(view, ObjectId("Desk", "us/0"), "nope")
        await world.node.send(ObjectId("Desk", "us/0"), "schedules.cancel", ("soon",), {})
        gone = await schedules.show(view, ObjectId("Desk", "us/0"), "soon")
        assert (gone["state"], gone["verdicts"][0]["verdict"]) == ("gone", "run")
        known = await schedules.show(view, ObjectId("Desk", "us/0"), "ticking")
        assert (len(known["next"]), known["standing"]) == (10, "active")


async def test_a_page_of_jobs_may_be_longer_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with deployment() as (_, view):
        whole = (await jobs.page(view, limit=1_000)).rows
        monkeypatch.setattr(jobs, "PAGE_MAX", 3)
        assert (await jobs.page(view, limit=1_000)).rows == whole
        assert (await jobs.page(view, limit=7)).rows == whole[:7]
        assert len(whole) == 20


async def test_classes_and_nodes() -> None:
    async with deployment(keys=2) as (_, view):
        desk, drawer = (await classes.page(view)).rows
        assert (desk["class"], desk["objects"], desk["timers"], desk["parked"]) == ("Desk", 4, 12, 4)
        assert {"name": "keep", "is_reader": False} in drawer["methods"]
        assert FUNCTIONS in await classes.names(view, reserved=True)
        found = await nodes.page(view)
        assert {row["store"] for row in found.rows} == {store.url for store in view.stores}
        assert all(row["status"]["state"] == "up" and len(row["shards"]) == 256 for row in found.rows)
        assert not found.unowned
        beside = View.of_store(view.stores[0], view.now())
        assert [row["status"] for row in (await nodes.page(beside)).rows] == [None]


async def test_search_finds_everything_by_name() -> None:
    async with deployment(keys=2) as (world, view):
        kinds = lambda hits: [(hit["kind"], hit["title"]) for hit in hits]  # noqa: E731
        assert kinds(await search.find(view, "draw"))[0] == ("class", "Drawer")
        assert ("object", "Desk/eu/1") in kinds(await search.find(view, "Desk/eu/1"))
        assert kinds(await search.find(view, "us/0"))[:2] == [("object", "Desk/us/0"), ("object", "Drawer/us/0")]
        assert ("schedule", "Desk/us/0 ticking") in kinds(await search.find(view, "TICK"))
        assert ("schedule", f"{FUNCTIONS}/sweep sweep") in kinds(await search.find(view, "sweep"))
        assert [hit["kind"] for hit in await search.find(view, "later")] == ["job"] * 4
        [job] = (await jobs.page(view, "Desk", "us/0", "scheduled")).rows
        assert kinds(await search.find(view, job["id"])) == [("job", job["id"])]
        assert {hit["kind"] for hit in await search.find(view, "the pen")} == {"parked"}
        assert [hit["kind"] for hit in await search.find(view, world.node.name)] == ["node"]
        assert await search.find(view, "  ") == await search.find(view, "xyzzy") == []
        inside = await search.find(view, "e", prefix="us/")
        assert inside
        assert all(hit["key"].startswith("us/") for hit in inside)
        assert len(await search.find(view, "Desk", limit=1)) <= 6
        with pytest.raises(BadOption):
            await search.find(view, "x" * 601)


BAD_CURSORS = ["", "x", "é", "bm90IGpzb24", "W10", "A" * 10_000, "AAAA====", "W1tbW1tbW1tbW1tb", 7]


@pytest.mark.parametrize("cursor", BAD_CURSORS)
async def test_a_cursor_that_no_page_gave_is_refused(cursor: Any) -> None:
    async with deployment(keys=1) as (_, view):
        for page in (objects.page, due.page, ledger.page, parked.page, jobs.page, schedules.page):
            with pytest.raises(BadOption) as raised:
                await page(view, cursor=cursor)
            assert raised.value.code == "cursor"
        with pytest.raises(BadOption):
            await objects.storage(view, ObjectId("Desk", "us/0"), cursor=cursor)


@pytest.mark.parametrize(
    "places",
    [
        [["a"], None],
        [["a", 1], None],
        [[1, 2], None],
        [["a", "b\0"], None],
        [["a", "\ud800"], None],
        [["a", "b"]],
        [["a", "b"], None, None],
        [{"a": 1}, None],
        ["ab", None],
        None,
    ],
)
def test_the_places_in_a_cursor_are_checked_one_by_one(places: Any) -> None:
    data = base64.urlsafe_b64encode(json.dumps(["objects", places]).encode()).decode()
    with pytest.raises(BadOption):
        read_cursor(ALL, data, "objects", (str, str), count=2)


ALL: Any = View.of_store(None, 0)  # type: ignore[arg-type]


def test_numbers_in_a_cursor_must_fit_a_store() -> None:
    assert read_cursor(ALL, write_cursor(ALL, "parked", [[2**63 - 1]]), "parked", (int,), count=1) == [(2**63 - 1,)]
    for place in ([2**63], [True], [1.5], ["1"]):
        with pytest.raises(BadOption):
            read_cursor(ALL, write_cursor(ALL, "parked", [place]), "parked", (int,), count=1)


@pytest.mark.parametrize("limit", [0, -1, 100_001, True, "10", 1.5])
async def test_a_page_has_a_size_that_makes_sense(limit: Any) -> None:
    async with deployment(keys=1) as (_, view):
        for page in (objects.page, due.page, jobs.page, schedules.page):
            with pytest.raises(BadOption):
                await page(view, limit=limit)


async def test_wide_looks_at_a_file_don_t_hold_up_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.object
    class Box(DurableObject):
        async def fill(self) -> None:
            await self.storage.put("x", 1)

    threads: list[int] = []
    real = sqlite_store.Finder

    class Noting(real):  # type: ignore[misc, valid-type]
        def _ask(self, *args: Any) -> Any:
            threads.append(threading.get_ident())
            return super()._ask(*args)

    async with app.run(f"sqlite:{tmp_path}/x.db") as node:
        await app.get(Box, "a").fill()
        monkeypatch.setattr(sqlite_store, "Finder", Noting)
        view = View.of_node(node)
        await objects.page(view, contains="a")
        assert threading.get_ident() not in threads[:1]
        threads.clear()
        await due.page(view, "Box", "a")
        assert set(threads) == {threading.get_ident()}, "a narrow look costs less than the way to a thread"
