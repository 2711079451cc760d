"""The class that the tests of a cluster play with, and how they find their way about it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from wakeful import App, DurableObject, Unavailable, reader
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of


class OwnError(Exception):
    """One that only the program knows."""


class Troupe:
    """An app of its own, and what its objects did, wherever they ran."""

    def __init__(self) -> None:
        self.app = App()
        self.ran: list[tuple[str, str, int]] = []  # what, on which node, when by the world's clock
        self.failing: set[str] = set()  # keys of objects whose alarm goes wrong
        self.raises = 0  # how often code that raises ran
        self.world: World | None = None
        troupe = self

        @self.app.object
        class Cell(DurableObject):
            async def add(self, pause: float = 0.0) -> int:
                value: int = await self.storage.get("n", 0) + 1
                if pause:
                    await asyncio.sleep(pause)
                self.storage.put("n", value)
                return value

            async def where(self) -> str:
                return self.ctx._activation.node.name

            @reader
            async def value(self, pause: float = 0.0) -> int:
                found: int = await self.storage.get("n", 0)
                if pause:
                    await asyncio.sleep(pause)
                return found

            async def look(self, to: str, pause: float) -> int:
                """What another object's value is by then."""
                await asyncio.sleep(pause)
                found: int = await self.ctx.get(type(self), to).value()
                return found

            async def tally(self, op: str) -> int:
                """As `add`, with a second row, which must always tell the same."""
                self.storage.put(f"op:{op}", 1)
                return await self.add()

            async def tell(self, to: str, op: str, pause: float) -> int:
                """Have another object count by then."""
                await asyncio.sleep(pause)
                found: int = await self.ctx.get(type(self), to).tally(op)
                return found

            async def arm(self, after_ms: int) -> None:
                self.storage.set_alarm(timedelta(milliseconds=after_ms))

            async def alarm(self) -> None:
                troupe.note(f"alarm {self.ctx.key}", self)
                if self.ctx.key in troupe.failing:
                    raise OwnError("not yet")
                self.storage.put("rang", await self.storage.get("rang", 0) + 1)

            async def work(self, token: str, pause: float = 0.0) -> str:
                troupe.note(token, self)
                if pause:
                    await asyncio.sleep(pause)
                self.storage.put(f"did:{token}", await self.storage.get(f"did:{token}", 0) + 1)
                return token

            async def send(self, to: str, token: str, after_ms: int) -> None:
                """Schedule a job of another object, with this turn's own commit."""
                self.storage.put("sent", token)
                await self.jobs.schedule(
                    self.ctx.get(type(self), to).work, token, after=timedelta(milliseconds=after_ms)
                )

            async def relay(self, path: list[str]) -> list[str]:
                """Call the next of the path, which calls the next but one; where each of them lives."""
                here = [await self.where()]
                if path:
                    here += await self.ctx.get(type(self), path[0]).relay(path[1:])
                return here

            async def raise_(self, kind: str) -> None:
                self.storage.put("n", -1)
                troupe.raises += 1
                if kind == "away":
                    raise Unavailable("mine", code="object.moved")
                if kind == "own":
                    raise OwnError("mine")
                if kind == "hidden":

                    class HiddenError(Exception):
                        pass

                    raise HiddenError("mine")
                raise ValueError("mine")

        self.Cell = Cell

    def note(self, what: str, cell: Any) -> None:
        assert self.world is not None
        self.ran.append((what, cell.ctx._activation.node.name, self.world.warp.now()))

    def runs(self, what: str) -> list[tuple[str, int]]:
        return [(node, at) for token, node, at in self.ran if token == what]

    def cell(self, key: str, **options: Any) -> Any:
        return self.app.get(self.Cell, key, **options)

    def at(self, member: Member, key: str, **options: Any) -> Any:
        """A stub that calls through that very node."""
        assert member.node is not None
        return member.node.stub(self.Cell, key, **{"deadline": None, "request_key": None, **options})


Cluster = Callable[..., tuple[Troupe, World]]


def key_of(member: Member, prefix: str = "k") -> str:
    """A key whose object lives on that node now."""
    return keys_of(member, 1, prefix)[0]


def keys_of(member: Member, number: int, prefix: str = "k") -> list[str]:
    assert member.node is not None
    found = []
    for index in range(100_000):
        key = f"{prefix}{index}"
        if shard_of(ObjectId("Cell", key)) in member.node.epochs:
            found.append(key)
            if len(found) == number:
                return found
    raise AssertionError(f"{member.name} owns {len(member.node.epochs)} shards, and {len(found)} of {number} keys")
