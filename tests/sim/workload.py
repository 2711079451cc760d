"""What do simulated objects do, and what do they write down so that anyone can check it later?

Every turn writes the same fact in several places (a row per operation, a count, a sum, the typed
state, the alarm beside the time it was set for), so that half a turn on disk can't look whole.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from wakeful.app import App
from wakeful.objects import DurableObject
from wakeful.policy.retry import CRASHES_MAX
from wakeful.runtime.alarms import AlarmInfo
from wakeful.runtime.context import Context
from wakeful.runtime.registry import reader
from wakeful.values.times import from_datetime


class Bang(Exception):
    """The object's own code failed, as it was told to."""


class WakeBang(Exception):
    """The object's `on_wake` failed, as the dice told it to."""


@dataclass
class Witness:
    """Sees what the objects do while they do it, and outlives every crash."""

    dice: random.Random
    now: Callable[[], int] = lambda: 0
    kill: Callable[[], bool] = lambda: False  # whether it did: a process that is stopping already dies no more
    life: int = 0  # counts processes
    deaths: int = 0
    trace: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    running: Counter[tuple[int, str]] = field(default_factory=Counter)  # turns under way, by life and key
    kills: Counter[str] = field(default_factory=Counter)  # how often a run killed its process
    begun: list[str] = field(default_factory=list)  # keys of alarms in the order in which their handlers began
    is_mended: bool = False  # alarms that always fail succeed from now on
    wakes_fail: float = 0.0  # how likely `on_wake` of a moody object raises

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now()} {text}")

    def complain(self, text: str) -> None:
        self.note(f"COMPLAINT {text}")
        self.complaints.append(text)


@dataclass
class Tally:
    """The typed state: the same facts as the rows, once more."""

    count: int = 0
    total: int = 0


class Account(DurableObject):
    """Keeps operations and their sum, and an alarm whose temper is the first part of its key.

    steady-…: runs. flaky-…: fails twice, then runs. slow-…: takes three seconds. doomed-…: fails until
    mended. killer-…: kills its process until mended. moody-…: its `on_wake` fails now and then.
    """

    state: Tally
    witness: ClassVar[Witness]

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.mood = ctx.key.partition("-")[0]

    async def on_wake(self) -> None:
        self.witness.note(f"{self.ctx.key} wakes")
        if self.mood == "moody":
            self.storage.put("wakes", await self.storage.get("wakes", 0) + 1)
            if self.witness.dice.random() < self.witness.wakes_fail:
                raise WakeBang(self.ctx.key)

    # operations; each is named by a token of its own

    async def add(self, token: str, amount: int, pause: float = 0.0) -> int:
        async with self._turn():
            return await self._book(token, amount, pause)

    async def fail(self, token: str, amount: int, pause: float = 0.0) -> None:
        """Everything `add` does and more, then a raise: nothing of it may remain."""
        async with self._turn():
            await self._book(token, amount, pause)
            await self._arm(timedelta(seconds=1), 0)
            raise Bang(token)

    async def commit_then_fail(self, token: str, amount: int) -> None:
        """A durable point, then a raise: what came before it remains, what came after does not."""
        async with self._turn():
            await self._book(token, amount)
            await self.ctx.commit()
            await self._book(f"{token}!", amount)
            raise Bang(token)

    async def savepoint(self, token: str, amount: int) -> int:
        """A transaction that raises inside: its rows, state and alarm are undone, the rest stays."""
        async with self._turn():
            try:
                async with self.storage.transaction():
                    await self._book(f"{token}!", amount)
                    await self._arm(timedelta(seconds=1), 3)
                    raise Bang(token)
            except Bang:
                pass
            return await self._book(token, amount)

    async def touch(self, token: str) -> int:
        """A transaction that raises inside a turn which does nothing else but read."""
        async with self._turn():
            try:
                async with self.storage.transaction():
                    self.state.count += 1
                    self.storage.delete_all()
                    raise Bang(token)
            except Bang:
                return await self.storage.count("op:")

    async def transfer(self, token: str, amount: int, to: str) -> int:
        """Give to another object first (under the token as request key), then write that it was given."""
        async with self._turn():
            await self.ctx.get(type(self), to, request_key=token).add(token, amount)
            return await self._book(token, -amount)

    async def arm(self, token: str, amount: int, delay_ms: int, again: int) -> int:
        """Set the alarm and write down for when, to be armed again that often by its handler."""
        async with self._turn():
            booked = await self._book(token, amount)
            await self._arm(timedelta(milliseconds=delay_ms), again)
            return booked

    async def disarm(self, token: str, amount: int) -> int:
        async with self._turn():
            self.storage.delete_alarm()
            self.storage.delete_many(["wanted", "again"])
            return await self._book(token, amount)

    @reader
    async def peek(self, pause: float = 0.0) -> tuple[int, list[str]]:
        """How many operations the state knows, and the tokens on the books; all of it on disk when this is answered."""
        count = self.state.count
        rows = await self.storage.list(prefix="op:")
        if pause:
            await asyncio.sleep(pause)
        return count, [key.removeprefix("op:") for key in rows]

    # the alarm

    async def alarm(self, info: AlarmInfo) -> None:
        async with self._turn():
            key, witness, storage = self.ctx.key, self.witness, self.storage
            scheduled_at = from_datetime(info.scheduled_at)
            witness.note(f"{key} alarm {info.run_id} of {scheduled_at} attempt {info.retry_count}")
            witness.begun.append(key)
            wanted = await storage.get("wanted")
            if scheduled_at != wanted:
                witness.complain(f"{key}: the alarm that was set for {wanted} says it is of {scheduled_at}")
            if witness.now() < scheduled_at:
                witness.complain(f"{key}: fired {scheduled_at - witness.now()} ms early")
            if await storage.get_alarm() is not None:
                witness.complain(f"{key}: get_alarm() inside the handler is not None")
            effect = f"effect:{info.run_id}"
            storage.put(effect, await storage.get(effect, 0) + 1)
            storage.put("fires", await storage.get("fires", 0) + 1)
            storage.delete("wanted")
            again = await storage.get("again", 0)
            if again:
                await self._arm(timedelta(seconds=0 if again % 2 else 600), again - 1)
            if self.mood == "killer" and not witness.is_mended:
                witness.kills[info.run_id] += witness.kill()
                if witness.kills[info.run_id] > CRASHES_MAX:
                    witness.complain(f"{key}: one alarm killed its process {witness.kills[info.run_id]} times")
                await asyncio.sleep(1)
            if self.mood == "slow":
                await asyncio.sleep(3)
            if self.mood == "flaky" and info.retry_count < 2:
                raise Bang(key)
            if self.mood == "doomed" and not witness.is_mended:
                raise Bang(key)

    # inside

    async def _book(self, token: str, amount: int, pause: float = 0.0) -> int:
        storage = self.storage
        if await storage.get(f"op:{token}") is not None:
            storage.put(f"twice:{token}", True)
        storage.put(f"op:{token}", amount)
        count: int = await storage.get("count", 0) + 1
        storage.put("count", count)
        self.state.count += 1
        if pause:
            await asyncio.sleep(pause)
        storage.put("total", await storage.get("total", 0) + amount)
        self.state.total += amount
        return count

    async def _arm(self, delay: timedelta, again: int) -> None:
        self.storage.set_alarm(delay)
        at = await self.storage.get_alarm()
        assert at is not None
        self.storage.put_many({"wanted": from_datetime(at), "again": again})

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Watches that no two turns of one object run at once in one process."""
        witness = self.witness
        key = (witness.life, self.ctx.key)
        witness.running[key] += 1
        if witness.running[key] > 1:
            witness.complain(f"{self.ctx.key}: {witness.running[key]} turns run at once")
        try:
            yield
        finally:
            witness.running[key] -= 1


def make_app(witness: Witness) -> tuple[App, type[Account]]:
    """An app of its own for one simulation, whose objects are seen by this witness."""
    app = App()
    members: dict[str, Any] = {"witness": witness, "__module__": __name__}
    account: type[Account] = type("Account", (Account,), members)
    return app, app.object(name="Account")(account)
