"""How soon does an owner hear of a job that another process inserted, and of a node that died: with the database's help and without?"""

import asyncio
import time
from pathlib import Path

from tests.live.cluster import LEASE_S, balanced, fleet, keys_of, percentile, until
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.yardstick import Yardstick

JOBS = 1_000 if IS_LONG else 100


async def latencies(diary: Path, run: str, count: int, pause_s: float) -> list[float]:
    """Milliseconds from before each `schedule` until its handler began in another process."""
    asked: dict[str, float] = {}
    for number in range(count):
        asked[f"{run}{number}"] = time.time() * 1000
        await app.jobs.schedule(app.get(Cell, f"h{number}").mark, f"{run}{number}")
        await asyncio.sleep(pause_s)

    def lines() -> list[list[str]]:
        return [line.split() for line in diary.read_text().splitlines()]

    await until(lambda: {line[2] for line in lines()} >= asked.keys(), "all have begun")
    return [int(at) - asked[id] for _, at, id in lines() if id in asked]


async def test_a_job_of_another_process_reaches_its_owner_by_notification(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    url, diary = postgres_schema_url, tmp_path / "diary"
    # Nobody looks by itself, so what runs was told of.
    env = {"WAKEFUL_DIARY": str(diary), "WAKEFUL_NO_SCANS": "1"}
    with fleet(url, 2, env=env) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            assert node.store.listens
            took = await latencies(diary, "told", JOBS, 0.01)
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    print(f"by notification, {JOBS} jobs: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {max(took):.1f} ms")
    assert p50 < machine.allows(0.1) * 1000, machine
    assert p99 < machine.allows(1) * 1000, machine


async def test_without_notifications_and_session_locks_scans_and_leases_do_it(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    url, diary = f"{postgres_schema_url}&listen=off&session_lock=off", tmp_path / "diary"
    with fleet(url, 2, env={"WAKEFUL_DIARY": str(diary)}) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            assert not node.store.listens
            assert {row.is_here for row in node.membership.nodes.values()} == {None}
            took = await latencies(diary, "scanned", 30 if IS_LONG else 10, 0.13)
            keys = keys_of(node, members[0].name, 10)
            await asyncio.sleep(0.5)
            members[0].kill()
            since = time.monotonic()
            for key in keys:
                await app.get(Cell, key, request_key=f"k{key}", deadline="120s").add(f"k{key}")
            crash_s = time.monotonic() - since
    print(f"by scan: max {max(took):.0f} ms; a crash without session locks was made up for after {crash_s:.2f} s")
    assert percentile(took, 0.5) > 50, "something told of them all the same"
    assert max(took) < machine.allows(1.5) * 1000, machine
    assert crash_s > LEASE_S - 2, "somebody told of it all the same"
    assert crash_s < machine.allows(LEASE_S + 2), f"by the lease, which is renewed every 1.5 s, and a round; {machine}"
