"""What the tests of the command line's schedules share: a program, a past made in virtual time, and commands."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import run
from wakeful.cli.app_loader import load

PROGRAM = """
import asyncio
from wakeful import App, DurableObject, RetryPolicy, Run, every, fixed

app = App(default_zone="Europe/Berlin")
TWICE = RetryPolicy(max_attempts=2, backoff=fixed("10s"))

@app.object
class Report(DurableObject):
    @every.day.at("02:30", gap="skip", tags=["office"])
    async def nightly(self, run: Run):
        await self.storage.put("nights", await self.storage.get("nights", 0) + 1)

    @every.monday.at("9am", tags=["office"])
    async def weekly(self):
        pass

    async def add(self, spec, handler, name, options=None):
        retry = {"retry": TWICE} if handler == "broken" else {}
        await self.schedules.add(spec, handler, name=name, **retry, **(options or {}))

    async def again(self, name, spec):
        await self.schedules.reschedule(name, spec)

    async def cancel(self, name):
        return await self.schedules.cancel(name)

    async def tick(self):
        pass

    async def slow(self):
        await asyncio.sleep(150)

    async def broken(self, run: Run):
        if await self.storage.get("healed") is None:
            raise ValueError("it is broken")

    async def heal(self):
        await self.storage.put("healed", True)

@app.every.hour
async def cleanup():
    pass
"""


@dataclass
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """All that was printed, without the line breaks of a narrow terminal."""
        return " ".join(self.out.split())


@dataclass
class Stage:
    """A folder with the program and its store; commands run there, at the time that the store's past ended."""

    path: Path
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *args: str) -> Answer:
        with _tidied():
            self.capture.readouterr()
            code = run(args)
        out, err = self.capture.readouterr()
        return Answer(code, out, err)

    def past(self, live: Callable[..., Any], *, start: str) -> None:
        """Let the program live in virtual time on the store; afterwards it is the time at which that ended."""

        async def do() -> datetime:
            app = load(str(self.path / "app.py")).app
            async with app.world(start=start, store=f"sqlite:{self.path}/wakeful.db") as world:
                await live(world, _caller(world))
                return world.now()

        with _tidied():
            self.set_time(asyncio.run(do()))

    def set_time(self, now: datetime) -> None:
        ms = int(now.timestamp() * 1000)
        self.monkeypatch.setattr("wakeful.cli.output.now_ms", lambda: ms)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The program runs the store, in real time and in another thread, reached by its control socket."""
        ready, failed = threading.Event(), []
        loop = asyncio.new_event_loop()
        over = asyncio.Event()

        async def main() -> None:
            async with load(str(self.path / "app.py")).app.run(f"sqlite:{self.path}/wakeful.db"):
                ready.set()
                await over.wait()

        def live() -> None:
            try:
                loop.run_until_complete(main())
            except BaseException as error:
                failed.append(error)
                ready.set()

        with _tidied():
            thread = threading.Thread(target=live)
            thread.start()
            assert ready.wait(20), "the program did not start"
            assert not failed, failed
            try:
                yield
            finally:
                loop.call_soon_threadsafe(over.set)
                thread.join(20)
                assert not thread.is_alive()
                loop.close()


def make_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stage:
    """To be a fixture: `wakeful = pytest.fixture(make_stage)`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAKEFUL_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    (tmp_path / "app.py").write_text(PROGRAM)
    return Stage(tmp_path, capsys, monkeypatch)


def _caller(world: Any) -> Callable[..., Any]:
    """Calls methods of `Report/eu`, or operations on its schedules."""

    async def call(method: str, *args: Any, **kwargs: Any) -> Any:
        from wakeful.values.ids import ObjectId

        return await world.node.send(ObjectId("Report", "eu"), method, args, kwargs)

    return call


@contextmanager
def _tidied() -> Iterator[None]:
    """Nothing that the program imports outlives it."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if not name.startswith(("wakeful", "rich", "asyncio")):
                del sys.modules[name]
