"""Ids of 64 digits, and the keys that they are here."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful import App, DurableObject
from wakeful.compat.workers import load
from wakeful.compat.workers.failures import JsTypeError
from wakeful.compat.workers.ids import PLAIN, IdKey, id_of_key, id_of_text, named_id, unique_id
from wakeful.compat.workers.namespaces import Namespace
from wakeful.values.errors import NotRunning

UUID = "0192f0c1-2b3c-7def-8123-456789abcdef"


@pytest.mark.parametrize("name", ["a", "bob", "x" * 23, "ümlaut", "a/b c", UUID, "😀"])
def test_a_short_name_is_the_key(name: str) -> None:
    id = named_id("Room", name)
    assert (id.key, id.name, len(str(id)), id.is_hashed) == (name, name, 64, False)
    assert id_of_text("Room", str(id)) == id
    assert id_of_text("Room", str(id)).key == name
    assert id_of_text("Room", str(id)).name is None
    assert id_of_key("Room", name) == id


@pytest.mark.parametrize("name", ["x" * 24, "", "a\nb", "\0", "é" * 12, UUID.upper(), "\ud800"])
def test_another_name_is_hashed_and_its_id_is_the_key(name: str) -> None:
    id = named_id("Room", name)
    assert (id.key, id.name, id.is_hashed) == (str(id), name, True)
    assert id_of_text("Room", str(id)).key == id.key
    assert id_of_key("Room", id.key) == id


def test_ids_are_for_ever() -> None:
    """They are in the databases of people: a change here loses their objects."""
    assert str(named_id("Room", "bob")) == "03626f62" + "00" * 20 + "cc8d2bbb13b78dcb"
    assert str(named_id("Room", "x" * 24)) == "feec53259ff33241f095ae84a668c73a96e39a4bf1108725fa8bf66b44368c6c"
    assert str(named_id("Room", "bob")) != str(named_id("Hall", "bob"))


def test_unique_ids_have_no_name() -> None:
    one, two = unique_id("Room", b"\1" * 23), unique_id("Room", b"\2" * 23)
    assert one != two
    assert (one.name, one.key, one.is_hashed) == (None, str(one), False)
    assert id_of_text("Room", str(one).upper()) == one


@pytest.mark.parametrize("text", ["", "xyz", "0" * 63, "0" * 64, "g" * 64, str(named_id("Hall", "bob")), 5])
def test_what_is_no_id_of_the_class_is_refused(text: str) -> None:
    with pytest.raises(JsTypeError):
        id_of_text("Room", text)


def test_a_name_that_is_no_text_is_what_javascript_makes_of_it() -> None:
    names = Namespace(None, SimpleNamespace(name="Room", id_key=PLAIN))  # type: ignore[arg-type]
    assert [names.idFromName(given).name for given in (True, 1.0, 7, 1.5)] == ["true", "1", "7", "1.5"]
    for given in (None, [], b"x"):
        with pytest.raises(JsTypeError, match="name is text"):
            names.idFromName(given)


KEY = IdKey(b"k" * 32)


def test_ids_under_a_secret_are_for_ever_too() -> None:
    assert str(named_id("Room", "bob", KEY)) == "f88a857749284cdbb181d1b303549fd652368d3f4b7351a9731c14acbb1526e9"
    assert str(named_id("Room", "x" * 24, KEY)) == "835fce7388bf3cc1c65a5372d13ba756f5e84be87248889a4a8a479903f66848"


@pytest.mark.parametrize("name", ["a", "bob", "x" * 23, "ümlaut", UUID, "x" * 24, "", "\ud800"])
def test_under_a_secret_an_id_leads_to_the_same_key_and_shows_nothing(name: str) -> None:
    id = named_id("Room", name, KEY)
    back = id_of_text("Room", str(id).upper(), KEY)
    assert (back, back.key, back.is_hashed, back.name) == (id, id.key, id.is_hashed, None)
    assert id.key == (str(id) if id.is_hashed else name)
    assert id_of_key("Room", id.key, KEY) == id
    shown = name.encode(errors="surrogatepass").hex()
    assert len(shown) < 4 or shown not in str(id)
    others = [named_id("Room", name, IdKey(b"l" * 32)), named_id("Hall", name, KEY), named_id("Room", name)]
    assert len({str(one)[:48] for one in (id, *others)}) == 4, "nothing of it is the same elsewhere"
    for other in others:
        with pytest.raises(JsTypeError, match="no id of the class"):
            id_of_text("Room", str(other), KEY)


def test_one_digit_changed_is_no_id() -> None:
    text = str(named_id("Room", "bob", KEY))
    for at in range(64):
        with pytest.raises(JsTypeError):
            id_of_text("Room", text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :], KEY)


def test_before_the_worker_runs_a_name_is_known_and_its_id_is_not() -> None:
    id = named_id("Room", "bob", IdKey(is_known=False))
    assert (id.name, id.key) == ("bob", "bob")
    with pytest.raises(NotRunning, match="known once it does"):
        id.toString()


CODE = """
    from workers import DurableObject, WorkerEntrypoint

    class Sample(DurableObject):
        async def who(self):
            await self.ctx.storage.put("seen", 1)
            return [self.ctx.id.toString(), self.ctx.id.name]

    class Default(WorkerEntrypoint):
        pass
"""


async def test_a_deployment_has_one_secret_for_ever(tmp_path: Path) -> None:
    folder = write_worker(tmp_path, CODE)
    async with played(folder, nodes=3) as (worker, world):
        space = worker.env.SAMPLE
        unique = space.newUniqueId()
        names = ["bob", "x" * 40]
        ids = [str(space.idFromName(name)) for name in names]
        assert b"bob".hex() not in ids[0]
        assert [await space.getByName(name).who() for name in names] == [
            [id, name] for id, name in zip(ids, names, strict=True)
        ]
        assert [(await space.get(space.idFromString(id)).who())[0] for id in ids] == ids
        assert await space.get(unique).who() == [str(unique), None]
    async with played(folder, seed=1) as (worker, world):
        space = worker.env.SAMPLE
        assert str(space.idFromName("bob")) != ids[0], "another deployment has another"
        unique, id = space.newUniqueId(), str(space.idFromName("bob"))
        await space.get(unique).who()
        await world.crash()
        await world.restart()
        assert str(space.idFromName("bob")) == id
        assert await space.get(space.idFromString(str(unique))).who() == [str(unique), None]


async def test_a_store_that_had_objects_before_keeps_its_ids(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/old.db"
    older = App()

    @older.object(name="Sample")
    class Older(DurableObject):
        async def put(self) -> None:
            await self.storage.put("seen", 1)

    async with older.run(store):
        await older.get(Older, "bob").put()
    worker = load(write_worker(tmp_path, CODE))
    try:
        for _ in range(2):
            async with worker.app.run(store):
                assert str(worker.env.SAMPLE.idFromName("bob")) == str(named_id("Sample", "bob"))
                assert (await worker.env.SAMPLE.getByName("new").who())[0] == str(named_id("Sample", "new"))
    finally:
        worker.unload()
