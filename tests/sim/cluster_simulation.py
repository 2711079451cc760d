"""Does everything still hold when nodes die, freeze, part, restart and mistake the time?

One seed is the life of a cluster of three to five nodes on one memory disk, or on a bucket: callers at every node book, arm, schedule
and cancel, while seeded troubles overlap. Then all is healed, and `cluster_invariants.py` says what must be true.

    python -m tests.sim.cluster_simulation --seeds 1000 --from 0
    python -m tests.sim.cluster_simulation --seeds 100 --store bucket
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from tests.sim.cluster_bucket import BucketClusterWorld
from tests.sim.cluster_clients import Clients
from tests.sim.cluster_disk import ClusterWorld, Umpire
from tests.sim.cluster_invariants import Books, check_any_time, check_owners, check_quiet, check_ticks, left_behind
from tests.sim.cluster_workload import CLASS, Witness, make_cluster_app
from tests.sim.invariants import Violation
from tests.sim.many import add_options, run_many, verdict
from tests.sim.simulation import quietly
from wakeful.policy.limits import Limits
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.store.bucket import storage
from wakeful.store.protocol import Query
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.faults import Lags
from wakeful.testing.members import Member
from wakeful.values.errors import Conflict, DeadlineExceeded, Unavailable

TROUBLES = {
    "none": 16,
    "kill": 10,
    "kill soon": 16,
    "restart": 7,
    "stop": 4,
    "freeze": 9,
    "cut off": 8,
    "fail before": 4,
    "fail after": 5,
    "fail late": 6,
    "lag": 12,
    "slow wire": 5,
    "part": 6,
    "isolate": 4,
    "drift": 4,
    "step": 4,
    "drain": 3,
    "deaf": 4,
    "sleep": 4,
    "kill all": 1,
}
# On a bucket each node goes by its own clock, so how wrong that is is how early it may begin; and nobody may be taken for
# dead because of it, which is seen where nobody dies.
CLOCKS_ONLY = {"none": 3, "drift": 6, "step": 14, "deaf": 2, "sleep": 2, "slow wire": 3}
STRAY_MAX = 300  # requests, of which a create that comes late is behind: then others have long gone on
LOST = 0.02  # of all answers of a bucket
DRIFTS = (1.001, 0.999, 1.01, 0.99, 1.3, 0.7)
LEASES = ("5s", "5s", "5s", "5s", "5s", "5s", "2s", "3s", "10s", "15s")  # of the whole cluster
USUAL_MS = (
    2_500  # between two measurements of a clock: rounds renew the lease when it is 1.5 s old, and may take a second
)
PROMPT_MS = 6_500  # within which a new job runs on a healed cluster: a scan, and suspects of a crash before it
ANSWER_S = 90  # within which every call is answered, well or not
HEAL_S = 40  # within which a healed cluster has shared the shards
QUIET_S = 25  # longer than every delay and retry of the workload but those of the doomed
DOOMED_S = 80


@dataclass(frozen=True)
class Report:
    """What became of one seed that held."""

    seed: int
    trace: str  # a hash of everything that happened, in order
    nodes: int
    calls: int
    jobs: int
    done: int
    deaths: int
    claims: int
    fenced: int
    ticks: int


class ClusterSimulation:
    """One seed: its nodes, its callers, its troubles."""

    def __init__(self, seed: int, bucket: EmulatedBucket | None = None, folder: Path = Path()) -> None:
        self.seed = seed
        self.bucket = bucket
        self.is_unhurt = bucket is not None and seed % 4 == 0
        self.troubles = CLOCKS_ONLY if self.is_unhurt else TROUBLES
        self.dice = dice = random.Random(seed)
        self.witness = witness = Witness(random.Random(seed + 1))
        app, self.cls = make_cluster_app(witness)
        self.count = dice.choice((3, 3, 3, 4, 5))
        self.listens, sees = dice.random() < 0.7, dice.random() < 0.7
        limits = Limits(
            ledger_keep=1_000_000,
            ledger_keep_ms=10**12,
            stop_deadline_ms=dice.choice((300, 4_000)),
            concurrent_turns=dice.choice((2, 1_000, 1_000)),
            near_timers=dice.choice((3, 1_000, 1_000)),
            group_commits=dice.choice((1, 1_000)),
            awake_objects=dice.choice((2, 1_000, 1_000)),
        )
        more: dict[str, Any] = {
            "seed": seed,
            "nodes": self.count,
            "listens": self.listens,
            "sees": sees,
            "sleep_after_turn": dice.random() < 0.2,
            "limits": limits,
            "lease": random.Random(seed + 3).choice(LEASES),
        }
        self.world = (
            ClusterWorld(app, **more)
            if bucket is None
            else BucketClusterWorld(app, bucket=bucket, folder=folder, **more)
        )
        self.umpire = self.world.umpire = Umpire(witness.complain)
        if dice.random() < 0.4:
            self.world.slow = random.Random(seed + 2)
        self.keys = [f"k{number}" for number in range(dice.choice((4, 8)))]
        self.clients = Clients(self.world, self.cls, self.keys, witness, dice)
        self.deaths = 0
        self.is_deaf = self.umpire.is_deaf = bucket is not None and random.Random(seed + 4).random() < 0.3  # to the end
        self._off_ms = 0
        self._rates: dict[int, float] = {}  # of each member's clock: the worst it has been
        self._doors: dict[int, asyncio.Lock] = {}  # a process starts and stops one after the other
        self._healing: dict[asyncio.Task[None], None] = {}
        witness.now = self.world.now_ms
        witness.kill = self._kill_named if not self.is_unhurt else lambda name: None
        witness.slack_ms = self._slack_ms

    async def run(self) -> Report:
        """Live through it; `Violation` says what did not hold."""
        asyncio.get_running_loop().set_exception_handler(self._heard)
        try:
            async with self.world:
                for member in self.world.members:
                    self._rates[member.number], self._doors[member.number] = 1.0, asyncio.Lock()
                epochs = await self._shared_out() if self.is_unhurt else {}
                for _ in range(self.dice.randint(4, 11)):
                    await self._step()
                self._check_hands(epochs)
                await self._heal()
                await self._check_quiet()
        finally:
            for task in (*self.clients.tasks, *self._healing):
                task.cancel()
        books, jobs = Books(self.world.disk), self.clients.journal.jobs
        return Report(
            seed=self.seed,
            trace=blake2b("\n".join(self.witness.trace).encode(), digest_size=12).hexdigest(),
            nodes=self.count,
            calls=self.clients.count,
            jobs=len(jobs),
            done=sum(1 for _ in books.with_prefix("did:")),
            deaths=self.deaths,
            claims=self.umpire.claims,
            fenced=self.umpire.fenced,
            ticks=len(self.witness.ticks),
        )

    # what happens

    async def _step(self) -> None:
        self.clients.burst()
        trouble = self.dice.choices(list(self.troubles), list(self.troubles.values()))[0]
        member = self.dice.choice(self.world.members)
        self.witness.note(f"trouble: {trouble} {member.name}")
        await self._make(trouble, member)
        await asyncio.sleep(self.dice.choice((0, 0.001, 0.02, 0.3, 1, 2, 6)))
        self.clients.burst()
        self._check()

    async def _make(self, trouble: str, member: Member) -> None:
        dice, world = self.dice, self.world
        if trouble == "kill":
            self._kill(member)
        elif trouble == "kill all":
            for one in world.members:
                self._kill(one)
        elif trouble == "kill soon":
            self._kill_in(member, dice.randint(1, 40))
        elif trouble in ("restart", "stop"):
            self._later(self._restart(member, 0 if trouble == "restart" else dice.choice((0.5, 7))))
        elif trouble == "freeze" and member.node is not None and member.faults.gate is None:
            member.freeze()
            self._later(self._thaw(member, dice.choice((0.5, 3, 6, 12))))
        elif trouble == "cut off":
            member.cut_off()
            self._later(self._reconnect(member, dice.choice((0.1, 2, 6, 9))))
        elif trouble in ("fail before", "fail after"):
            when: Literal["before", "after"] = "before" if trouble == "fail before" else "after"
            member.faults.fail_commit(dice.randint(0, 3), when=when)
        elif trouble == "fail late":
            self.umpire.late = dice.choice((1, 2, 4))
            if self.bucket is not None:
                self.bucket.lost, self.bucket.stray_max = 0.3, STRAY_MAX
                self._later(self._arrive(dice.choice((1, 4, 9))))
        elif trouble == "lag":
            member.faults.lag = Lags(dice)
            self.clients.jobs_at(member, dice.choice((1, 4, 8)))
            self._later(self._answer_at_once(member, dice.choice((0.5, 4, 12))))
        elif trouble == "slow wire":
            world.network.slow(lambda node, other: dice.choice((0, 0, 0, 2, 40, 900, 4_500)))
            self._later(self._quicken(dice.choice((1, 6))))
        elif trouble == "part":
            other = dice.choice([one for one in world.members if one is not member])
            world.network.cut(member.name, other.name)
            self._later(self._reach(member.name, other.name, dice.choice((1, 5, 14))))
        elif trouble == "isolate":
            world.network.cut(member.name)
            self._later(self._reach(member.name, None, dice.choice((1, 5, 14))))
        elif trouble == "drift":
            rate = dice.choice(DRIFTS)
            self._note_clocks()
            member.clock.drift(rate)
            self._rates[member.number] = max(self._rates[member.number], abs(rate - 1) + 1)
        elif trouble == "step":
            far_ms = 3_600_000 if self.bucket is None else 60_000  # what it sets is due when it is due by that clock
            member.clock.step(dice.choice((-far_ms, far_ms, -40, 40, 700)))
            self._note_clocks()
        elif trouble == "drain" and member.node is not None:
            await world.glimpse.drain(member.name, True)
            self._later(self._undrain(member.name, dice.choice((1, 6))))
        elif trouble == "deaf":
            self.umpire.is_deaf = True  # hints are lost
            self._later(self._hear(dice.choice((2, 8))))
        elif trouble == "sleep" and member.node is not None:
            member.node.hibernation.sleep_all()

    def _later(self, healing: Coroutine[Any, Any, None]) -> None:
        # A context of its own: a turn that kills its node is no caller of the process that comes up after it.
        task = asyncio.get_running_loop().create_task(healing, context=Context())
        self._healing[task] = None
        task.add_done_callback(lambda done: self._healing.pop(done, None))

    async def _thaw(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        member.thaw()

    async def _reconnect(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        member.reconnect()

    async def _answer_at_once(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        member.faults.lag = None

    async def _quicken(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.world.network.slow(None)

    async def _reach(self, name: str, other: str | None, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.world.network.heal(name, other)

    async def _undrain(self, name: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.world.glimpse.drain(name, False)

    async def _hear(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.umpire.is_deaf = self.is_deaf

    async def _arrive(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._calm_bucket()

    def _calm_bucket(self) -> None:
        if self.bucket is not None:
            self.bucket.lost, self.bucket.stray_max = LOST, 11

    def _note_clocks(self) -> None:
        """How wrong they are, and were."""
        now = self.world.now_ms()
        for member in self.world.members:
            self._off_ms = max(self._off_ms, abs(member.clock.now() - now))

    async def _restart(self, member: Member, after_s: float) -> None:
        """A clean stop, and a start later; a kill may come in between, or while it starts."""
        async with self._doors[member.number]:
            node, may_stray = member.node, member.faults.lag is not None
            await member.stop()
            if node is not None and node.has_left and not may_stray and self.bucket is None:
                self.witness.complaints += left_behind(self.world.disk, node)
        await asyncio.sleep(after_s)
        await self._start(member)

    async def _start(self, member: Member) -> None:
        async with self._doors[member.number]:
            if member.node is not None:
                return
            self.witness.note(f"{member.number} starts")
            try:
                await member.start()
            except (Unavailable, DeadlineExceeded) as error:
                self.witness.note(f"{member.name} did not start: {error.code}")

    # dying

    def _kill(self, member: Member) -> None:
        member.faults.on_probe = None
        if member.node is None:
            return
        self.witness.note(f"{member.name} dies")
        self.deaths += 1
        member.kill()
        self._later(self._come_back(member, self.dice.choice((0, 0.5, 3, 8))))

    async def _come_back(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._start(member)

    def _kill_in(self, member: Member, probes: int) -> None:
        left = [probes]

        def probed(name: str, number: int) -> None:
            left[0] -= 1
            if left[0] <= 0:
                self.witness.note(f"at {name}")
                self._kill(member)

        member.faults.on_probe = probed

    def _kill_named(self, name: str) -> None:
        for member in self.world.members:
            if member.node is not None and member.name == name:
                self._kill(member)

    # healing, and what must be true then

    async def _heal(self) -> None:
        """Nothing goes wrong any more; wait until the cluster is whole and everybody has an answer."""
        world = self.world
        self.witness.note("healing")
        self.umpire.late, self.umpire.is_deaf = 0, self.is_deaf
        self._note_clocks()
        self.witness.is_safe = True
        world.network.heal()
        world.network.slow(None)
        for member in world.members:
            member.faults.on_probe = member.faults.lag = None
            member.faults.fail_commits.clear()
            member.thaw()
            member.reconnect()
            member.clock.drift(1.0)
            if self.bucket is not None:
                member.clock.step(world.now_ms() - member.clock.now())
        self._calm_bucket()
        for _ in range(HEAL_S * 10):
            for member in world.members:
                if member.node is None and not self._healing:
                    await self._start(member)
            for row in await world.glimpse.nodes():
                await world.glimpse.drain(row.node, False)
            await asyncio.sleep(0.1)
            if not self._healing and self._is_whole():
                break
        self._check()
        check_owners(world.disk, [member.node for member in world.members if member.node is not None])
        if self.clients.tasks:
            await asyncio.wait(list(self.clients.tasks), timeout=ANSWER_S)
        if self.clients.tasks:
            raise Violation(f"never answered: {list(self.clients.tasks.values())}")

    async def _shared_out(self) -> dict[int, int]:
        """The epochs of all shards, once each node has its part."""
        for _ in range(HEAL_S * 10):
            await asyncio.sleep(0.1)
            sizes = [len(member.node.epochs) for member in self.world.members if member.node is not None]
            if self._is_whole() and max(sizes) - min(sizes) <= 1:
                return {row.shard: row.epoch for row in self.world.disk.shards.values()}
        raise Violation("the shards were never shared out")

    def _check_hands(self, epochs: dict[int, int]) -> None:
        """Nobody died, so nothing changed hands."""
        moved = [row for row in self.world.disk.shards.values() if epochs.get(row.shard, row.epoch) != row.epoch]
        if moved:
            raise Violation(f"{len(moved)} shards changed hands though nobody died: {moved[:3]}")

    def _is_whole(self) -> bool:
        try:
            check_owners(self.world.disk, [one.node for one in self.world.members if one.node is not None])
        except Violation:
            return False
        return all(
            member.node is not None and member.node.state == "up" and not member.faults.lagging
            for member in self.world.members
        )

    async def _check_quiet(self) -> None:
        """All that is owed comes, new jobs run on time through every node, and what was parked runs when redriven."""
        journal = self.clients.journal
        since = self.world.now_ms()
        facts = [
            self.clients.job(self.dice.choice(self.keys), self.clients.token(), "steady", self.dice.choice((0, 900)))
            for _ in range(6)
        ]
        for fact in facts:
            self.clients.start(self.clients._schedule(fact, [], False), f"job {fact.token}")
        await asyncio.sleep(QUIET_S + (self._off_ms / 1_000 if self.bucket is not None else 0))
        for fact in facts:
            late_ms = self.witness.ran_at.get(fact.token, fact.due_at + 10**9) - fact.due_at
            if not fact.is_acked or late_ms > PROMPT_MS:
                raise Violation(f"job {fact.token} of {fact.key} was {late_ms} ms late on a healed cluster: {fact}")
        check_ticks(self.world.disk, since, self.world.now_ms() - PROMPT_MS)
        self.witness.is_mended = True
        await asyncio.sleep(DOOMED_S if any(fact.kind == "doomed" for fact in journal.jobs.values()) else 0)
        parked = await self.world.glimpse.find_parked(Query(cls=CLASS, limit=1000))
        for row in parked:
            self.witness.redriven.add((row.timer.id.key, row.timer.nominal_at))
            try:
                await self.world.node.redrive(row)
            except Conflict:
                continue  # it was set again since
        if parked:
            await asyncio.sleep(QUIET_S)
        self._check()
        check_owners(self.world.disk, [one.node for one in self.world.members if one.node is not None])
        check_quiet(Books(self.world.disk), journal, self.witness, self.world.now_ms())

    def _check(self) -> None:
        check_any_time(Books(self.world.disk), self.clients.journal, self.witness)

    def _slack_ms(self, name: str) -> float:
        """How much too early that node may believe it is: on a bucket how wrong its own clock is. Else what its measurement says, and what its clock gains until the next.

        That one is late when the store is: but not by more than the lease, since nothing begins without one.
        """
        if self.bucket is not None:
            self._note_clocks()
            return 2 * self._off_ms + 30  # one set it ahead, and another one is ahead of that
        for member in self.world.members:
            if member.name == name:
                clock = member.node.clock if member.node is not None else None
                if not isinstance(clock, FollowedClock):
                    break
                stale_ms = min(max(USUAL_MS, clock.unmeasured_ms), self.world.lease.known_ms)
                return clock.error_ms + stale_ms * (self._rates.get(member.number, 1.0) - 1) + 1
        return 30 + USUAL_MS * (max(self._rates.values()) - 1)

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.witness.complain(f"unheard: {context.get('message')}: {context.get('exception')!r}")


def run_cluster_seed(seed: int, store: str = "memory") -> Report:
    """Simulate one seed to its end; `Violation` if a promise broke."""

    async def inside(*where: Any) -> Report:
        with quietly():
            return await ClusterSimulation(seed, *where).run()

    if store == "memory":
        return asyncio.run(inside())
    bucket = EmulatedBucket(seed=seed, lost=LOST, refused=0.02, late_lists=30)
    with (
        tempfile.TemporaryDirectory(prefix="wakeful-sim-") as folder,
        patch.object(storage, "REST_S", 0.001),
    ):  # which is real time
        return asyncio.run(inside(bucket, Path(folder)))


def failure(seed: int, violation: BaseException, store: str = "memory") -> str:
    """What to print when a seed fails: what broke, and how to see it again."""
    command = f"python -m tests.sim.cluster_simulation --seeds 1 --from {seed}"
    if store != "memory":
        return f"seed {seed}: {violation}\n  replay: {command} --store {store}"
    return f"seed {seed}: {violation}\n  replay: make sim-cluster SEEDS=1 FROM={seed}   (or: {command})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds; 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster_simulation", description=__doc__)
    add_options(parser)
    parser.add_argument("--store", choices=("memory", "bucket"), default="memory")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    items = [f"{given.store} {seed}" for seed in range(given.first, given.first + given.seeds)]
    return verdict(given.seeds, given.first, run_many(_attempt, items, given.jobs), began)


def _attempt(item: str) -> str | None:
    """What to print about a seed that fails."""
    store, _, number = item.partition(" ")
    try:
        run_cluster_seed(int(number), store)
    except Violation as violation:
        return failure(int(number), violation, store)
    return None


if __name__ == "__main__":
    sys.exit(main())
