"""Ids of 64 digits, and the keys that they are here."""

from types import SimpleNamespace

import pytest

from wakeful.compat.workers.failures import JsTypeError
from wakeful.compat.workers.ids import id_of_key, id_of_text, named_id, unique_id
from wakeful.compat.workers.namespaces import Namespace

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
    names = Namespace(None, SimpleNamespace(name="Room"))  # type: ignore[arg-type]
    assert [names.idFromName(given).name for given in (True, 1.0, 7, 1.5)] == ["true", "1", "7", "1.5"]
    for given in (None, [], b"x"):
        with pytest.raises(JsTypeError, match="name is text"):
            names.idFromName(given)
