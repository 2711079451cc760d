"""Which classes are known, and which of their methods may be called from outside."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from wakeful import AlarmInfo, App, DurableObject, internal, reader
from wakeful.runtime.registry import Registry
from wakeful.values.errors import BadInput, BadName, UnknownClass, UnknownMethod


@dataclass
class Good:
    n: int = 0


@dataclass
class Needy:
    n: int


class Packed(msgspec.Struct):
    n: int = 0


class Base(DurableObject):
    async def inherited(self) -> None: ...


class Sample(Base):
    kind = "sample"

    def plain(self) -> None: ...
    async def public(self) -> None: ...
    async def _private(self) -> None: ...
    async def __mangled(self) -> None: ...

    @reader
    async def look(self) -> None: ...

    @internal
    async def hidden(self) -> None: ...

    @property
    def computed(self) -> int:
        return 1

    @staticmethod
    async def loose() -> None: ...

    async def on_wake(self) -> None: ...
    async def alarm(self, info: AlarmInfo) -> None: ...
    async def on_message(self, socket: Any, message: Any) -> None: ...

    async def pages(self) -> AsyncIterator[int]:
        yield 1


def test_only_public_async_methods_of_the_class_are_callable() -> None:
    known = Registry().add(Sample)
    assert known.methods == {"public", "look", "inherited"}
    assert known.readers == {"look"}
    assert known.wakes
    assert known.takes_info is True


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("_private", "is private"),
        ("__init__", "is private"),
        ("__class__", "is private"),
        ("_Sample__mangled", "is private"),
        ("nope", "does not exist; it has inherited, look, public"),
        ("pub", "does not exist; it has public"),
        ("alarm", "is called by Wakeful"),
        ("on_wake", "is called by Wakeful"),
        ("on_message", "is called by Wakeful"),
        ("hidden", "is @internal"),
        ("plain", "is not an `async def` method"),
        ("pages", "is an async generator, and a call has one answer; return a list"),
        ("computed", "is not an `async def` method"),
        ("kind", "is not an `async def` method"),
        ("storage", "is not an `async def` method"),
        ("state", "is not an `async def` method"),
    ],
)
def test_what_may_not_be_called_says_why(name: str, reason: str) -> None:
    with pytest.raises(UnknownMethod) as caught:
        Registry().add(Sample).check_method(name)
    assert f"Sample.{name} {reason}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_class_is_not_told_of_wakefuls_own() -> None:
    registry = Registry()
    registry.add(Sample)
    registry.add(type("Own", (), {}), "wakeful.Own")
    with pytest.raises(UnknownClass, match=r"known: Sample\. Put"):
        registry.by_name("X")


def test_an_unknown_class_is_named_with_those_that_are_known() -> None:
    registry = Registry()
    with pytest.raises(UnknownClass, match="'X' is not registered here; known: none"):
        registry.by_name("X")
    registry.add(Sample)
    with pytest.raises(UnknownClass, match=r"known: Sample\. Put @app.object on it"):
        registry.by_name("X")
    with pytest.raises(UnknownClass, match=r"put @app\.object on it"):
        registry.of_class(Base)
    assert registry.knows("Sample")
    assert not registry.knows("X")
    assert registry.names() == ["Sample"]


def test_a_name_can_be_taken_once() -> None:
    app = App()
    app.object(Sample)
    app.object(Sample)  # the same class again is fine
    with pytest.raises(BadName, match=r"two classes are called Sample: .*Sample and .*Base; give one name="):
        app.object(name="Sample")(Base)
    assert app.object(name="Other")(Base) is Base
    assert app.deployment.registry.of_class(Base).name == "Other"


@pytest.mark.parametrize("name", ["1x", "a b", "", "x" * 65, "a/b", "é"])
def test_a_class_name_must_be_safe_everywhere(name: str) -> None:
    app = App()
    if name:
        with pytest.raises(BadName, match="use a letter or underscore"):
            app.object(name=name)(Base)
    else:
        assert app.object(name=name)(Base) is Base  # an empty name is no name given
        assert app.deployment.registry.of_class(Base).name == "Base"


@pytest.mark.parametrize("thing", [Sample.public, 5, "Sample"])
def test_the_decorator_goes_on_a_class(thing: Any) -> None:
    with pytest.raises(BadName, match="goes on a class"):
        App().object(thing)


def test_hooks_must_be_async_and_the_alarm_takes_info_or_nothing() -> None:
    class SyncAlarm:
        def alarm(self) -> None: ...

    class SyncWake:
        def on_wake(self) -> None: ...

    class Greedy:
        async def alarm(self, info: Any, more: Any) -> None: ...

    class Bare:
        async def alarm(self) -> None: ...

    with pytest.raises(BadInput, match=r"SyncAlarm\.alarm must be `async def`"):
        App().object(SyncAlarm)
    with pytest.raises(BadInput, match=r"SyncWake\.on_wake must be `async def`"):
        App().object(SyncWake)
    with pytest.raises(BadInput, match=r"takes \(self\) or \(self, info\), not 3 parameters"):
        App().object(Greedy)
    assert Registry().add(Bare).takes_info is False
    assert Registry().add(Base).takes_info is None


def test_state_must_be_a_dataclass_or_struct_that_can_be_made_empty() -> None:
    class WithGood(DurableObject):
        state: Good

    class WithPacked(DurableObject):
        state: Packed

    class WithNeedy(DurableObject):
        state: Needy

    class WithDict(DurableObject):
        state: dict

    assert Registry().add(WithGood).state_type is Good
    assert Registry().add(WithPacked).state_type is Packed
    assert Registry().add(Base).state_type is None
    with pytest.raises(BadInput, match=r"Needy\(\) must work without arguments"):
        Registry().add(WithNeedy)
    with pytest.raises(BadInput, match=r"must be a dataclass or msgspec\.Struct"):
        Registry().add(WithDict)


def test_registries_are_apart() -> None:
    one, two = App(), App()
    one.object(Sample)
    assert not two.deployment.registry.knows("Sample")
