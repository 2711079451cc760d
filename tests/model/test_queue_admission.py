"""Random lives of a queue beside a small oracle: after each event, the same jobs have begun."""

import asyncio
import random
from collections import defaultdict
from typing import Any

import pytest

from tests.conformance.desk import Desk
from wakeful import Job, Queue


class Oracle:
    """A queue in memory, said as plainly as can be: who has begun?"""

    def __init__(self, concurrency: int, key_concurrency: int, count: int, period: float) -> None:
        self.concurrency, self.key_concurrency, self.count, self.period = concurrency, key_concurrency, count, period
        self.now = 0.0
        self.is_paused = False
        self.turns: list[str] = []  # the keys that may go, in the order of their turns
        self.waiting: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by key: (priority, label)
        self.running: dict[int, str] = {}
        self.starts: list[float] = []
        self.begun: set[int] = set()

    def join(self, label: int, key: str, priority: int) -> None:
        self.waiting[key].append((-priority, label))
        self.admit()

    def leave(self, label: int) -> None:
        self.running.pop(label, None)
        for key, line in self.waiting.items():
            self.waiting[key] = [one for one in line if one[1] != label]
        self.admit()

    def admit(self) -> None:
        self._line_up()
        while self.turns and not self.is_paused and len(self.running) < self.concurrency and self._rate_is_open():
            key = self.turns.pop(0)
            if self._may_go(key):
                first = min(self.waiting[key])
                self.waiting[key].remove(first)
                self.running[first[1]] = key
                self.starts.append(self.now)
                self.begun.add(first[1])
            self._line_up()

    def _line_up(self) -> None:
        self.turns += [key for key in self.waiting if key not in self.turns and self._may_go(key)]

    def _may_go(self, key: str) -> bool:
        return bool(self.waiting[key]) and list(self.running.values()).count(key) < self.key_concurrency

    def _rate_is_open(self) -> bool:
        return sum(at > self.now - self.period for at in self.starts) < self.count

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        opens = sorted(at + self.period for at in self.starts)
        for at in [one for one in opens if self.now < one <= end]:
            self.now = at
            self.admit()
        self.now = end
        self.admit()


@pytest.mark.parametrize("seed", range(8))
async def test_a_random_life_of_a_queue_is_that_of_the_oracle(stage_url: str, seed: int) -> None:
    dice = random.Random(seed)
    limits = {"concurrency": dice.choice([1, 2, 4]), "key_concurrency": dice.choice([1, 2, 9])}
    count, period = dice.choice([(2, 5), (5, 30), (50, 10)])
    oracle = Oracle(limits["concurrency"], limits["key_concurrency"], count, period)
    desk = Desk(_Stage(stage_url))
    ends: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
    jobs: dict[int, Job] = {}

    async def body(clerk: Any, job: Job) -> None:
        await ends[int((job.metadata or {})["n"])].wait()

    async with desk.world() as world:
        for step in range(40):
            act = dice.random()
            if act < 0.5 or not jobs:
                key, priority = dice.choice("abc"), dice.choice([0, 0, 1])
                desk.handlers[step] = body
                queue = Queue("q", rate=f"{count}/{period}s", key=key, **limits)  # type: ignore[arg-type]
                jobs[step] = await desk.jobs.schedule(
                    desk.at(f"o{step}").work, step, priority=priority, queue=queue, metadata={"n": step}
                )
                oracle.join(step, key, priority)
            elif act < 0.75 and oracle.running:
                label = dice.choice(sorted(oracle.running))
                ends[label].set()
                oracle.leave(label)
            elif act < 0.85:
                label = dice.choice(sorted(jobs))
                if await desk.jobs.cancel(jobs[label]):
                    oracle.leave(label)
            elif act < 0.92:
                oracle.is_paused = not oracle.is_paused
                await (desk.app.queues.pause("q") if oracle.is_paused else desk.app.queues.resume("q"))
                oracle.admit()
            else:
                seconds = dice.choice([1, 7])
                await world.advance(seconds=seconds)
                oracle.advance(seconds)
            await world.settle()
            assert set(desk.labels) == oracle.begun, (seed, step)
            if oracle.begun or any(oracle.waiting.values()):
                info = await desk.app.queues.get("q")
                waits = sum(map(len, oracle.waiting.values()))
                assert (info.running, info.waiting) == (len(oracle.running), waits), (seed, step)
        for event in ends.values():
            event.set()


class _Stage:
    def __init__(self, url: str) -> None:
        self.url = url


@pytest.fixture
def stage_url() -> str:
    return "memory:"
