"""What a handler is called with: its run at its place among the arguments, and what does not fit is said in advance."""

import re
from typing import Any, Optional

import pytest

import wakeful
from wakeful import App, DurableObject, Run, every
from wakeful.schedules.handlers import check_arguments, check_missed, with_run
from wakeful.values.errors import BadHandler

RUN: Any = object()


class Shapes:
    async def none(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    async def first(self, run: Run, text: str) -> Any:
        return run, text

    async def middle(self, a: Any, now: Run, b: Any = 2) -> Any:
        return a, now, b

    async def last(self, a: Any, b: Any = 3, run: Any = None) -> Any:
        return a, b, run

    async def only(self, run: Any, /) -> Any:
        return run

    async def after(self, a: Any = 1, run: Any = None, /, *rest: Any) -> Any:
        return a, run, rest

    async def keyword(self, *args: Any, run: Any) -> Any:
        return args, run

    async def maybe(self, r: Run | None = None) -> Any:
        return r

    async def optional(self, r: Optional[Run] = None) -> Any:  # noqa: UP045
        return r

    async def quoted(self, r: "Run | None" = None) -> Any:
        return r

    async def wrapped(self, r: "Optional[wakeful.Run]" = None) -> Any:  # noqa: UP045
        return r

    async def both(self, run: str, real: Run) -> Any:
        return run, real

    async def star(self, *run: Any) -> Any:
        return run

    async def stars(self, **run: Any) -> Any:
        return run


FITS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("none", (1,), {"b": 2}, ((1,), {"b": 2})),
    ("first", ("x",), {}, (RUN, "x")),
    ("first", (), {"text": "x"}, (RUN, "x")),
    ("first", ("x",), {"run": 5}, (5, "x")),
    ("first", (), {"text": "x", "run": 5}, (5, "x")),
    ("middle", (1,), {}, (1, RUN, 2)),
    ("middle", (1, 3), {}, (1, RUN, 3)),
    ("middle", (1,), {"b": 4}, (1, RUN, 4)),
    ("middle", (), {"a": 1}, (1, RUN, 2)),
    ("last", (1,), {}, (1, 3, RUN)),
    ("last", (1, 2), {}, (1, 2, RUN)),
    ("last", (1,), {"run": 5}, (1, 3, 5)),
    ("only", (), {}, RUN),
    ("after", (), {}, (1, RUN, ())),
    ("after", (7, 8), {}, (7, RUN, (8,))),
    ("keyword", (1,), {}, ((1,), RUN)),
    ("maybe", (), {}, RUN),
    ("optional", (), {}, RUN),
    ("quoted", (), {}, RUN),
    ("wrapped", (), {}, RUN),
    ("both", ("x",), {}, ("x", RUN)),
    ("star", (1,), {}, (1,)),
    ("stars", (), {"run": 1}, {"run": 1}),
]

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    (
        "first",
        (),
        {},
        r"Shapes\.first can't be a handler that is given no arguments and its run: .*'text'; it takes text",
    ),
    ("first", ("x", "y"), {}, "given 2 arguments and its run: too many positional"),
    ("middle", (1,), {"c": 1}, "unexpected keyword argument 'c'"),
    ("middle", (1,), {"a": 1}, "multiple values for argument 'a'"),
    ("only", (1,), {}, "given one argument and its run: too many positional"),
    ("maybe", (1,), {}, "too many positional arguments; it takes none"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "expected"), FITS)
async def test_the_run_is_given_at_its_place(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any
) -> None:
    function, before = getattr(Shapes, name), dict(kwargs)
    check_arguments(function, args, kwargs, what="handler")
    check_arguments(getattr(Shapes(), name), args, kwargs, what="handler")
    given, named = with_run(function, args, kwargs, RUN)
    assert await function(Shapes(), *given, **named) == expected
    assert kwargs == before


@pytest.mark.parametrize(("name", "args", "kwargs", "words"), WRONG)
def test_arguments_that_do_not_fit_are_said_in_one_line(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadHandler) as caught:
        check_arguments(getattr(Shapes, name), args, kwargs, what="handler")
    assert re.search(words, str(caught.value)), str(caught.value)
    assert caught.value.code == "handler.arguments"
    assert "\n" not in str(caught.value)


async def test_a_required_argument_that_came_later_is_the_calls_own_error() -> None:
    async def changed(self: Any, a: Any, run: Any, /) -> None: ...

    args, kwargs = with_run(changed, (), {}, RUN)
    with pytest.raises(TypeError, match="missing 2 required positional"):
        await changed(None, *args, **kwargs)


def test_another_class_called_run_is_no_run() -> None:
    scope: dict[str, Any] = {"Run": int}
    exec('async def handler(self, count: "Run"): ...', scope)
    assert with_run(scope["handler"], (1,), {}, RUN) == ((1,), {})


def test_on_missed_takes_one_argument() -> None:
    class Told:
        async def good(self, missed: Any) -> None: ...
        async def wide(self, missed: Any, more: int = 1) -> None: ...
        async def nothing(self) -> None: ...
        async def much(self, missed: Any, more: int) -> None: ...
        async def named(self, *, missed: Any) -> None: ...
        def sync(self, missed: Any) -> None: ...

    check_missed(Told, "good")
    check_missed(Told, "wide")
    for name, words in (
        ("nothing", "Told.nothing can't be a on_missed that is given one argument: too many positional"),
        ("much", "'more'"),
        ("named", "positional"),
        ("sync", "must be `async def`"),
        ("nobody", "no method 'nobody'"),
    ):
        with pytest.raises(BadHandler, match=words):
            check_missed(Told, name)


def test_what_a_class_declares_is_given_its_run_only() -> None:
    class Takes(DurableObject):
        @every.minute
        async def work(self, run: Run, text: str) -> None: ...

    class Static(DurableObject):
        @staticmethod
        @every.minute
        async def work() -> None: ...

    class Class(DurableObject):
        @classmethod
        @every.minute
        async def work(cls) -> None: ...

    class Deaf(DurableObject):
        @every.minute(on_missed="told")
        async def work(self) -> None: ...
        async def told(self) -> None: ...

    for cls, words in (
        (
            Takes,
            "Takes.work can't be a handler declared with `@every` that is given no arguments and its run: .*'text'",
        ),
        (Static, "Static.work is declared with `@every` and can't be a staticmethod; drop `@staticmethod`"),
        (Class, "drop `@classmethod`"),
        (Deaf, "Deaf.told can't be a on_missed"),
    ):
        with pytest.raises(BadHandler, match=words):
            App().object(cls)


async def test_a_function_of_the_app_is_given_its_run_only() -> None:
    app, got = App(), []

    @app.every.minute
    async def place(run: Run, /) -> None:
        got.append(run.name)

    with pytest.raises(
        BadHandler, match=r"takes can't be a function on the app's clock that is given no arguments.*'text'"
    ):

        @app.every.minute
        async def takes(text: str) -> None: ...

    async with app.world() as world:
        await world.advance("61s")
    assert got == ["schedule:place"]


async def test_the_run_and_arguments_reach_a_handler_that_takes_both() -> None:
    app, got = App(), []

    @app.object
    class Both(DurableObject):
        async def work(self, run: Run, text: str) -> None:
            got.append((type(run), text))

    async with app.world() as world:
        await app.schedules(Both, "a").add("every 10s", Both.work, "x", max_runs=1)
        await world.advance("11s")
    assert got == [(Run, "x")]
