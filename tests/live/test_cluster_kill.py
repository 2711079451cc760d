"""A node of three dies or is asked to stop: its objects answer elsewhere, and nobody who asks nicely is harmed."""

import asyncio
import time

from tests.live.cluster import SETTLE_S, Cells, balanced, fetch, fleet, keys_of, percentile, until
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.yardstick import Yardstick

KILLS = 50 if IS_LONG else 3
OBJECTS = 20  # of the victim, asked at once
STOPS = 10 if IS_LONG else 2
TICKING = 30


async def test_objects_of_a_killed_node_answer_elsewhere_within_two_seconds(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    took_s: list[float] = []
    acked: list[str] = []
    # The short form does not wait for others to take the place of the dead.
    with fleet(url, 3 if IS_LONG else 2 + KILLS) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            for number in range(KILLS):
                if IS_LONG or number == 0:
                    await asyncio.sleep(SETTLE_S)  # a node that has just come can't miss others yet
                victim = members[number % len(members)]
                keys = keys_of(node, victim.name, OBJECTS)
                assert {await app.get(Cell, key).where() for key in keys} == {victim.pid}
                victim.kill()
                killed_at = time.monotonic()

                async def ask(key: str, id: str, since: float) -> float:
                    await app.get(Cell, key, request_key=id, deadline="120s").add(id)
                    acked.append(id)
                    return time.monotonic() - since

                took_s += await asyncio.gather(*(ask(key, f"{number}.{key}", killed_at) for key in keys))
                assert victim.pid not in {await app.get(Cell, key).where() for key in keys}
                if IS_LONG:
                    await asyncio.to_thread(members.replace(number % 3).wait_for, "ready")
                    await balanced(node, members)
                else:
                    await balanced(node, members[number + 1 :])
    cells = await Cells.read(url)
    assert not cells.wrong, cells.wrong[:5]
    assert set(acked) == set(cells.ids)
    p50, p99 = percentile(took_s, 0.5), percentile(took_s, 0.99)
    print(f"{KILLS} kills, {len(took_s)} objects: p50 {p50:.3f} s, p99 {p99:.3f} s, max {max(took_s):.3f} s")
    assert p99 < machine.allows(2), f"p99 {p99:.2f} s; {machine}"


async def test_a_graceful_stop_fails_no_call_and_delays_no_timer(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    slowest = 0.0
    calls = 0
    failed: list[str] = []
    windows: list[tuple[int, int]] = []
    with fleet(url, 3) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            await asyncio.gather(*(app.get(Cell, f"tick{number}").tick(200) for number in range(TICKING)))
            is_over = False

            async def call(caller: int) -> None:
                nonlocal slowest, calls
                number = 0
                while not is_over:
                    number += 1
                    since = time.monotonic()
                    try:
                        await app.get(Cell, f"c{(number * 7 + caller) % 200}").add(f"{caller}.{number}")
                    except Exception as error:
                        failed.append(f"{type(error).__name__}: {error}")
                    slowest = max(slowest, time.monotonic() - since)
                    calls += 1

            callers = [asyncio.create_task(call(number)) for number in range(16)]
            for number in range(STOPS):
                await asyncio.sleep(1)
                start_ms = int(time.time() * 1000)
                code = await asyncio.to_thread(members[number % 3].stop)
                assert code == 0, members[number % 3].tail()
                await until(lambda: all(row.owner for row in node.membership.owners), "all shards are owned")
                windows.append((start_ms, int(time.time() * 1000)))
                await asyncio.to_thread(members.replace(number % 3).wait_for, "ready")
                await balanced(node, members)
            await asyncio.sleep(0.5)
            is_over = True
            await asyncio.gather(*callers)
            rows = await fetch(
                url, "SELECT fired_at - nominal_at, nominal_at, key, node FROM {s}.ledger WHERE name = 'alarm'"
            )
            bad = await fetch(url, "SELECT verdict, error FROM {s}.ledger WHERE verdict <> 'run'")
    assert not failed, failed[:5]
    assert not bad, bad[:5]
    latest = max(row[0] for row in rows)
    stops_s = [(end - start) / 1000 for start, end in windows]
    print(
        f"{STOPS} graceful stops (to shards elsewhere and process gone: {max(stops_s):.2f} s), {calls} calls, none failed, "
        f"slowest {slowest:.3f} s; {len(rows)} alarms, latest {latest} ms late"
    )
    most_ms = machine.allows(1) * 1000
    late = [f"{key}: due {at}, {ms} ms late on {name}" for ms, at, key, name in rows if ms > most_ms]
    assert not late, f"stops {windows}: {late[:10]}; {machine}"
    cells = await Cells.read(url)
    assert not cells.wrong, cells.wrong[:5]
    assert calls == sum(1 for id in cells.ids if "alarm" not in id)
