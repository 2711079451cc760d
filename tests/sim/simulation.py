"""Does everything still hold when the process, the disk and the luck are as bad as they can be?

How Wakeful tests itself. One seed is one deployment's life in virtual time: clients call objects while
the process is killed, the store goes away for seconds or hours, commits fail before, after or long
after they were sent, shards are stolen, and objects are put to sleep. `invariants.py` says what must
hold right after every recovery and again later. On the memory store a seed replays exactly.

    python -m tests.sim.simulation --seeds 1000 --from 0
    python -m tests.sim.simulation --probe 17        one fixed workload, killed at its 17th trip to the store
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any
from unittest.mock import patch

from tests.sim.clients import CALLS, Clients
from tests.sim.invariants import (
    CLASS,
    EVERYTHING,
    Found,
    Violation,
    check_order,
    check_promises,
    check_queue,
    check_quiet,
    look,
)
from tests.sim.many import add_options, run_many, verdict
from tests.sim.rota import Planners, make_rota_app
from tests.sim.rota_invariants import check_schedules, check_schedules_quiet, look_at_schedules
from tests.sim.slowdisk import SimulatedWorld, SlowDisk
from tests.sim.workload import Witness, make_app
from wakeful.policy.limits import Limits
from wakeful.runtime import dispatcher
from wakeful.schedules.records import schedule_of
from wakeful.store import MemoryStore
from wakeful.store.bucket import storage
from wakeful.store.protocol import Query, Range
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.faults import Lags
from wakeful.values.commits import USER
from wakeful.values.errors import Conflict, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM, Parked

MOODS = ("steady", "flaky", "slow", "doomed", "moody", "killer")
TROUBLES = {
    "none": 30,
    "crash": 8,
    "crash soon": 14,
    "fail before": 6,
    "fail after": 6,
    "fail late": 8,
    "lag": 8,
    "outage": 5,
    "long outage": 1,
    "restart": 5,
    "sleep": 8,
    "steal": 4,
}
PROBES_MAX = 60_000  # more trips to the store than any seed needs: something runs in circles
QUIET_S = 3600  # longer than every retry, re-arm and delay of the workload together


@dataclass(frozen=True)
class Report:
    """What became of one seed that held."""

    seed: int
    trace: str  # a hash of everything that happened, in order
    calls: int
    probes: int
    busy_probes: int  # up to where the workload ends and the long quiet begins
    deaths: int
    runs: int
    scheduled: int  # runs of schedules


class Simulation:
    """One seed: its world, its clients, its troubles."""

    def __init__(self, seed: int, *, url: str = "memory:", crash_at: int | None = None, is_calm: bool = False) -> None:
        self.seed = seed
        self.dice = dice = random.Random(seed)
        self.witness = Witness(random.Random(seed + 1))
        self.is_calm = is_calm  # no troubles but the crash that was asked for
        self._crash_in = crash_at
        self._busy_probes = 0
        self._is_paranoid = not is_calm and dice.random() < 0.25
        self._page = dispatcher.PAGE if is_calm else dice.choice((2, 3, dispatcher.PAGE))
        has_rota = seed % 2 == 0  # the others stay as they were when some of them once failed
        app, self.cls = make_rota_app(self.witness) if has_rota else make_app(self.witness)
        self.world = SimulatedWorld(
            app, store=url, seed=seed, sleep_after_turn=self._is_paranoid, limits=self._limits(is_calm)
        )
        if url == "memory:" and not is_calm and dice.random() < 0.6:
            self.world.slow = random.Random(seed + 2)
        moods = MOODS if is_calm else [*dice.sample(MOODS[:-1], 3), *(["killer"] if dice.random() < 0.3 else [])]
        self.keys = [f"{mood}-{number}" for mood in moods for number in range(1 if is_calm or mood == "killer" else 2)]
        self.clients = Clients(self.world, self.cls, self.keys, self.witness, dice)
        self.planners = Planners(self.world, self.cls, self.keys, seed) if has_rota else None
        self.witness.wakes_fail = 0.0 if is_calm else dice.choice((0.0, 0.3))
        self.witness.now = self.world.now_ms
        self.witness.kill = self._kill

    def _limits(self, is_calm: bool) -> Limits:
        roomy = Limits(ledger_keep=1_000_000, ledger_keep_ms=10**12)
        if is_calm or self.dice.random() < 0.3:
            return roomy
        pick = self.dice.choice
        return Limits(
            ledger_keep=1_000_000,
            ledger_keep_ms=10**12,
            awake_objects=pick((1, 3, 1000)),
            concurrent_turns=pick((1, 2, 1000)),
            mailbox=pick((2, 1000)),
            cache_bytes_per_object=pick((1, 300, 1_000_000)),
            near_timers=pick((1, 2, 4, 1000)),
            near_horizon_ms=pick((150_000, 300_000)),
            group_commits=pick((1, 2, 1000)),
        )

    async def run(self) -> Report:
        """Live through it; `Violation` says what did not hold."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._heard)
        page, dispatcher.PAGE = dispatcher.PAGE, self._page
        self.world.faults.on_probe = self._probed
        try:
            async with self.world:
                if self.is_calm:
                    await self._fixed_workload()
                else:
                    for _ in range(self.dice.randint(6, 18)):
                        await self._step()
                await self._finish()
                found = await look(self.world.store)
                rota = await look_at_schedules(self.world.store)
        finally:
            dispatcher.PAGE = page
            for task in self._asking():
                task.cancel()
        return Report(
            seed=self.seed,
            trace=blake2b("\n".join(self.witness.trace).encode(), digest_size=12).hexdigest(),
            calls=self.clients.tokens,
            probes=self.world.faults.probes,
            busy_probes=self._busy_probes,
            deaths=self.witness.deaths,
            runs=sum(len(here.entries) for here in found.values()),
            scheduled=sum(here.effects.total() for here in rota.values()),
        )

    # what happens

    async def _step(self) -> None:
        """Some calls, some trouble, some time."""
        self.clients.burst()
        if self.planners is not None:
            self.planners.burst()
        kinds = list(TROUBLES)
        trouble = self.dice.choices(kinds, [TROUBLES[kind] for kind in kinds])[0]
        self.witness.note(f"trouble: {trouble}")
        await self._make(trouble)
        await asyncio.sleep(self.dice.choice((0, 0.001, 0.02, 0.5, 5, 90, 900)))
        if self.world.is_dead:
            await self._recover()
        elif self.dice.random() < 0.3:
            await self._check()

    async def _make(self, trouble: str) -> None:
        world, dice = self.world, self.dice
        if trouble == "crash":
            await self._sleep_a_little()
            self._kill()
        elif trouble == "crash soon":
            self._crash_in = dice.randint(1, 25)
        elif trouble in ("fail before", "fail after"):
            for number in range(dice.choice((1, 1, 3, 6))):
                world.faults.fail_commit(
                    number * 2 + dice.randint(0, 1), when="before" if trouble == "fail before" else "after"
                )
        elif trouble == "fail late" and isinstance(world.disk, SlowDisk):
            world.disk.late = dice.choice((1, 1, 2, 4))
        elif trouble == "lag":
            world.faults.lag = Lags(dice)
            await asyncio.sleep(dice.choice((0.5, 4, 12)))
            world.faults.lag = None
        elif trouble in ("outage", "long outage"):
            await self._sleep_a_little()
            world.faults.is_down = True
            self.clients.burst()
            await asyncio.sleep(dice.choice((0.01, 1, 30)) if trouble == "outage" else 3600)
            world.faults.is_down = False
        elif trouble == "restart" and not world.is_dead:
            await self._sleep_a_little()
            await self._recover()
        elif trouble == "sleep" and not world.is_dead:
            world.node.hibernation.sleep_all()
        elif trouble == "steal" and not world.is_dead:
            await self._steal()

    async def _steal(self) -> None:
        """Another process claims an object's shard: from then on nothing this node does to it counts."""
        key = self.dice.choice(self.keys)
        shard = shard_of(ObjectId(CLASS, key))
        await self.world.store.claim("thief", [shard], now=self.world.now_ms())
        before = await self._rows_of_shard(shard)
        for _ in range(4):
            self.clients.call(key)
            await self._sleep_a_little()
        await asyncio.sleep(self.dice.choice((0, 5)))
        if self.world.is_dead or not all(
            row.owner == "thief" for row in await self.world.store.owners() if row.shard == shard
        ):
            return  # the node lost its store meanwhile and claimed everything anew, as it may
        if await self._rows_of_shard(shard) != before:
            raise Violation(f"shard {shard} was written by a node that had lost it")
        await self._recover()

    async def _rows_of_shard(self, shard: int) -> list[Any]:
        store = self.world.store
        ids = [ObjectId(CLASS, key) for key in self.keys if shard_of(ObjectId(CLASS, key)) == shard]
        return [await store.scan(id, USER, Range()) for id in ids] + [
            timer for timer in await store.find_timers(Query(limit=EVERYTHING)) if timer.id in ids
        ]

    async def _fixed_workload(self) -> None:
        """The same calls in the same order whatever fails: every kind of call and alarm, with and without company."""
        for kind in ("arm", *CALLS):
            for key in self.keys:
                self.clients.call(key, kind)
            await asyncio.sleep(1)
            if self.world.is_dead:
                await self._recover()
            if kind == "savepoint" and not self.world.is_dead:
                self.world.node.hibernation.sleep_all()
        await asyncio.sleep(30)
        assert self.planners is not None
        self.planners.fixed()
        for _ in range(3):
            await asyncio.sleep(100)
            if self.world.is_dead:
                await self._recover()

    async def _finish(self) -> None:
        """No more trouble: everything owed is paid, in order, and nothing more."""
        world = self.world
        self._busy_probes = world.faults.probes
        world.faults.fail_commits.clear()
        world.faults.lag = None
        self._crash_in = None
        if isinstance(world.disk, SlowDisk):
            world.disk.late = 0
        await self._recover_until_quiet()
        while self._asking():
            await asyncio.wait(self._asking())
            await self._recover_until_quiet()
        await self._check()
        await asyncio.sleep(QUIET_S)
        await self._recover_until_quiet()
        await asyncio.sleep(QUIET_S)
        check_quiet(await self._check(), world.now_ms())
        if self.planners is not None:
            check_schedules_quiet(await look_at_schedules(world.store), world.now_ms())
        self.witness.is_mended, self.witness.wakes_fail = True, 0.0
        await self._redrive_rota()
        for parked in await world.store.find_parked(Query(name=ALARM, limit=EVERYTHING)):
            found = (await look(world.store))[parked.timer.id.key]
            if found.alarm is None and found.rows.get("wanted") == parked.timer.nominal_at:
                try:
                    await self._redrive(parked)
                except Conflict:
                    continue  # another parked setting of it was redriven first
                await asyncio.sleep(QUIET_S)
                if (await look(world.store))[parked.timer.id.key].rows.get("wanted") is not None:
                    raise Violation(f"{parked.timer.id}: redriven and mended, and still not run")
        await self._check_order()

    async def _redrive_rota(self) -> None:
        """Every parked run of a schedule that is still there runs now, beside the schedule."""
        store = self.world.store
        rows = [row for row in await store.find_parked(Query(limit=EVERYTHING)) if row.timer.name != ALARM]
        for parked in rows[:20]:
            await self._redrive(parked)
        await asyncio.sleep(QUIET_S)
        found = await look_at_schedules(store)
        for parked in rows[:20]:
            here = found[parked.timer.id.key]
            if schedule_of(parked.timer.name)[0] in here.records and here.effects[parked.run_id] != 1:
                raise Violation(f"{parked.timer.id} {parked.timer.name}: redriven and mended, and still not run")
        await self._check()

    async def _redrive(self, parked: Parked) -> None:
        """As a person does who is told to try again: a mailbox may be small, and the disk slow."""
        for _ in range(20):
            try:
                return await self.world.node.redrive(parked)
            except Unavailable:
                await asyncio.sleep(1)
        raise Violation(f"{parked.timer.id} {parked.timer.name}: can't be redriven, again and again")

    def _asking(self) -> set[asyncio.Task[None]]:
        return self.clients.tasks | (self.planners.tasks if self.planners is not None else set())

    async def _check_order(self) -> None:
        """Alarms of many objects fall due while nobody is there; they run in order when somebody is."""
        keys = [f"steady-beacon-{number}" for number in range(6)]
        due_at = self.world.now_ms() + 60_000
        for key in keys:
            token = self.clients.token(key)
            # Few instants for many alarms, so that some are due at the very same one.
            delay_ms = due_at + self.dice.randint(1, 3) - self.world.now_ms()
            await self.world.get(self.cls, key).arm(token, 1, delay_ms, 0)
            self.clients.journal.ack(key, token)
        self._kill()
        self.witness.begun.clear()
        await self._recover(after=7200)
        await asyncio.sleep(60)
        found = await self._check()
        is_exact = self.world.slow is None and isinstance(self.world.disk, MemoryStore)
        entries = [entry for key in keys for entry in found[key].entries]
        check_order(entries, keys, self.witness.begun if is_exact else None)

    # dying and coming back

    def _probed(self, name: str, number: int) -> None:
        self.witness.note(name)
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in <= 0:
                self._crash_in = None
                self._kill()
        if number > PROBES_MAX and not self.witness.complaints:
            self.witness.complain(f"{number} trips to the store: it runs in circles")
            self._kill()

    def _kill(self) -> bool:
        if self.world.is_dead:
            return False
        self.witness.note("dies")
        self.witness.deaths += 1
        self.world.kill()
        return True

    async def _recover(self, after: float | None = None) -> None:
        """Come back (from the dead, or after a clean stop), and find everything in order."""
        self.world.faults.is_down = False
        wait = self.dice.choice((0, 0, 2, 7200)) if after is None else after
        self.witness.life += 1
        await self.world.restart(after=wait or None)
        self.witness.note("is back")
        await self._check()
        if not self.is_calm and not self._busy_probes and self.dice.random() < 0.5:
            self.clients.burst()  # beside whatever fell due meanwhile

    async def _recover_until_quiet(self) -> None:
        """Restart as often as something still kills the process, which can't be often."""
        for _ in range(40):
            if self.witness.complaints:
                raise Violation(self.witness.complaints[0])
            if self.world.is_dead:
                await self._recover()
            await asyncio.sleep(120)
            if not self.world.is_dead:
                return
        raise Violation("the process is killed again and again, and nothing is parked for it")

    async def _check(self) -> dict[str, Found]:
        """Everything that holds at any moment, held against the disk as it is now."""
        world = self.world
        if not isinstance(world.disk, MemoryStore):
            await world.settle()  # reads of a real store are not one instant, so let nothing move meanwhile
        if world.is_dead:
            return {}
        found = await look(world.store)
        check_promises(found, self.clients.journal, self.witness)
        if self.planners is not None:
            check_schedules(await look_at_schedules(world.store), self.planners.added, self.planners.doubtful)
        if not world.is_dead and world.node.state == "up" and not world.node.committer.backlog:
            check_queue(world.node, await world.store.find_timers(Query(limit=EVERYTHING)))
        return found

    async def _sleep_a_little(self) -> None:
        await asyncio.sleep(self.dice.choice((0, 0, 0.001, 0.01, 0.1, 2)))

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.witness.complain(f"unheard: {context.get('message')}: {context.get('exception')!r}")


@contextmanager
def quietly() -> Iterator[None]:
    """The node's warnings are expected here by the thousand."""
    logger = logging.getLogger("wakeful")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def run_seed(seed: int, *, store: str = "memory") -> Report:
    """Simulate one seed to its end; `Violation` if a promise broke."""
    return _run(seed, store)


def run_probe(probe: int | None = None, *, store: str = "memory") -> Report:
    """The fixed workload, killed at that trip to the store (None: not at all)."""
    return _run(0, store, crash_at=probe, is_calm=True)


def _run(seed: int, store: str, **options: Any) -> Report:
    async def inside(url: str) -> Report:
        with quietly():
            return await Simulation(seed, url=url, **options).run()

    if store == "memory":
        return asyncio.run(inside("memory:"))
    with tempfile.TemporaryDirectory(prefix="wakeful-sim-") as folder:
        if store == "sqlite":
            return asyncio.run(inside(f"sqlite:{folder}/sim.db"))
        bucket = EmulatedBucket(seed=seed, lost=0.02, refused=0.02, late_lists=30)
        with patch.object(storage, "REST_S", 0.001):  # which is real time
            return asyncio.run(inside(bucket.url(cache=folder)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds, and the fixed workload with a crash at each of its probes; 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.simulation", description=__doc__)
    add_options(parser)
    parser.add_argument("--store", choices=("memory", "sqlite", "bucket"), default="memory")
    parser.add_argument("--probe", type=int, help="only the fixed workload, killed at this probe")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    if given.probe is not None:
        print(run_probe(given.probe, store=given.store))
        return 0
    items = [f"seed {seed}" for seed in range(given.first, given.first + given.seeds)]
    if given.seeds > 1:
        probes = run_probe(store=given.store).busy_probes
        items[:0] = [f"probe {probe}" for probe in range(1, probes + 1)]
    failed = run_many(partial(_attempt, store=given.store), items, given.jobs)
    return verdict(given.seeds, given.first, failed, began)


def _attempt(item: str, store: str) -> str | None:
    """What to print about a seed or a probe that fails."""
    kind, _, number = item.partition(" ")
    try:
        if kind == "seed":
            run_seed(int(number), store=store)
        else:
            run_probe(int(number), store=store)
    except Violation as violation:
        if kind == "seed":
            return failure(int(number), violation, store)
        return f"{item}: {violation}\n  replay: python -m tests.sim.simulation --probe {number}"
    return None


def failure(seed: int, violation: BaseException, store: str = "memory") -> str:
    """What to print when a seed fails: what broke, and how to see it again."""
    more = "" if store == "memory" else f" --store {store}"
    command = f"python -m tests.sim.simulation --seeds 1 --from {seed}{more}"
    return f"seed {seed}: {violation}\n  replay: make sim SEEDS=1 FROM={seed}   (or: {command})"


if __name__ == "__main__":
    sys.exit(main())
