"""A program that is written cell by cell, in a notebook or at a prompt, while it runs."""

import ast
import asyncio
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.values.errors import BadName, BadOption, NotRunning

COUNTER = """
@app.object
class Counter(DurableObject):
    async def add(self, by=1):
        value = await self.storage.get("value", 0) + by * {times}
        await self.storage.put("value", value)
        return value
"""
EVERY = """
@app.every.hour
async def ring():
    rung.append({word!r})
"""


class Notebook:
    """A module without a file, in which cells are run with `await` at their top, as IPython does."""

    def __init__(self, name: str) -> None:
        self.module = types.ModuleType(name)
        self.module.__dict__.update(App=App, DurableObject=DurableObject)

    async def run(self, cell: str) -> Any:
        code = compile(cell, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        made = eval(code, self.module.__dict__)
        if inspect.isawaitable(made):
            await made
        return self.module.__dict__.get("result")


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    made = Notebook("__notebook__")
    sys.modules["__notebook__"] = made.module
    yield made
    del sys.modules["__notebook__"]


async def test_a_class_in_a_cell_that_is_run_again_takes_the_place_of_the_former(notebook: Notebook) -> None:
    await notebook.run("app = App()\nawait app.start('memory:')")
    await notebook.run(COUNTER.format(times=1))
    assert await notebook.run("result = await app.get(Counter, 'a').add()") == 1
    await notebook.run(COUNTER.format(times=10))
    assert await notebook.run("result = await app.get(Counter, 'a').add()") == 11  # its data stays, its code is new
    await notebook.run("await app.stop()\nawait app.stop()")
    with pytest.raises(NotRunning):
        await notebook.run("await app.get(Counter, 'a').add()")


async def test_an_object_that_is_busy_goes_on_as_it_is_and_wakes_anew(notebook: Notebook) -> None:
    slow = """
import asyncio
go = asyncio.Event()
@app.object
class Slow(DurableObject):
    async def wait(self):
        await go.wait()
        return {word!r}
"""
    await notebook.run("app = App()\nawait app.start('memory:')")
    await notebook.run(slow.format(word="old"))
    waiting = asyncio.create_task(notebook.module.app.get(notebook.module.Slow, "a").wait())
    for _ in range(20):
        await asyncio.sleep(0)
    go = notebook.module.go
    await notebook.run(slow.format(word="new"))
    go.set()
    notebook.module.go.set()
    assert await waiting == "old"
    assert await notebook.run("result = await app.get(Slow, 'a').wait()") == "new"
    await notebook.run("await app.stop()")


async def test_the_cell_that_starts_can_be_run_again_also_with_a_new_app(notebook: Notebook, tmp_path: Path) -> None:
    start = f"app = App()\n{COUNTER.format(times=1)}\nnode = await app.start('sqlite:{tmp_path}/a.db')"
    await notebook.run(start)
    assert await notebook.run("result = await app.get(Counter, 'a').add()") == 1
    first = notebook.module.app
    await notebook.run(start)
    assert notebook.module.app is not first
    assert await notebook.run("result = await app.get(Counter, 'a').add()") == 2
    await notebook.run(f"await app.start('sqlite:{tmp_path}/b.db')")  # the same app elsewhere
    assert await notebook.run("result = await app.get(Counter, 'a').add()") == 1
    await first.stop()  # it was, long ago
    await notebook.run("await app.stop()")


async def test_a_function_on_the_apps_clock_begins_while_the_app_runs_and_is_replaced(notebook: Notebook) -> None:
    await notebook.run("rung = []\napp = App()")
    async with notebook.module.app.world() as world:
        await notebook.run(EVERY.format(word="old"))
        await world.advance(hours=1)
        assert notebook.module.rung == ["old"]
        await notebook.run(EVERY.format(word="new"))
        await world.advance(hours=1)
        assert notebook.module.rung == ["old", "new"]


async def test_in_a_file_two_classes_or_functions_of_one_name_are_a_mistake() -> None:
    app = App()

    def define() -> None:
        @app.object
        class Twice(DurableObject): ...

    define()
    with pytest.raises(BadName, match="two classes are called Twice"):
        define()

    def ring() -> None:
        @app.every.hour
        async def ring() -> None: ...

    ring()
    with pytest.raises(BadOption, match="on the app's clock already"):
        ring()


def test_what_was_started_in_another_loop_is_not_stopped_in_this_one(tmp_path: Path) -> None:
    app = App()
    with asyncio.Runner() as first:
        first.run(app.start("memory:"))
        with asyncio.Runner() as second, pytest.raises(NotRunning, match="another event loop"):
            second.run(app.stop())
        first.run(app.stop())


async def test_two_apps_in_memory_are_two(notebook: Notebook) -> None:
    for name in ("one", "two"):
        await notebook.run(
            f"{name} = app = App()\n{COUNTER.format(times=1)}\nawait app.start('memory:')\n{name}_class = Counter"
        )
    assert await notebook.run("result = await one.get(one_class, 'a').add()") == 1
    await notebook.run("await one.stop()\nawait two.stop()")


def test_a_loop_that_is_over_keeps_nobody_from_starting(tmp_path: Path) -> None:
    app, other, url = App(), App(), f"sqlite:{tmp_path}/a.db"
    asyncio.run(app.start("memory:"))
    with asyncio.Runner() as runner:
        runner.run(app.start("memory:"))
        runner.run(app.stop())
        runner.run(other.start(url))
        runner.run(other.stop())


async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    app = App()
    with pytest.raises(BadOption):
        await app.start("memory:", lease="1h")
    await app.start("memory:")
    await app.stop()


@pytest.mark.parametrize("is_raising", [False, True])
def test_a_loop_that_ends_while_it_is_started_ends_it_well(tmp_path: Path, is_raising: bool) -> None:
    said: list[str] = []
    app = App()

    @app.object
    class Mark(DurableObject):
        async def put(self) -> None:
            await self.storage.put("is", True)

    async def script() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
        await app.start(f"sqlite:{tmp_path}/a.db")
        await app.get(Mark, "a").put()
        if is_raising:
            raise KeyError("of the script's own")

    if is_raising:
        with pytest.raises(KeyError, match="of the script"):
            asyncio.run(script())
    else:
        asyncio.run(script())
    assert said == []
    assert app.deployment.node is None  # it stopped: nothing is left that would say it runs

    async def again() -> int:
        async with app.run(f"sqlite:{tmp_path}/a.db"):
            return await app.count(Mark)

    assert asyncio.run(again()) == 1
