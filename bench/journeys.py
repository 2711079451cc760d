"""How many files does a reader pass on four journeys through the code? `python -m bench.journeys`

Each journey is done once before, so that nothing is woken, read or compiled for the first time; then every call of a function of
Wakeful is noted while it is done again, in a virtual world on the store in memory. Files and functions are counted once; a hop
is a call from one file to another.
"""

import argparse
import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import wakeful
from wakeful import App, DurableObject, Machine
from wakeful.testing import World
from wakeful.values.ids import ObjectId, shard_of

ROOT = Path(wakeful.__file__).parent
BESIDE = ("testing",)  # the virtual world is the yardstick, not a part of the way


class Trace:
    """Every call of a function of Wakeful while it listens, as file → functions, and the hops between files."""

    def __init__(self) -> None:
        self.functions: dict[str, Counter[str]] = {}
        self.hops = 0

    def __enter__(self) -> "Trace":
        threading.setprofile(self._heard)
        sys.setprofile(self._heard)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _heard(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        file = _file_of(frame)
        if file is None:
            return
        self.functions.setdefault(file, Counter())[frame.f_code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and (called_by := _file_of(caller)) is None:
            caller = caller.f_back
        self.hops += caller is not None and called_by != file


def _file_of(frame: FrameType) -> str | None:
    """The file below the package, None for everybody else's."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    file = path.relative_to(ROOT)
    return None if file.parts[0] in BESIDE else file.as_posix()


app = App()


@app.object
class Cell(DurableObject):
    async def plan(self, name: str) -> None:
        await self.schedules.add("* * * * *", self.ring, name=name)

    async def ring(self) -> None:
        self.storage.put("rang", True)

    async def write(self) -> None:
        self.storage.put("n", await self.storage.get("n", 0) + 1)


@app.object
class Lamp(Machine):
    chart = {
        "initial": "off",
        "states": {"off": {"on": {"PRESS": "lit"}}, "lit": {"after": {"10s": "off"}}},
    }


async def add_a_schedule(world: World) -> Trace:
    """A warm `schedules.add`: a call to an object that is awake and adds one more schedule, and its commit."""
    cell = world.get(Cell, "a")
    for name in "abc":
        await cell.plan(name)
    return await traced(cell.plan("d"))


async def fire_a_cron(world: World) -> Trace:
    """A due cron: its handler, and the commit that says so."""
    await world.get(Cell, "a").plan("a")
    await world.advance(minutes=2)
    return await traced(world.advance(minutes=1))


async def call_another_node(world: World) -> Trace:
    """A call that writes, to an object that lives on another node."""
    asker, owner = world.members
    assert asker.node is not None
    assert owner.node is not None
    far = next(key for key in map(str, range(999)) if shard_of(ObjectId("Cell", key)) in owner.node.epochs)
    cell = asker.node.stub(Cell, far, deadline=None, request_key=None)
    await cell.write()
    return await traced(cell.write())


async def pass_a_delay(world: World) -> Trace:
    """The delay of a statechart: it is due, and the machine takes the step."""
    lamp = world.get(Lamp, "a")
    for _ in range(2):
        await lamp.send("PRESS")
        await world.advance(seconds=20)
    await lamp.send("PRESS")
    return await traced(world.advance(seconds=20))


async def traced(way: Awaitable[Any]) -> Trace:
    with Trace() as trace:
        await way
    return trace


JOURNEYS: dict[str, tuple[Callable[[World], Awaitable[Trace]], int]] = {
    "schedules.add": (add_a_schedule, 1),
    "cron": (fire_a_cron, 1),
    "call to another node": (call_another_node, 2),
    "statechart delay": (pass_a_delay, 1),
}


async def travel(name: str) -> Trace:
    """Do the journey of that name, and note the way."""
    way, nodes = JOURNEYS[name]
    async with app.world() if nodes == 1 else app.world(nodes=nodes) as world:
        return await way(world)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.journeys", description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files and functions, too")
    wanted = parser.parse_args()
    for name in JOURNEYS:
        trace = asyncio.run(travel(name))
        functions = sum(map(len, trace.functions.values()))
        print(f"{name}: {len(trace.functions)} files, {functions} functions, {trace.hops} hops")
        if wanted.files:
            for file, called in sorted(trace.functions.items()):
                print(f"    {file}: {', '.join(called)}")


if __name__ == "__main__":
    main()
