"""What do the objects of a simulated cluster do, and what do they write down for the checks?

An effect is a row in the object that ran, written by the very turn that is the run: were a run to count twice, or a
run that was answered to be lost, its row would say so.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from wakeful.app import App
from wakeful.jobs.job import Again
from wakeful.objects import DurableObject
from wakeful.runtime.alarms import AlarmInfo
from wakeful.runtime.registry import reader
from wakeful.specs.fluent import every
from wakeful.values.timers import Run
from wakeful.values.times import from_datetime, to_datetime

CLASS = "Clerk"
AGAIN_TIMES = 2
FLAKY_TIMES = 2
TICK_MS = 4_000  # between two runs of the function of the app
TICKER = "ticker"  # the object that the app's function calls


class Bang(Exception):
    """The object's own code failed, as it was told to."""


@dataclass
class Witness:
    """Sees what happens on all nodes, and outlives them."""

    dice: random.Random
    now: Callable[[], int] = lambda: 0
    slack_ms: Callable[[str], float] = lambda node: 0.0  # how far off that node's clock may be at worst
    kill: Callable[[str], None] = lambda node: None
    trace: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)  # by token of the job that did it
    ran_at: dict[str, int] = field(default_factory=dict)  # token of a job: when its handler last began
    ticks: Counter[int] = field(default_factory=Counter)  # runs of the app's function by nominal time
    redriven: set[tuple[str, int]] = field(
        default_factory=set
    )  # alarms that were parked: whoever redrives one wants it
    is_safe: bool = False  # killers kill no more
    is_mended: bool = False  # the doomed no longer fail

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now()} {text}")

    def complain(self, text: str) -> None:
        self.note(f"COMPLAINT {text}")
        self.complaints.append(text)

    def began(self, what: str, due_at: int, node: str) -> None:
        """A handler began; not before its time by the deployment's clock."""
        self.note(f"{what} on {node}")
        early_ms = due_at - self.now()
        if early_ms > self.slack_ms(node):
            self.complain(
                f"{what}: began {early_ms} ms early on {node}, whose clock may be {self.slack_ms(node):.0f} off"
            )


class Clerk(DurableObject):
    """Books operations, runs jobs, has an alarm and a schedule."""

    witness: ClassVar[Witness]

    # calls

    async def book(self, token: str, pause: float = 0.0) -> int:
        storage = self.storage
        storage.put(f"op:{token}", await storage.get(f"op:{token}", 0) + 1)
        count: int = await storage.get("count", 0) + 1
        storage.put("count", count)
        if pause:
            await asyncio.sleep(pause)
        storage.put("again", count)
        return count

    async def fail(self, token: str) -> None:
        await self.book(token)
        raise Bang(token)

    async def give(self, token: str, to: str) -> int:
        """A call to another object, wherever it lives, then a note that it was made."""
        await self.ctx.get(type(self), to, request_key=token).book(token)
        return await self.book(f"{token}>")

    async def circle(self, token: str, via: list[str]) -> int:
        """Around other objects and back to the first, which must not wait for itself."""
        await self.book(token)
        if via:
            await self.ctx.get(type(self), via[0]).circle(f"{token}.", via[1:])
        return len(via)

    @reader
    async def tokens(self) -> list[str]:
        return [key.removeprefix("op:") for key in await self.storage.list(prefix="op:")]

    # the alarm

    async def arm(self, token: str, delay_ms: int) -> int:
        await self.book(token)
        self.storage.set_alarm(timedelta(milliseconds=delay_ms))
        at = await self.storage.get_alarm()
        assert at is not None
        self.storage.put("wanted", from_datetime(at))
        return from_datetime(at)

    async def alarm(self, info: AlarmInfo) -> None:
        at = from_datetime(info.scheduled_at)
        self.witness.began(f"{self.ctx.key} alarm {at}", at, self._node)
        if await self.storage.get("wanted") != at and (self.ctx.key, at) not in self.witness.redriven:
            self.witness.complain(f"{self.ctx.key}: an alarm of {at} ran that nobody wanted")
        await self._effect(info.run_id)
        self.storage.delete("wanted")

    # jobs

    async def work(self, token: str, kind: str, due_at: int, more: list[Any]) -> Any:
        """Every job of the workload; `did:TOKEN` counts how often it got to its end."""
        job, witness = self.ctx.job, self.witness
        if job is None:
            witness.complain(f"{token}: runs as a job and has no ctx.job")
            return None
        witness.began(f"{self.ctx.key} job {token} {kind} attempt {job.attempt}", due_at, self._node)
        witness.ran_at[token] = witness.now()
        await self._effect(job.run_id)
        if kind == "again":
            times = await self.storage.get(f"times:{token}", 0)
            if times < AGAIN_TIMES:
                self.storage.put(f"times:{token}", times + 1)
                return Again(after="700ms")
        elif kind == "flaky":
            if job.attempt <= FLAKY_TIMES:
                raise Bang(token)
        elif kind == "slow":
            await asyncio.sleep(more[0])
        elif kind == "spawn":
            child, to, at = more
            stub = self.ctx.get(type(self), to)
            await self.jobs.schedule(stub.work, child, "steady", at, [], at=to_datetime(at))
        elif kind == "killer" and witness.kills[token] < more[0] and not witness.is_safe:
            witness.kills[token] += 1
            witness.kill(self._node)
            await asyncio.sleep(1)
        elif kind == "doomed" and not witness.is_mended:
            raise Bang(token)
        self.storage.put(f"did:{token}", await self.storage.get(f"did:{token}", 0) + 1)
        return token

    # the schedule

    @every(7).seconds
    async def round(self, run: Run) -> None:
        self.witness.began(f"{self.ctx.key} round", from_datetime(run.nominal_at), self._node)
        await self._effect(run.id)

    # inside

    @property
    def _node(self) -> str:
        return self.ctx._activation.node.name

    async def _effect(self, run_id: str) -> None:
        self.storage.put(f"effect:{run_id}", await self.storage.get(f"effect:{run_id}", 0) + 1)


def make_cluster_app(witness: Witness) -> tuple[App, type[Clerk]]:
    """An app of its own for one simulation."""
    app = App()
    members: dict[str, Any] = {"witness": witness, "__module__": __name__}
    clerk: type[Clerk] = app.object(name=CLASS)(type(CLASS, (Clerk,), members))

    @app.every(TICK_MS // 1_000).seconds
    async def tick(run: Run) -> None:
        """May run more than once when its node dies; what it tells an object under the run's id may not."""
        at = from_datetime(run.nominal_at)
        witness.ticks[at] += 1
        if app.deployment.node is None:
            raise Bang("nobody is there")
        await app.get(clerk, TICKER, request_key=run.id).book(f"tick{at}")

    return app, clerk
