"""Random workflows come to what a plain interpreter of the same body comes to, crashes or not, cancelled or not."""

import asyncio
import os
import random
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.mill import Mill
from tests.model.workflow_model import TICK, Author, Outside, PlainStep, perform, verdict
from wakeful import Step, errors

SEEDS = int(os.environ.get("WAKEFUL_SEEDS", "60"))
PARTS = 4


class Pair:
    """One body, run by both."""

    def __init__(self, seed: int) -> None:
        author = Author(seed)
        self.tree, self.events = author.write(), sorted(author.events)
        self.dice = random.Random(seed + 1)
        self.mill = Mill()
        self.mill.body = self._body
        self._is_dead = asyncio.Event()
        self.outside, self.plain_outside = Outside(), Outside()
        self.plain = PlainStep(random.Random(seed))
        self.world: Any = self.mill.world(seed=seed, sleep_after_turn=self.dice.random() < 0.3)

    async def _body(self, flow: Any, step: Step) -> Any:
        return await verdict(perform(self.tree, step, self.outside))

    async def run(self, *, troubles: bool, cancelled: bool) -> Any:
        """What both came to."""
        async with self.world as world:
            task = asyncio.ensure_future(verdict(perform(self.tree, self.plain, self.plain_outside)))
            await self._do(lambda: world.get(self.mill.Flow, "a").start())
            ends = [at for at, _ in self.events] + [5_000]
            cancel_at = self.dice.randrange(1, 1_500) * 7 if cancelled else None
            now = 0
            for at in sorted({*ends, *([cancel_at] if cancel_at is not None else [])}):
                await self._pass((at - now) * TICK)
                now = at
                if at == cancel_at and not task.done():
                    task.cancel()
                    with suppress(errors.Conflict):  # it may be over by itself
                        await self._do(lambda: world.get(self.mill.Flow, "a").cancel())
                    await task
                    await self.plain.undo()
                    break
                for name in [name for when, name in self.events if when == at]:
                    await self._send(name)
                if troubles:
                    self._crash_in(self.dice.randrange(1, 25))
            await self._pass(60)
            world.faults.on_probe = None
            await world.advance(seconds=6_000 * TICK)
            return await self._compare(task)

    async def _send(self, name: str) -> None:
        self.plain.send(name, name)
        with suppress(errors.Conflict):  # it is over
            key = f"send {name}"
            await self._do(lambda: self.mill.app.get(self.mill.Flow, "a", request_key=key).send(name, name))

    async def _compare(self, task: Any) -> Any:
        flow = self.world.get(self.mill.Flow, "a")
        status = await flow.status()
        if status.state == "cancelled":
            # What runs at the same instant is begun by one and not by the other.
            return [self.outside.undone, self.plain_outside.undone]
        if not task.done():
            task.cancel()
            assert status.state == "waiting", status
            return [status.state, "waiting"]
        published = [value for _, value in await flow.published()]
        assert sorted(published) == sorted(self.plain.published)
        return [await flow.result(), task.result()]

    def _crash_in(self, probes: int) -> None:
        last = self.world.faults.probes + probes

        def crash(name: str, at: int) -> None:
            if at == last:
                self.world.kill()
                self._is_dead.set()

        self.world.faults.on_probe = crash

    async def _pass(self, seconds: float) -> None:
        """Let time pass, coming back at once from a crash: else two things that are apart would come together."""
        task = asyncio.ensure_future(asyncio.sleep(seconds))
        while not task.done():
            dead = asyncio.ensure_future(self._is_dead.wait())
            await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
            dead.cancel()
            await self._recover()
        await self.world.settle()
        await self._recover()

    async def _recover(self) -> None:
        self._is_dead.clear()
        if self.world._node is None:
            self.world.faults.on_probe = None
            await self.world.restart()
            await self.world.settle()

    async def _do(self, act: Any) -> None:
        while True:
            await self._recover()
            with suppress(errors.Unavailable, errors.DeadlineExceeded):
                await act()
                return


async def compare(seed: int, **how: bool) -> None:
    pair = Pair(seed)
    try:
        mine, plain = await pair.run(**how)
        assert mine == plain
    except AssertionError as error:
        error.add_note(f"seed {seed} {how}: {pair.tree}")
        raise


@pytest.mark.parametrize("part", range(PARTS))
async def test_they_come_to_the_same(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        await compare(seed, troubles=False, cancelled=False)


@pytest.mark.parametrize("part", range(PARTS))
async def test_and_with_crashes(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        await compare(seed, troubles=True, cancelled=False)


@pytest.mark.parametrize("part", range(PARTS))
async def test_and_when_they_are_cancelled(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        await compare(seed, troubles=seed % 3 == 0, cancelled=True)


def test_bodies_have_something_of_everything() -> None:
    seen = str([Author(seed).write() for seed in range(SEEDS)])
    for kind in (
        "sequence",
        "beside",
        "group",
        "race",
        "attempt",
        "step",
        "flaky",
        "fail",
        "sleep",
        "wait",
        "publish",
        "dice",
    ):
        assert f"'{kind}'" in seen, kind
