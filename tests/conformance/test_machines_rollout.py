"""While versions of Wakeful are rolled out or back: what a machine writes is read by the version before, and the other way."""

from typing import Any

import pytest

from wakeful import App, DurableObject, Machine, action
from wakeful.machine import Sender
from wakeful.machines.timers import Doings
from wakeful.store import Range
from wakeful.values.codec import decode
from wakeful.values.commits import SYSTEM
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.values.trace import without_trace

GATE = ObjectId("Gate", "g")


def read_by_the_version_before(timer: Timer) -> list[str]:
    """The names of the actions, unpacked as caeae0f does it: four things each, no more."""
    names, rest = [], decode(without_trace(timer.payload))
    while rest:
        (name, _params, _context, _event), *rest = rest
        names.append(name)
    return names


class Yard:
    """An app with a machine that two kinds of callers send something, and what its actions knew of them."""

    def __init__(self) -> None:
        self.app = App()
        self.seen: list[Any] = []
        yard = self

        @self.app.object
        class Gate(Machine):
            chart = {"initial": "on", "states": {"on": {"on": {"ASK": {"actions": ["note", "note"]}}}}}

            @action
            async def note(self, context: Any, event: Any) -> None:
                yard.seen.append(self.sender)

        @self.app.object
        class Other(DurableObject):
            async def ask(self) -> None:
                await yard.app.get(Gate, "g").send("ASK")

        self.Gate: Any = Gate
        self.Other: Any = Other


async def test_the_version_before_reads_the_actions_of_this_one(
    monkeypatch: pytest.MonkeyPatch, store_url: str
) -> None:
    yard, read, run = Yard(), list[Any](), Doings.run

    async def look(self: Doings, turn: Any, bound: Any, timer: Timer) -> bool:
        read.append(read_by_the_version_before(timer))
        return await run(self, turn, bound, timer)

    monkeypatch.setattr(Doings, "run", look)
    async with yard.app.world(store=store_url) as world:
        await world.get(yard.Other, "o").ask()
        await world.settle()
        assert read == [["note", "note"], ["note"]]
        assert yard.seen == [Sender("object", object=ObjectId("Other", "o"))] * 2
        rows = await world.store.scan(GATE, SYSTEM, Range())
        assert [name for name in dict(rows) if name.startswith("machine.sender")] == []  # gone with the last of them


async def test_actions_that_the_version_before_asked_for_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    yard = Yard()
    monkeypatch.setattr("wakeful.machines.carrier.note_sender", lambda *_: None)  # it did not say who it was
    async with yard.app.world() as world:
        await world.get(yard.Other, "o").ask()
        await world.settle()
        assert yard.seen == [Sender("outside")] * 2
