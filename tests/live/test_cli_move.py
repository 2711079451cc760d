"""Real processes: `wakeful move` killed at any moment leaves its target as empty as it was, or has moved everything."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.yardstick import PATIENCE_S
from wakeful.store import open_url
from wakeful.store_move import TableDigest, digest
from wakeful.values.errors import Conflict, StoreError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

TIMERS = 40_000
KILLS = 20 if os.environ.get("WAKEFUL_LIVE") == "full" else 3
LONG_S = PATIENCE_S


async def _fill(url: str) -> None:
    store = open_url(url)
    await store.open(now=1)
    timers = [
        Timer(ObjectId("Order", f"k{n % 5_000}"), f"job:ship:{n}", n * 7_919 % 100_000, n, n, payload=b"x" * 50)
        for n in range(TIMERS)
    ]
    assert await store.insert(timers, now=1) == []
    await store.close()


def _parts(url: str) -> tuple[TableDigest, ...]:
    return asyncio.run(digest(url, now=1))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_kill_9_while_moving_moves_everything_or_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = f"sqlite:{tmp_path}/source.db"
    target = f"sqlite:{tmp_path}/target.db" if kind == "sqlite" else request.getfixturevalue("postgres_schema_url")
    asyncio.run(_fill(source))
    command = [sys.executable, "-m", "wakeful.cli", "move", source, target, "--json"]
    spare = f"sqlite:{tmp_path}/spare.db"
    begun = time.monotonic()
    subprocess.run([*command[:-2], spare, "--json"], check=True, stdout=subprocess.DEVNULL, timeout=LONG_S)
    whole_s = time.monotonic() - begun  # on this machine, which may be a fast one
    dice = random.Random(7)
    hit = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole_s * dice.uniform(0.1, 0.9))
        process.kill()
        process.wait()
        if process.returncode == 0:
            break  # it was faster
        hit += 1
        if moved := _rows(target):
            assert moved == sum(part.rows for part in _parts(source)), "a part of it was moved"
            break  # it was through, and had not said so yet
    assert hit, "no kill hit a move"
    if _rows(target) == 0:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
        assert done.returncode == 0, done.stderr
    assert _parts(target) == _parts(source)


def _rows(target: str) -> int:
    """How many there are, as soon as the server has noticed that its client is gone; 0 before there are tables."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return sum(part.rows for part in _parts(target))
        except Conflict:
            assert time.monotonic() < until, "the tables stay locked"
        except StoreError:
            return 0
