"""Very many jobs due at one instant: memory stays bounded, none is lost, and each object's come in order."""

import asyncio
import os
import time
from collections import Counter
from datetime import UTC, datetime

import psutil

from tests.live.cluster import Fleet, balanced, fetch, fleet
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from wakeful import JobSpec
from wakeful.values.codec import decode

JOBS = int(os.environ.get("WAKEFUL_LIVE_JOBS", "1000000" if IS_LONG else "20000"))
EACH = 10  # of one object
AT_ONCE = 20_000 if IS_LONG else 5_000
LEAD_S = 5 + JOBS / 2_000 if IS_LONG else 2 + JOBS / 5_000
GROWTH_MB = 250  # of one node: 20,000 timers in memory, 10,000 awake objects, and what is on its way


async def watch_memory(members: Fleet, most: dict[int, int], is_over: asyncio.Event) -> None:
    """The most that each member ever had."""
    while not is_over.is_set():
        for member in members:
            most[member.pid] = max(most.get(member.pid, 0), _rss(member.pid))
        await asyncio.sleep(0.1)


async def test_many_jobs_due_at_one_instant(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    with fleet(url, 3) as members:
        async with app.connect(url) as node:
            await balanced(node, members)
            before = {member.pid: _rss(member.pid) for member in members}
            due = datetime.fromtimestamp(int(time.time() + LEAD_S), UTC)
            since = time.monotonic()
            for first in range(0, JOBS, AT_ONCE):
                specs = [
                    # The numbers of one object lie far apart, so that they come in different inserts.
                    JobSpec(app.get(Cell, f"b{n % (JOBS // EACH)}").follow, (f"{n}", n // (JOBS // EACH)), at=due)
                    for n in range(first, min(first + AT_ONCE, JOBS))
                ]
                await app.jobs.schedule_many(specs)
            scheduled_s = time.monotonic() - since
            early_s = (
                time.time() - due.timestamp()
            )  # past 0 the machine is too slow for them all to wait for that instant
            most, is_over = dict(before), asyncio.Event()
            watching = asyncio.create_task(watch_memory(members, most, is_over))
            await asyncio.sleep(max(0.0, due.timestamp() - time.time()))
            since = time.monotonic()
            while (left := await _left(url)) and time.monotonic() - since < (60 if IS_LONG else 500) + JOBS / 200:  # noqa: ASYNC110  (nobody tells us)
                await asyncio.sleep(1.0 if IS_LONG else 0.1)
            drained_s = time.monotonic() - since
            is_over.set()
            await watching
    assert not left, f"some are left after {drained_s:.0f} s"
    await check(url)
    grown = {pid: (most[pid] - before[pid]) / 1e6 for pid in before}
    by = Counter({row[0]: row[1] for row in await fetch(url, "SELECT node, count(*) FROM {s}.ledger GROUP BY node")})
    print(
        f"{JOBS} jobs of {JOBS // EACH} objects: scheduled in {scheduled_s:.1f} s ({JOBS / scheduled_s:.0f}/s), drained in "
        f"{drained_s:.1f} s ({JOBS / drained_s:.0f}/s) by {sorted(by.values())}; nodes grew by {max(grown.values()):.0f} MB"
        f"{f'; the first ran {early_s:.0f} s before the last was scheduled' if early_s > 0 else ''}"
    )
    assert max(grown.values()) < GROWTH_MB, grown


async def check(url: str) -> None:
    """All ran, each once, each object's in order."""
    wrong = await fetch(
        url, "SELECT key, value FROM {s}.storage WHERE cls = 'Cell' AND name LIKE 'wrong:%'::bytea LIMIT 5"
    )
    assert not wrong, [(row[0], decode(row[1])) for row in wrong]
    counts = Counter(
        decode(row[0])
        for row in await fetch(url, "SELECT value FROM {s}.storage WHERE cls = 'Cell' AND name = 'count'")
    )
    assert counts == {EACH: JOBS // EACH}, counts.most_common(5)
    [(runs, different)] = await fetch(
        url, "SELECT count(*), count(DISTINCT run_id) FROM {s}.ledger WHERE verdict = 'run'"
    )
    assert runs == different == JOBS


async def _left(url: str) -> int:
    """How many are left; 1 stands for some."""
    return len(await fetch(url, "SELECT FROM {s}.timers LIMIT 1"))


def _rss(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)
