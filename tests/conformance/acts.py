"""Turns and handlers that the conformance suites share."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from wakeful.runtime.timer_handler import Failed, Park, RunLater
from wakeful.runtime.turn import CURRENT
from wakeful.values.timers import Timer
from wakeful.values.times import from_datetime

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Expected(Exception):
    pass


class Gate:
    """Holds commits back until it is opened, at the latest at the end of its block."""

    def __init__(self, world: Any) -> None:
        self._store = world.node.store
        self._real = self._store.commit
        self._open = asyncio.Event()
        self.groups: list[int] = []
        self._store.commit = self._commit

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *exc: object) -> None:
        self.open()

    def open(self) -> None:
        self._open.set()
        self._store.commit = self._real

    async def _commit(self, node: str, commits: Any) -> Any:
        self.groups.append(len(commits))
        await self._open.wait()
        return await self._real(node, commits)


def put(key: str, value: Any) -> Any:
    async def body(self: Any) -> Any:
        await self.storage.put(key, value)
        return value

    return body


def get(key: str) -> Any:
    async def body(self: Any) -> Any:
        return await self.storage.get(key)

    return body


async def add_one(self: Any) -> int:
    count: int = await self.storage.get("count", 0) + 1
    await self.storage.put("count", count)
    return count


def sleep(seconds: float) -> Any:
    async def body(self: Any) -> str:
        await asyncio.sleep(seconds)
        return "slept"

    return body


def ask(stage: Any, *rest: tuple[str, str]) -> Any:
    """A turn that calls the next of a chain of objects: (method, key)."""

    async def body(self: Any) -> Any:
        if not rest:
            return self.ctx.key
        (method, key), *more = rest
        name = stage.act(ask(stage, *more))
        return await getattr(self.ctx.get(stage.Bell, key), method)(name)

    return body


class Owner:
    """A feature's stake in timers called `test:…`."""

    prefix = "test"
    deadline_ms = 60_000

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.fails: set[str] = set()

    async def fire(self, activation: Any, turn: Any, timer: Timer) -> bool:
        self.fired.append(timer.name)
        if timer.name in self.fails:
            raise Expected(timer.name)
        await activation.instance.storage.put(timer.name, True)
        return True

    async def failed(self, activation: Any, turn: Any, failure: Failed) -> RunLater | Park:
        return Park(failure.timer)

    def reads(self, timer: Timer) -> None:
        return None

    def wants_wake(self, known: Any) -> bool:
        return False

    async def wake(self, activation: Any, turn: Any) -> None:
        raise AssertionError("not asked for")


def set_timers(world: Any, *named: tuple[str, timedelta]) -> Any:
    async def body(self: Any) -> None:
        turn = CURRENT.get()
        assert turn is not None
        for name, delay in named:
            at = from_datetime(world.now() + delay)
            seq = turn.activation.node.next_seq(turn.activation.shard)
            turn.set_timer(Timer(turn.activation.id, name, at, at, seq))

    return body


def ms(when: datetime) -> int:
    return from_datetime(when)
