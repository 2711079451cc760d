"""Random workflows, and a plain interpreter of the same bodies: with no rows, no replay and no crashes, on one event loop."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from wakeful import RetryPolicy, fixed
from wakeful.values.errors import DeadlineExceeded, StepFailed

TICK = 5  # seconds: what time is counted in here
RETRY = RetryPolicy(3, fixed("10ms"))
Node = tuple[Any, ...]


class Author:
    """Writes a random body as a tree: what is done, in which order, beside what."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.events: list[tuple[int, str]] = []  # when, in ticks, and which
        self.size = 0
        self._lengths = [n * 7 + 3 for n in range(1, 400)]  # no two things end at the same time
        self.dice.shuffle(self._lengths)

    def write(self, depth: int = 3) -> Node:
        self.size += 1
        kinds = ["step", "step", "flaky", "sleep", "wait", "publish", "dice"]
        if depth:
            kinds += ["sequence", "sequence", "beside", "race", "attempt", "group"]
        kind = self.dice.choice(kinds) if depth < 3 else "sequence"
        name = f"{kind} {self.dice.randrange(3)}"  # names repeat
        if kind in ("sequence", "beside", "group"):
            return (kind, [self.write(depth - 1) for _ in range(self.dice.randrange(2, 5))])
        if kind == "race":
            return (
                kind,
                [("sequence", [("sleep", name, self._lengths.pop()), self.write(depth - 1)]) for _ in range(2)],
            )
        if kind == "attempt":
            return (
                kind,
                ("sequence", [self.write(depth - 1), ("fail", name), self.write(depth - 1)]),
                self.write(depth - 1),
            )
        if kind == "sleep":
            return (kind, name, self._lengths.pop())
        if kind == "wait":
            event = f"event {len(self.events)}"
            self.events.append((self._lengths.pop() + 1, event))
            return (kind, event, self._lengths.pop() if self.dice.random() < 0.7 else None)
        return (kind, name)


class Outside:
    """What the steps of one run do: always the same answers, and it is noted what was undone."""

    def __init__(self) -> None:
        self.undone: list[Any] = []
        self.tried: set[str] = set()

    async def work(self, name: str) -> str:
        return f"did {name}"

    async def flaky(self, name: str) -> str:
        if name not in self.tried:
            self.tried.add(name)
            raise OSError(name)
        return f"did {name}"

    async def fail(self, name: str) -> None:
        raise ValueError(name)

    async def undo(self, value: Any) -> None:
        self.undone.append(value)


async def perform(node: Node, step: Any, outside: Outside, path: str = "") -> Any:
    """The body: what it is for both interpreters."""
    kind = node[0]
    if kind == "sequence":
        return [await perform(one, step, outside, f"{path}.{n}") for n, one in enumerate(node[1])]
    if kind == "beside":
        return await asyncio.gather(*(perform(one, step, outside, f"{path}.{n}") for n, one in enumerate(node[1])))
    if kind == "group":
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(perform(one, step, outside, f"{path}.{n}")) for n, one in enumerate(node[1])]
        return [task.result() for task in tasks]
    if kind == "race":
        racers = [asyncio.ensure_future(perform(one, step, outside, f"{path}.{n}")) for n, one in enumerate(node[1])]
        try:
            done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
            return next(racer.result() for racer in racers if racer in done)
        finally:
            for racer in racers:
                racer.cancel()
            await asyncio.gather(*racers, return_exceptions=True)
    if kind == "attempt":
        try:
            return await perform(node[1], step, outside, f"{path}.t")
        except StepFailed as error:
            return [error.kind, error.said, await perform(node[2], step, outside, f"{path}.x")]
    return await _leaf(node, step, outside, path)


async def _leaf(node: Node, step: Any, outside: Outside, path: str) -> Any:
    kind, name = node[0], node[1]
    if kind == "step":
        return await step(name, outside.work, f"{name}{path}", undo=outside.undo)
    if kind == "flaky":
        return await step(name, outside.flaky, f"{name}{path}", retry=RETRY, undo=outside.undo)
    if kind == "fail":
        return await step(name, outside.fail, f"{name}{path}", retry=RetryPolicy(1))
    if kind == "sleep":
        return await step.sleep(name, node[2] * TICK)
    if kind == "publish":
        return await step.publish(path)
    if kind == "dice":
        return 0 <= step.random() < 1
    try:
        return await step.wait_for(name, timeout=None if node[2] is None else node[2] * TICK)
    except TimeoutError:
        return f"no {name}"


class PlainStep:
    """The same calls, done at once and remembered nowhere."""

    def __init__(self, dice: random.Random) -> None:
        self.published: list[Any] = []
        self.undos: list[tuple[Any, Any]] = []
        self._dice = dice
        self._events: dict[str, asyncio.Future[Any]] = {}

    async def __call__(
        self,
        name: str,
        function: Callable[..., Awaitable[Any]],
        *args: Any,
        retry: RetryPolicy | None = None,
        undo: Any = None,
    ) -> Any:
        attempts = 0
        while True:
            await asyncio.sleep(0)
            try:
                value = await function(*args)
            except Exception as error:
                attempts += 1
                delay = (retry or RETRY).delay_ms(attempts, error, 0.0)
                if delay is None:
                    raise StepFailed(kind=type(error).__name__, said=str(error)) from None
                await asyncio.sleep(delay / 1000)
            else:
                if undo is not None:
                    self.undos.append((undo, value))
                return value

    async def sleep(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait_for(self, event: str, timeout: float | None = None) -> Any:
        future = self._event(event)
        if timeout is None:
            return await asyncio.shield(future)
        async with asyncio.timeout(timeout):
            return await asyncio.shield(future)

    async def publish(self, value: Any) -> None:
        self.published.append(value)

    def random(self) -> float:
        return self._dice.random()

    def send(self, event: str, data: Any) -> None:
        self._event(event).set_result(data)

    async def undo(self) -> None:
        for undo, value in reversed(self.undos):
            await undo(value)

    def _event(self, event: str) -> "asyncio.Future[Any]":
        if event not in self._events:
            self._events[event] = asyncio.get_running_loop().create_future()
        return self._events[event]


async def verdict(way: Awaitable[Any]) -> Any:
    """What came of it, as a value that can be compared."""
    try:
        return ["done", await way]
    except StepFailed as error:
        return ["failed", error.said]
    except BaseExceptionGroup as group:
        return ["failed", sorted(_sayings(group))]
    except (DeadlineExceeded, asyncio.CancelledError) as error:
        return [type(error).__name__]


def _sayings(group: BaseException) -> list[str]:
    if isinstance(group, BaseExceptionGroup):
        return [said for one in group.exceptions for said in _sayings(one)]
    return [group.said if isinstance(group, StepFailed) else type(group).__name__]
