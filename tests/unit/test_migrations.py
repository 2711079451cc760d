"""What can be a migration, and what is said of a class where one can't."""

from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject, Machine
from wakeful.cli import checkups
from wakeful.runtime.migrations import check_number, decode_number, encode_number, read_migrations
from wakeful.runtime.registry import Registry
from wakeful.runtime.state import RawState
from wakeful.runtime.status import status_of
from wakeful.store_move import move
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadInput, ObjectTooNew, Undecodable, UnknownMethod
from wakeful.values.ids import ObjectId
from wakeful.views import objects
from wakeful.views.migrations import numbers
from wakeful.views.view import View


async def one(self: Any) -> None: ...


def two(self: Any) -> None: ...


async def stream(self: Any) -> Any:
    yield self


def of_two(self: Any, other: Any) -> None: ...


def other_two() -> Any:
    def two(self: Any) -> None: ...

    return two


def _class(steps: Any) -> type:
    return type("Shop", (DurableObject,), {"migrations": steps})


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("CREATE TABLE x (y)", "must be a list of functions and SQL texts, not str"),
        ({one}, "must be a list of functions and SQL texts, not set"),
        (one, "must be a list of functions and SQL texts"),
        ([one, 7], "number 2 is 7; give a function with a name"),
        ([lambda self: None], "number 1 is <function"),
        ([one, DurableObject], "number 2 is <class"),
        ([one, stream], "number 2, stream, is a generator"),
        ([of_two], "number 1, of_two, must take the object alone"),
        ([one, two, one], "has 'one' twice, as number 1 and 3; each runs once"),
        ([two, other_two()], "has 'two' twice, as number 1 and 2"),
        (["  "], "number 1 is an empty text"),
    ],
)
def test_what_can_not_be_one_is_said_when_the_class_is_registered(steps: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        App().object(_class(steps))
    assert caught.value.code == "class.migrations"
    assert str(caught.value).startswith("Shop.migrations ")


def test_texts_have_a_short_name() -> None:
    long = "CREATE TABLE items (\n  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL)"
    found = read_migrations(_class([long, one]), "Shop")
    assert [migration.number for migration in found] == [1, 2]
    assert found[0].name == "CREATE TABLE items ( id INTEGER PRIMARY KEY, name TEXT NOT N…"
    with pytest.raises(BadInput, match="twice"):
        read_migrations(_class([long, long]), "Shop")


async def test_a_method_of_that_name_is_a_method() -> None:
    """As a class written for Cloudflare, which is run unchanged, may have."""
    app = App()

    @app.object
    class Bird:
        def __init__(self, ctx: Any) -> None: ...

        async def migrations(self) -> int:
            return 2

    async with app.world() as world:
        assert await world.get(Bird, "swift").migrations() == 2


async def test_a_machine_is_migrated_as_well() -> None:
    app, ran = App(), list[str]()

    def note(door: Any) -> None:
        ran.append(door.ctx.key)

    @app.object
    class Door(Machine):
        chart = {"initial": "shut", "states": {"shut": {"on": {"OPEN": "open"}}, "open": {"after": {"2h": "shut"}}}}
        migrations = [note]

    async with app.world() as world:
        await world.get(Door, "front").send("OPEN")
        await world.sleep_all()
        await world.advance(hours=3)
        assert (await world.get(Door, "front").snapshot()).value == "shut"
    assert ran == ["front"]


async def test_a_migration_that_stands_in_its_class_is_nobody_s_to_call() -> None:
    app = App()

    @app.object
    class Shop(DurableObject):
        async def split(self) -> None:
            await self.storage.put("split", True)

        migrations = [split]

        async def look(self) -> Any:
            return await self.storage.get("split")

    async with app.world() as world:
        assert await world.get(Shop, "a").look() is True
        with pytest.raises(UnknownMethod):
            await world.get(Shop, "a").split()


def test_a_class_without_the_base_has_its_ctx_in_a_migration() -> None:
    class Plain:
        migrations = [one]

        def __init__(self, ctx: Any) -> None:
            self.ctx = ctx

    assert [migration.name for migration in read_migrations(Plain, "Plain")] == ["one"]


def test_the_number_of_a_row() -> None:
    assert decode_number(encode_number(3)) == 3
    for strange in (-1, "3", True, None):
        with pytest.raises(Undecodable, match="the number of migrations is stored as"):
            decode_number(encode(strange))
    check_number(ObjectId("Shop", "a"), 0, ())
    with pytest.raises(ObjectTooNew):
        check_number(ObjectId("Shop", "a"), 1, ())


def test_raw_fields_go_out_as_they_came_in_unless_somebody_changed_them() -> None:
    data = encode({"a": 1, "b": [1, 2], "c": 2**70})
    raw = RawState(data)
    assert raw.encode() is data
    assert "a" in raw
    assert (set(raw), len(raw), raw.get("x")) == ({"a", "b", "c"}, 3, None)
    assert raw.encode() is data
    raw["b"].append(3)
    raw["d"] = raw.pop("a")
    changed = raw.encode()
    assert changed is not None
    assert decode(changed) == {"b": [1, 2, 3], "c": 2**70, "d": 1}
    assert "nothing is stored" in repr(RawState(None))
    raw.clear()
    assert raw.encode() is None
    assert RawState(None).encode() is None


async def deployed(world: Any, app: App, steps: list[Any], *keys: str) -> type:
    """The program with these migrations runs, and these objects have woken in it."""
    await world.crash()
    app.deployment.registry = Registry()

    class Shop(DurableObject):
        migrations = steps

        async def open(self) -> None:
            await self.storage.put("open", True)

    app.object(Shop)
    await world.restart()
    for key in keys:
        await world.get(Shop, key).open()
    return Shop


async def test_objects_are_counted_by_number_without_waking_one() -> None:
    app = App()
    async with app.world() as world:
        await deployed(world, app, [], "a", "b", "c")
        await deployed(world, app, [one], "b")
        await deployed(world, app, [one, two], "c")
        await deployed(world, app, [one])
        before = world.node.meter.wakes.value
        view = View.of_node(world.node)
        found = await numbers(view, "Shop")
        assert found == ({0: 1, 1: 1, 2: 1}, True)
        assert (found.newer(1), found.newer(2)) == (1, 0)
        assert found.words(1) == (
            "1 object at 0, until they wake, 1 object at the newest, 1 object at 2, newer than the program"
        )
        cut = await numbers(view, "Shop", limit=2)
        assert cut == ({0: 1, 1: 1}, False)
        assert cut.words(1).startswith("of the first 2, ")
        assert await numbers(view, "Shop", prefix="c") == ({2: 1}, True)
        assert (await objects.show(view, ObjectId("Shop", "c")))["migrations"] == 2
        assert (await numbers(view, "None")).words(1) == "no objects yet"
        assert world.node.meter.wakes.value == before


async def test_the_doctor_says_which_objects_are_newer_than_the_program() -> None:
    app = App()
    async with app.world() as world:
        await deployed(world, app, [one, two], "a", "b")
        store = world.store
        [well] = await checkups.migrations(store, {"Shop": 2}, {})
        assert (well.status, well.text) == ("ok", "Shop has 2 migrations: 2 objects at the newest")
        for known in (1, 0):
            [newer] = await checkups.migrations(store, {"Shop": known}, {})
            assert newer.status == "warn"
            assert newer.text.startswith(
                "2 objects of Shop are newer than the program: calls are refused (object.newer)"
            )
            assert "roll-out" in newer.remedy
        nodes: dict[str, Any] = {"old": {"classes": ["Shop"]}, "new": {"classes": ["Shop"], "migrations": {"Shop": 2}}}
        [half] = await checkups.migrations(store, None, nodes)
        assert (half.status, half.text[:51]) == ("warn", "2 objects of Shop are newer than a node that has 0:")
        [alone] = await checkups.migrations(store, None, {})
        assert (alone.status, alone.text) == ("ok", "Shop: 2 objects at the newest")
        assert await checkups.migrations(store, {}, {}) == []
        assert status_of(world.node)["migrations"] == {"Shop": 2}


async def test_the_number_moves_with_the_object_to_another_store(tmp_path: Path) -> None:
    here, there = f"sqlite:{tmp_path}/here.db", f"sqlite:{tmp_path}/there.db"
    app = App()
    async with app.world(store=here) as world:
        await deployed(world, app, [one, two], "a")
    await move(here, there, now=0)
    app = App()
    async with app.world(store=there) as world:
        shop: Any = await deployed(world, app, [one])
        with pytest.raises(ObjectTooNew):
            await world.get(shop, "a").open()
        assert await numbers(View.of_node(world.node), "Shop") == ({2: 1}, True)
