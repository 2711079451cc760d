"""Workflows and jobs in the same queues, from a seed: cancelled, paused, restarted and forgotten, while processes die; and
what must hold of it: no limit is ever passed, all of them end, and no place is lost."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tests.conformance.mill import Mill
from wakeful import DurableObject, Queue, RetryPolicy, Step, errors, fixed
from wakeful.workflows.records import OVER

LIMITS = {"wide": 3, "narrow": 1}
TROUBLE = (errors.Unavailable, errors.DeadlineExceeded, errors.OutcomeUnknown)
ACTS = ("cancel", "pause", "resume", "restart", "retry", "forget", "fork")


class QueueLife:
    """One life; the same seed is the same life."""

    def __init__(self, seed: int, nodes: int = 0) -> None:
        self.dice = random.Random(seed)
        self.nodes = nodes
        self.inside: dict[str, set[str]] = defaultdict(set)
        self.most: dict[str, int] = defaultdict(int)
        self.mill = Mill()
        self.mill.body = self._body
        life = self

        @self.mill.app.object
        class Worker(DurableObject):
            async def work(self, queue: str, name: str, seconds: float) -> None:
                life._enter(queue, name)
                try:
                    await asyncio.sleep(seconds)
                finally:
                    life._leave(queue, name)

        self.Worker = Worker
        self.flows: dict[str, tuple[Any, ...]] = {}
        self.jobs: list[Any] = []
        self.forgotten: set[str] = set()
        self.world: Any = self.mill.world(seed=seed, **({"nodes": nodes} if nodes else {}))

    def _enter(self, queue: str, name: str) -> None:
        self.inside[queue].add(name)
        self.most[queue] = max(self.most[queue], len(self.inside[queue]))

    def _leave(self, queue: str, name: str) -> None:
        self.inside[queue].discard(name)

    async def _body(self, flow: Any, step: Step, queue: str, seconds: int, fails: bool) -> Any:
        async def enter() -> None:
            self._enter(queue, flow.key)

        async def leave() -> None:
            self._leave(queue, flow.key)

        async def fail() -> None:
            raise ValueError("no")

        try:
            await step("enter", enter)
            await step.sleep("inside", f"{seconds}s")
            if fails:
                await step("fail", fail, retry=RetryPolicy(2, fixed("1s")))
        finally:
            await step("leave", leave)
        return flow.key

    def _queue(self) -> tuple[str, Queue]:
        name = self.dice.choice(list(LIMITS))
        key = self.dice.choice(["acme", "bolt", None])
        return name, Queue(name, concurrency=LIMITS[name], rate="20/10s", key=key)

    async def run(self) -> None:
        async with self.world:
            for _ in range(40):
                await self._act()
                await self._pass(self.dice.choice([0, 0.5, 1, 3]))
                if self.dice.random() < 0.12:
                    await self._trouble()
            await self._end()

    async def _act(self) -> None:
        roll, (name, queue) = self.dice.random(), self._queue()
        number = len(self.flows) + len(self.jobs)
        if roll < 0.4:
            key = f"f{number}"
            given = self.flows[key] = (name, self.dice.randrange(1, 6), self.dice.random() < 0.2)
            await self._do(lambda: self.world.get(self.mill.Flow, key).start(*given, queue=queue))
        elif roll < 0.65:
            stub = self.mill.app.get(self.Worker, f"w{number % 5}/{number}")
            what = (name, f"j{number}", float(self.dice.randrange(1, 4)))
            made = await self._do(lambda: self.mill.app.jobs.schedule(stub.work, *what, queue=queue, key=f"j{number}"))
            self.jobs.append(made)
        elif self.flows:
            await self._operate(self.dice.choice(list(self.flows)), self.dice.choice(ACTS))

    async def _operate(self, key: str, act: str) -> None:
        flow = self.world.get(self.mill.Flow, key)
        with suppress(errors.Conflict):
            if act == "forget" and self.dice.random() < 0.3:
                await self._do(lambda: self.mill.app.forget(self.mill.Flow, key))
                self.forgotten.add(key)
                self._leave(self.flows[key][0], key)
            elif act == "fork":
                other = f"{key}+"
                await self._do(lambda: flow.fork(other, "enter"))
                self.flows[other] = self.flows[key]
            elif act != "forget":
                await self._do(lambda: getattr(flow, act)())

    async def _trouble(self) -> None:
        if not self.nodes:
            last = self.world.faults.probes + self.dice.randrange(1, 12)

            def crash(name: str, at: int) -> None:
                if at == last:
                    self.world.kill()

            self.world.faults.on_probe = crash
            return
        alive = [one for one in self.world.members if one.node is not None]
        if len(alive) > 1:
            member = self.dice.choice(alive)
            if self.dice.random() < 0.5:
                member.kill()
            else:
                await member.stop()
        elif gone := [one for one in self.world.members if one.node is None]:
            await gone[0].start()

    async def _recover(self) -> None:
        if not self.nodes and self.world._node is None:
            self.world.faults.on_probe = None
            await self.world.restart(after="1s")

    async def _pass(self, seconds: float) -> None:
        await self._recover()
        await self.world.advance(seconds=seconds)
        await self._recover()

    async def _do(self, act: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            await self._recover()
            try:
                return await act()
            except TROUBLE:
                await self._pass(1)

    async def _end(self) -> None:
        self.world.faults.on_probe = None
        await self._pass(60)
        for key in self.flows:
            state = (await self.world.get(self.mill.Flow, key).status()).state
            if key not in self.forgotten and state in ("paused", "parked"):  # parked: the process died of it, perhaps
                await self.world.get(self.mill.Flow, key).resume()
        await self._pass(1_500)  # whoever was asked whether he runs has answered by then
        assert {name: most for name, most in self.most.items() if most > LIMITS[name]} == {}
        states = {key: (await self.world.get(self.mill.Flow, key).status()).state for key in self.flows}
        left = {key: state for key, state in states.items() if state not in OVER and key not in self.forgotten}
        assert left == {}, left
        for job in self.jobs:
            ended = await self.mill.app.jobs.get(job)
            is_suspect = ended.state == "failed" and "the process died" in (ended.error or "")
            assert ended.state == "done" or is_suspect, ended
        for info in await self.mill.app.queues.list():
            assert (info.running, info.waiting) == (0, 0), info


async def live(seed: int, nodes: int = 0) -> None:
    """The life of that seed."""
    try:
        await QueueLife(seed, nodes).run()
    except Exception as error:
        error.add_note(f"seed {seed}, nodes {nodes}")
        raise
