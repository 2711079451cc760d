"""Things that fail for good, and those who want to hear of it, from one seed: processes die, the store goes, handlers fail.

Whoever hears of each must have heard of every parked timer, and of nothing else; whoever hears of many at once must have
heard the right number.
"""

import random
from contextlib import suppress
from datetime import timedelta
from typing import Any

from wakeful import App, DurableObject, RetryPolicy, fixed
from wakeful.notices import Notice
from wakeful.notices.deliveries import CLASS
from wakeful.notices.notice import notice_id
from wakeful.runtime.redrives import REDRIVE
from wakeful.store.protocol import Query
from wakeful.testing import World
from wakeful.values.errors import Conflict, Unavailable
from wakeful.values.timers import Parked

STEPS = 40
KEYS = tuple(f"k{number}" for number in range(6))
OFTEN = RetryPolicy(1_000, fixed("1s"))  # a handler fails in vain until all is well
EVERYTHING = 10_000


class Life:
    """One world, what failed in it, and what was told."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.app = App()
        self.told: dict[str, Notice] = {}  # each of them, by its id
        self.many: dict[str, Notice] = {}  # the same, where they are counted
        self.failed: set[str] = set()  # ids of what must have been told
        self.is_well = False
        self.invoice: Any = self.app.object(_invoice())
        self.app.on("parked", self._hear, name="each", retry=OFTEN)
        self.app.on("parked", self._count, name="many", retry=OFTEN, at_most="20s")
        self.world: World = self.app.world(seed=seed, nodes=1 + 2 * (seed % 2))

    async def _hear(self, notice: Notice) -> None:
        self._falter()
        self.told.setdefault(notice.id, notice)

    async def _count(self, notice: Notice) -> None:
        self._falter()
        self.many.setdefault(notice.id, notice)

    def _falter(self) -> None:
        if not self.is_well and self.dice.random() < 0.3:
            raise OSError("mail is down")

    async def step(self) -> None:
        acts = [self.charge] * 4 + [self.ring] * 3 + [self.redrive] * 2 + [self.die] * 2 + [self.go_away]
        with suppress(Unavailable, Conflict):
            await self.dice.choice(acts)()
        await self.world.advance(milliseconds=self.dice.choice([0, 3, 50, 900, 5_000, 40_000]))

    async def charge(self) -> None:
        for key in self.dice.choices(KEYS, k=self.dice.choice([1, 1, 5])):
            await self.app.jobs.schedule(self.app.get(self.invoice, key).charge, retry=RetryPolicy(1))

    async def ring(self) -> None:
        await self.app.get(self.invoice, self.dice.choice(KEYS)).begin(self.dice.randrange(3))

    async def redrive(self) -> None:
        """It fails again, which is another thing to be told of."""
        parked = await self.note_failed()
        if parked:
            row = self.dice.choice(parked)
            await self.world.node.send(row.timer.id, REDRIVE, (row.timer.name, row.number), {})

    async def note_failed(self) -> list[Parked]:
        rows = await self.world.store.find_parked(Query(limit=EVERYTHING))
        assert not [row for row in rows if row.timer.id.cls == CLASS]
        for row in rows:
            kind = "failed" if row.timer.name.startswith("job:") else "parked"
            self.failed.add(notice_id(kind, *row.timer.id, row.timer.name, row.timer.seq, row.run_id))
        return rows

    async def die(self) -> None:
        """A process dies at one of its next trips to the store, before or after what it wanted there."""
        member = self.dice.choice(self.world.members) if self.world.members else None
        at, seen = self.dice.randrange(1, 30), 0

        def probe(_name: str, _number: int) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                (member or self.world).kill()

        faults = member.faults if member else self.world.faults
        faults.on_probe = probe
        with suppress(Unavailable):
            await self.charge()
        await self.world.advance(seconds=self.dice.choice([1, 30]))
        faults.on_probe = None
        await self.come_back()

    async def come_back(self) -> None:
        if self.world.members:
            for member in self.world.members:
                if not member.is_up:
                    await member.start()
            self.world.choose_door()
        elif self.app.deployment.node is None:
            await self.world.restart(after="1s")

    async def go_away(self) -> None:
        """The store is away for some time."""
        every = [member.faults for member in self.world.members] or [self.world.faults]
        for faults in every:
            faults.is_down = True
        await self.world.advance(milliseconds=self.dice.choice([10, 2_000, 40_000]))
        for faults in every:
            faults.is_down = False
        await self.world.advance(seconds=10)

    async def check(self) -> None:
        """After a long time without faults."""
        self.is_well = True
        await self.come_back()
        await self.world.advance(minutes=20)
        await self.note_failed()
        assert self.failed, "nothing failed"
        lost, invented = self.failed - self.told.keys(), self.told.keys() - self.failed
        assert not lost, f"nobody was told of {sorted(lost)}"
        assert not invented, f"told of what never was: {[str(self.told[id]) for id in invented]}"
        counted = sum(notice.count for notice in self.many.values())
        assert counted == len(self.failed), f"{counted} were counted, {len(self.failed)} there were"
        assert await self.world.due() == []


def _invoice() -> type:
    class Invoice(DurableObject):
        async def begin(self, seconds: int) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def alarm(self) -> None:
            raise ConnectionError("no route")

        async def charge(self) -> None:
            raise ValueError("declined")

    return Invoice


async def live(seed: int) -> None:
    """A life, to its end."""
    life = Life(seed)
    async with life.world:
        for _ in range(STEPS):
            await life.step()
        await life.check()
