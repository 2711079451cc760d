"""A cluster on a bucket, the long form: chaos, a failover with a hundred thousand timers, a start with a million."""

import asyncio
import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.live.cluster import Member, balanced, fleet, keys_of
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.live.rough import Load, RoughFleet, Timeline, rough_fleet, settled
from tests.yardstick import PATIENCE_S
from wakeful import JobSpec
from wakeful.policy.lease import lease_of
from wakeful.store.bucket import BucketStore
from wakeful.values.errors import DeadlineExceeded, Unavailable

pytestmark = pytest.mark.skipif(not IS_LONG, reason="takes minutes; make live-cluster runs it")

CHAOS_S = int(os.environ.get("WAKEFUL_LIVE_S", "90"))
CALLERS = 24
LEASE_S = 5.0
FROZEN_S = 12.0
SPELL_S = {"slow": 8.0, "down": 6.0, "cut": 9.0}

FAILOVER_TIMERS = int(os.environ.get("WAKEFUL_LIVE_TIMERS", "100000"))
MANY_TIMERS = int(os.environ.get("WAKEFUL_LIVE_MANY", "1000000"))
AT_ONCE = 10_000
GRACE_S = 5.0  # beyond the lease
MEMORY_MB_MAX = 400  # of a node that starts with a million timers
START_S_MAX = 150


class Chaos:
    """Does something to a random node or to the bucket every few seconds."""

    def __init__(self, members: RoughFleet, seed: int, timeline: Timeline) -> None:
        self._members = members
        self._timeline = timeline
        self._dice = random.Random(seed)
        self._busy: set[int] = set()
        self._spells: set[str] = set()
        self._hurt = 0  # of what is being done to nodes
        self.events: Counter[str] = Counter()

    def weather(self) -> str:
        """How it is now, in words."""
        if self._spells - {"cut"}:
            return "the bucket slow or away"
        return f"{self._hurt} of 3 nodes hurt" if self._hurt else "all well"

    async def run(self, seconds: float) -> None:
        tasks: list[asyncio.Task[None]] = []
        until, kinds = time.monotonic() + seconds, ["kill", "freeze", "cut", "slow", "restart", "down"]
        while time.monotonic() < until:
            await asyncio.sleep(self._dice.uniform(2.0, 5.0))
            kind = kinds[len(tasks)] if len(tasks) < len(kinds) else self._dice.choice(kinds)
            free = [n for n in range(len(self._members)) if n not in self._busy]
            if (kind in SPELL_S and kind in self._spells) or len(free) < 2:
                continue  # somebody must be there
            tasks.append(asyncio.create_task(self._do(kind, self._dice.choice(free))))
        await asyncio.gather(*tasks)

    async def _do(self, kind: str, which: int) -> None:
        self.events[kind] += 1
        whom = "the bucket" if kind in ("slow", "down") else f"number {which} ({self._members[which].pid})"
        self._timeline.note(f"*** {kind} {whom}")
        is_to_node = kind not in ("slow", "down")
        self._hurt += is_to_node
        try:
            await self._do_it(kind, which)
        finally:
            self._hurt -= is_to_node
            self._timeline.note(f"*** end of {kind} {whom}")

    async def _do_it(self, kind: str, which: int) -> None:
        members, member = self._members, self._members[which]
        if kind in SPELL_S:
            self._spells.add(kind)
            members.links[which].cut() if kind == "cut" else members.say(kind, True)
            await asyncio.sleep(SPELL_S[kind])
            members.links[which].heal() if kind == "cut" else members.say(kind, False)
            self._spells.discard(kind)
            return
        self._busy.add(which)
        if kind == "freeze":
            member.freeze()
            await asyncio.sleep(FROZEN_S)
            member.thaw()
        else:
            await asyncio.to_thread(member.kill if kind == "kill" else member.stop)
            for _ in range(5):  # it does not start while the bucket is away, and says so
                try:
                    await asyncio.to_thread(members.replace(which).wait_for, "ready")
                    break
                except AssertionError:
                    await asyncio.sleep(1)
        self._busy.discard(which)


async def test_nothing_is_lost_or_doubled_on_a_bucket_whatever_is_done_to_nodes_links_and_bucket(
    tmp_path: Path,
) -> None:
    load = Load(CALLERS)
    async with rough_fleet(tmp_path, 3, LEASE_S) as (members, node):
        await balanced(node, members)
        chaos = Chaos(members, seed=int(os.environ.get("WAKEFUL_LIVE_SEED", "1")), timeline=load.timeline)
        watching = asyncio.create_task(load.timeline.watch(node, load.acked, chaos.weather))
        calling = asyncio.create_task(load.run())
        await chaos.run(CHAOS_S)
        load.is_over = True
        await calling
        await balanced(node, members)
        await settled(node)
        watching.cancel()
    load.timeline.print(members)
    print(dict(chaos.events))
    await load.check(f"bucket:{tmp_path / 'bucket'}?cache={tmp_path}/judge")
    assert len(load.acked) > CHAOS_S


async def _fill(count: int, cls: type[Cell], after: str = "20h") -> float:
    began = time.monotonic()
    for first in range(0, count, AT_ONCE):
        await app.jobs.schedule_many(
            [
                JobSpec(app.get(cls, f"far{n}").mark, (f"far{n}",), after=after)
                for n in range(first, min(first + AT_ONCE, count))
            ]
        )
    return time.monotonic() - began


async def _until_answered(key: str) -> float:
    """How long until an object answers."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        try:
            await app.get(Cell, key, request_key=f"alive {key}", deadline="60s").add(f"alive {key}")
            return time.monotonic() - began
        except (Unavailable, DeadlineExceeded):
            await asyncio.sleep(0.02)
    raise AssertionError(f"{key} never answered")


async def test_who_takes_over_a_hundred_thousand_timers_is_there_within_the_lease_and_five_seconds(
    tmp_path: Path,
) -> None:
    url = f"bucket:{tmp_path / 'bucket'}?cache={tmp_path}"
    limit_s = lease_of(None, BucketStore.rhythm).ms / 1_000 + GRACE_S
    with fleet(f"{url}/nodes", 3) as members:
        async with app.connect(f"{url}/client") as node:
            await balanced(node, members)
            took_s = await _fill(FAILOVER_TIMERS, Cell)
            dead = members[1]
            called, due = keys_of(node, dead.name, 2)
            await app.jobs.schedule(app.get(Cell, due).mark, "due", after="1s")
            await asyncio.to_thread(dead.kill)
            killed = time.monotonic()
            answered_s = await _until_answered(called)
            while await node.store.count("timers", cls="Cell", key_prefix=due):
                await asyncio.sleep(0.05)
                assert time.monotonic() - killed < PATIENCE_S
            fired_s = time.monotonic() - killed
            assert await node.store.count("timers", cls="Cell") == FAILOVER_TIMERS
    print(
        f"{FAILOVER_TIMERS:,} timers added in {took_s:.1f} s; after a kill -9 the objects answered elsewhere after "
        f"{answered_s:.1f} s, a timer that was due fired after {fired_s:.1f} s"
    )
    assert max(answered_s, fired_s) <= limit_s


async def test_a_node_starts_with_a_million_timers_and_nothing_but_the_bucket(tmp_path: Path) -> None:
    url = f"bucket:{tmp_path / 'bucket'}?cache={tmp_path}"
    with fleet(f"{url}/nodes", 1) as members:
        async with app.connect(f"{url}/client"):
            added_s = await _fill(MANY_TIMERS, Cell)
            await app.jobs.schedule(app.get(Cell, "first").mark, "first", after="1s")
        first_mb = _most_mb(members[0])
        await asyncio.to_thread(members[0].kill)
        shutil.rmtree(tmp_path / "nodes")
        began = time.monotonic()
        await asyncio.to_thread(members.replace(0).wait_for, "ready", timeout_s=START_S_MAX)
        ready_s = time.monotonic() - began
        async with app.connect(f"{url}/other") as node:
            while await node.store.count("timers", cls="Cell", key_prefix="first"):
                await asyncio.sleep(0.1)
                assert time.monotonic() - began < START_S_MAX
            fired_s = time.monotonic() - began
            assert await node.store.count("timers", cls="Cell") == MANY_TIMERS
        again_mb = _most_mb(members[0])
        size_mb = sum(path.stat().st_size for path in (tmp_path / "nodes").iterdir()) / 1e6
    print(
        f"{MANY_TIMERS:,} timers added in {added_s:.0f} s ({MANY_TIMERS / added_s:,.0f}/s), the node had {first_mb:.0f} MB; started "
        f"anew with nothing but the bucket it was ready after {ready_s:.1f} s, the first fired after {fired_s:.1f} s, it had "
        f"{again_mb:.0f} MB and a local file of {size_mb:.0f} MB"
    )
    assert max(first_mb, again_mb) <= MEMORY_MB_MAX


def _most_mb(member: Member) -> float:
    """The most memory that it ever had."""
    with open(f"/proc/{member.pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1_000
