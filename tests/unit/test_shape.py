"""What could never work is said when the class is registered, with the remedy, and not to its first caller."""

import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from wakeful import App, DurableObject, Machine, every, reader
from wakeful.values.errors import BadHandler, BadInput, UnknownClass

CHART = {"initial": "a", "states": {"a": {}}}


async def _method(self: Any) -> None: ...


def _plain(self: Any) -> None: ...


def register(base: type, **members: Any) -> None:
    App().object(type("Sample", (base,), members))


@pytest.mark.parametrize("name", ["ctx", "storage", "state", "schedules", "every", "jobs", "blocking"])
@pytest.mark.parametrize("method", [_method, _plain, staticmethod(_plain)])
def test_a_method_that_hides_what_objects_have_is_refused(name: str, method: Any) -> None:
    with pytest.raises(BadInput, match=f"Sample.{name} hides the '{name}' of DurableObject.*something else"):
        register(DurableObject, **{name: method})
    with pytest.raises(BadInput, match=f"Sample.{name} hides"):
        register(Machine, chart=CHART, **{name: method})
    register(object, **{name: method})  # has nothing of ours to hide


@pytest.mark.parametrize("name", ["start", "send", "snapshot", "can"])
@pytest.mark.parametrize("method", [_method, _plain])
def test_a_method_that_hides_what_machines_do_is_refused(name: str, method: Any) -> None:
    with pytest.raises(BadInput, match=f"Sample.{name} hides the '{name}' of Machine"):
        register(Machine, chart=CHART, **{name: method})
    register(DurableObject, **{name: _method})


def test_one_that_hands_on_hides_nothing() -> None:
    @App().object
    class Counted(Machine):
        chart = CHART

        async def send(self, event: Any, /, **data: Any) -> Any:
            return await super().send(event, **data)

    def around(method: Any) -> Any:
        @functools.wraps(method)
        async def call(*args: Any, **data: Any) -> Any:
            return await method(*args, **data)

        return call

    @App().object
    class Around(Machine):
        chart = CHART

        @around
        async def send(self, event: Any, /, **data: Any) -> Any:
            return await super().send(event, **data)

    @App().object
    class Named(Machine):
        chart = CHART

        async def send(self, event: Any, /, **data: Any) -> Any:
            return await Machine.send(self, event, **data)


@pytest.mark.parametrize("name", ["migrate", "visible", "audible"])
def test_what_a_machine_does_not_await_must_be_plain(name: str) -> None:
    with pytest.raises(BadInput, match=f"Sample.{name} must be `def`"):
        register(Machine, chart=CHART, **{name: _method})


def test_a_reader_must_be_async_and_return() -> None:
    def plain(self: Any) -> None: ...

    async def pages(self: Any) -> AsyncIterator[int]:
        yield 1

    for method in (plain, pages):
        with pytest.raises(BadInput, match=r"Sample.look is a @reader and must be `async def`"):
            register(DurableObject, look=reader(method))


@pytest.mark.parametrize("hook", ["on_wake", "on_connect", "on_message", "on_close"])
def test_hooks_are_async_and_take_what_they_are_given(hook: str) -> None:
    async def two(self: Any, one: Any, /, *, other: Any) -> None: ...

    async def anything(self: Any, *given: Any) -> None: ...

    with pytest.raises(BadInput, match=f"Sample.{hook} must be `async def`"):
        register(DurableObject, **{hook: _plain})
    with pytest.raises(BadInput, match=rf"Sample.{hook} must take \(self"):
        register(DurableObject, **{hook: two})
    register(DurableObject, **{hook: anything})


def test_a_method_that_replaces_a_declared_one_must_say_when_it_runs() -> None:
    class Base(DurableObject):
        @every("1h")
        async def tick(self) -> None: ...

    with pytest.raises(BadHandler, match=r"Sample.tick replaces one that Base declares with @every.*`tick = None`"):
        register(Base, tick=_method)
    register(Base)
    register(Base, tick=None)
    register(Base, tick=every("2h")(_own_tick))


async def _own_tick(self: Any) -> None: ...


def test_a_name_instead_of_a_class_is_told_so() -> None:
    app = App()
    app.object(type("Sample", (DurableObject,), {}))
    with pytest.raises(UnknownClass, match=r"'Sample' is a name; give the class itself"):
        app.get("Sample", "a")  # type: ignore[arg-type]
