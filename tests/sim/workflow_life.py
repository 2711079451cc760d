"""One workflow's life, the same each time, with one crash: ten steps, two branches, a sleep, events that come early and late,
a child that is cancelled and undone; and what must hold of it however it went."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from itertools import count
from typing import Any

from tests.conformance.mill import Mill, outcome
from wakeful import RetryPolicy, Step, errors, fixed
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM
from wakeful.values.ids import ObjectId

ANSWER = ["one", "two", "left", "right", "early", "late", "WorkflowCancelled", "flaky", 9, "ten"]
UNDONE = ["booked 2", "booked 1"]


class WorkflowLife:
    """It runs once, and is killed at one trip to the store if that is wanted."""

    def __init__(self, nodes: int = 0) -> None:
        self.mill = Mill()
        self.mill.body, self.mill.child = self._body, self._part
        self.seen: dict[str, set[Any]] = defaultdict(set)  # by step: what bodies were handed
        self.undone: list[str] = []
        self._counts = count()
        self.world: Any = self.mill.world(**({"nodes": nodes} if nodes else {}))

    async def _work(self, name: str) -> list[Any]:
        """Each time it is called it returns something else: of two calls only one may ever be seen."""
        await self.mill.do(name)
        return [name, next(self._counts)]

    async def _flaky(self) -> list[Any]:
        if self.mill.did["flaky"] < 2:
            await self.mill.do("flaky")
            raise OSError("not yet")
        return await self._work("flaky")

    async def _book(self, n: int) -> str:
        await self.mill.do(f"book {n}")
        return f"booked {n}"

    async def _unbook(self, booked: str) -> None:
        await self.mill.do(f"un{booked}")
        self.undone.append(booked)

    def _see(self, name: str, value: Any) -> Any:
        self.seen[name].add(repr(value))
        return value[0] if isinstance(value, list) else value

    async def _body(self, flow: Any, step: Step) -> Any:
        self._see("random", step.random())
        found = [self._see("one", await step("one", self._work, "one"))]
        found.append(self._see("two", await step("two", self._work, "two")))
        child = await step.start(self.mill.Part, "p")

        async def branch(name: str) -> Any:
            first = self._see(f"{name} 1", await step(name, self._work, name))
            self._see(f"{name} 2", await step(name, self._work, name))
            return first

        found += await asyncio.gather(branch("left"), branch("right"))
        await step.sleep("a bit", "5s")
        self._see("now", step.now().isoformat())
        found.append(self._see("early", await step.wait_for("early")))
        found.append(self._see("late", await step.wait_for("late", timeout="90s")))
        try:
            await child.result()
        except errors.StepFailed as error:
            found.append(error.kind)
        found.append(self._see("flaky", await step("flaky", self._flaky, retry=RetryPolicy(9, fixed("1s")))))
        found.append(self._see("call", await step.call(flow.ctx.get(self.mill.Stock, "s").take, 1)))
        found.append(self._see("ten", await step("ten", self._work, "ten")))
        return found

    async def _part(self, flow: Any, step: Step) -> Any:
        try:
            for n in (1, 2):
                await step("book", self._book, n, undo=self._unbook)
            await step.sleep("long", "30d")
        finally:
            await step("finally", self._work, "finally")

    async def run(self, crash_at: int | None = None, *, failing: tuple[int, Any] | None = None) -> int:
        """Live, and hold what must hold at the end; how many trips to the store, or commits, it took."""
        async with self.world as world:
            before, groups = world.faults.probes, world.faults.groups
            if failing is not None:
                world.faults.fail_commit(failing[0], when=failing[1])
            if crash_at is not None:
                self._crash_in(before + crash_at)
            flow, part = world.get(self.mill.Flow, "a"), world.get(self.mill.Part, "p")
            await self._do(lambda: flow.start())
            await self._pass("1s")
            await self._do(lambda: self._once("e1", "early"))
            await self._pass("6s")
            await self._do(lambda: self._once("e2", "late"))
            await self._pass("1s")
            await self._do(lambda: part.cancel())
            await self._pass("6s")
            probes: int = world.faults.groups - groups if failing is not None else world.faults.probes - before
            world.faults.on_probe = None
            await self._pass("1m")
            await self.check()
            return probes

    def _once(self, key: str, event: str) -> Any:
        return self.mill.app.get(self.mill.Flow, "a", request_key=key).send(event, event)

    def _crash_in(self, last: int) -> None:
        def crash(name: str, at: int) -> None:
            if at == last:
                self.world.kill()

        self.world.faults.on_probe = crash

    async def _recover(self) -> None:
        if self.world._node is None:
            self.world.faults.on_probe = None
            await self.world.restart(after="1s")

    async def _do(self, act: Any) -> None:
        while True:
            await self._recover()
            with suppress(errors.Unavailable, errors.DeadlineExceeded):
                await act()
                return

    async def _pass(self, length: str) -> None:
        await self._recover()
        await self.world.advance(length)
        await self._recover()
        await self.world.advance("1s")

    async def check(self) -> None:
        world, mill = self.world, self.mill
        answer = await outcome(world.get(mill.Flow, "a"))
        assert answer == ANSWER, answer
        assert {name: len(values) for name, values in self.seen.items() if len(values) > 1} == {}
        assert (await world.get(mill.Part, "p").status()).state == "cancelled"
        undone = [one for n, one in enumerate(self.undone) if one not in self.undone[:n]]
        assert undone == UNDONE, self.undone
        extra = sum(mill.did.values()) - len(mill.did) - 4  # two of each branch, and two failures more
        assert extra <= 3, mill.did  # what ran at the crash runs again, and nothing else does
        assert await world.get(mill.Stock, "s").left() == 9
        assert await world.due() == []
        assert await world.parked() == []
        await self._check_rows("Flow", "a")
        await self._check_rows("Part", "p")

    async def _check_rows(self, cls: str, key: str) -> None:
        rows = await self.world.store.scan(ObjectId(cls, key), SYSTEM, Range())
        assert not [name for name, _ in rows if name.startswith("workflow.event:")]


async def unsure(n: int, when: str) -> int:
    """The same life, of which that group commit fails: "before" anything of it is on disk, or "after" all is."""
    try:
        return await WorkflowLife().run(failing=(n, when))
    except AssertionError as error:
        error.add_note(f"commit {n} failed {when}")
        raise


async def calm(crash_at: int | None = None) -> int:
    """The same life each time, killed at that trip to the store."""
    try:
        return await WorkflowLife().run(crash_at)
    except AssertionError as error:
        error.add_note(f"probe {crash_at}")
        raise
