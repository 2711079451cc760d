"""Machines in real processes that are killed with -9: a delay fires at its instant, once; nothing is lost or doubled."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.live.harness import IS_LONG
from tests.live.programs.cells import KEYS, app, check_cell
from tests.yardstick import PATIENCE_S, Yardstick
from wakeful.store import open_url
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.ids import ObjectId

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 60 if IS_LONG else 6
KILLS = 20 if IS_LONG else 4
LATE_S = 10  # of a busy machine, from when the process can do anything at all


class Life:
    """A process of one of the programs."""

    def __init__(self, program: str, *args: object) -> None:
        command = [sys.executable, str(PROGRAMS / program), *map(str, args)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout

    def line(self) -> list[str]:
        return self._out.readline().split()

    def kill(self) -> list[list[str]]:
        """What it had said until it died."""
        self._process.kill()
        rest = [line.split() for line in self._out]
        self._process.wait()
        self._out.close()
        return rest


@pytest.mark.parametrize(
    ("down", "ahead"), [(SECONDS / 2, 0), (SECONDS - 0.1, 0), (1, 3 * 3600)], ids=["half", "nearly", "three-hours"]
)
def test_a_delay_fires_at_its_deadline_or_at_once_and_once(url: str, down: float, ahead: float) -> None:
    first = Life("waiting.py", url, "w", SECONDS, 0)
    assert first.line()[0] == "here"
    up, due_at = first.line()
    assert up == "up"
    time.sleep(1)
    first.kill()
    time.sleep(down - 1)
    with Yardstick() as machine:
        second = Life("waiting.py", url, "w", SECONDS, ahead)
        here, began_at = second.line()
        assert here == "here"
        try:
            said = [second.line(), second.line()]
            at = next(float(line[1]) for line in said if line[0] == "fired")
        finally:
            time.sleep(0.5)  # time enough to fire again, or to say something twice
            assert second.kill() == []
    assert -0.05 <= at - max(float(due_at), float(began_at)) <= machine.allows(LATE_S), machine
    asyncio.run(_fired_once(url, due_ms=round(float(due_at) * 1000)))


async def _fired_once(url: str, *, due_ms: int) -> None:
    store = open_url(url)
    await store.open(now=0, readonly=True)
    try:
        id = ObjectId("Wait", "w")
        entries = [entry for _, entry in await store.find_entries(Query(cls="Wait", key="w", limit=100))]
        fired = [entry for entry in entries if entry.name.startswith("machine:xstate.after.")]
        assert [(entry.verdict, entry.nominal_at) for entry in fired] == [("run", due_ms)]
        assert {name: decode(data) for name, data in await store.scan(id, USER, Range())} == {"told": 1}
        assert await store.find_timers(Query(cls="Wait", key="w", limit=100)) == []
    finally:
        await store.close()


def test_events_delays_actions_and_methods_over_kills(url: str) -> None:
    seed = int(os.environ.get("WAKEFUL_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}, {KILLS} kills")
    dice = random.Random(seed)
    acked: dict[str, set[int]] = defaultdict(set)
    for number in range(KILLS):
        life = Life("cells.py", url, number * 1_000_000)
        assert life.line() == ["up"]
        time.sleep(dice.uniform(0.3, 2.5))
        for kind, *what in life.kill():
            if kind == "taken" and len(what) == 2:
                acked[what[0]].add(int(what[1]))
    asyncio.run(_check(url, acked))


async def _check(url: str, acked: dict[str, set[int]]) -> None:
    store = open_url(url)
    await store.open(now=0, readonly=True)
    try:
        for key in KEYS:
            await check_cell(store, key, acked[key], late_at=0)  # as the last process left it
    finally:
        await store.close()
    async with app.run(url) as node:
        until = time.monotonic() + PATIENCE_S
        while await _overdue(node.store):
            assert time.monotonic() < until, "what is due does not fire"
            await asyncio.sleep(0.2)
    await store.open(now=0, readonly=True)
    try:
        for key in KEYS:
            assert len(acked[key]) > KILLS
            await check_cell(store, key, acked[key], late_at=0)
        assert await store.find_parked(Query(limit=10)) == []
    finally:
        await store.close()


async def _overdue(store: Store) -> bool:
    """Something is due for longer than a moment; an invoked method is due while it runs."""
    timers = await store.find_timers(Query(cls="Cell", limit=1_000))
    now = int(time.time() * 1000)
    return any(timer.due_at < now - 500 for timer in timers if not timer.name.startswith("machine-run:"))
