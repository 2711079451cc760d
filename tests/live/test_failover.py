"""The primary dies under load and its standby is promoted: nodes go on there by themselves, nothing acknowledged is lost or doubled."""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.cluster import balanced, fleet, settled, until
from tests.live.harness import IS_LONG
from tests.live.jobbing import AHEAD_MS, Event, Load, check, now_ms
from tests.live.postgres import IMMEDIATE, Server, server
from tests.live.programs.fleet import app
from tests.live.test_cluster_postgres import CALLERS, Calls
from tests.yardstick import Yardstick
from wakeful.values.errors import Unavailable

RATE = 100
FAILOVERS = int(os.environ.get("WAKEFUL_LIVE_FAILOVERS", "10")) if IS_LONG else 1
BEFORE_S = 5.0 if IS_LONG else 1.5
DEAD_S = 1.0  # until somebody, or something, promotes
SYNC = ("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")


@contextmanager
def followed(primary: Server) -> Iterator[Server]:
    """A standby that runs, and without whom the primary acknowledges nothing."""
    standby = primary.standby()
    try:
        standby.start()
        standby.wait()
        primary.execute(*SYNC)
        standby.execute(SYNC[0].replace("'standby'", "''"), SYNC[1])
        yield standby
    finally:
        standby.stop(IMMEDIATE)
        shutil.rmtree(standby.folder, ignore_errors=True)


async def while_dead(url: str) -> str:
    """What a node that starts meanwhile is told."""
    try:
        async with app.connect(f"{url}&timeout=300ms"):
            pass
    except Unavailable as error:
        return error.message
    raise AssertionError("there is no primary, and it connected")


async def fail_over(primary: Server, standby: Server, url: str, calls: Calls, load: Load) -> tuple[Event, float, str]:
    """Kill the one and promote the other; how long until calls and jobs were taken again, from the promotion on."""
    at_ms = now_ms()
    await asyncio.to_thread(primary.stop, IMMEDIATE)
    said = await while_dead(url)
    await asyncio.sleep(DEAD_S)
    await asyncio.to_thread(standby.promote)
    promoted_at, answered, scheduled = time.monotonic(), len(calls.acked), len(load.acked)
    event = Event("failover of the database", at_ms, now_ms(), now_ms() - at_ms)
    await until(lambda: len(calls.acked) > answered + 20 and len(load.acked) > scheduled + 20, "it goes on")
    return event, time.monotonic() - promoted_at, said


async def one_failover(number: int) -> str:
    with server() as primary, followed(primary) as standby:
        url = f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}&target_session_attrs=read-write"
        with fleet(url, 2) as members, Yardstick() as machine:
            async with app.connect(url) as node:
                await balanced(node, members)
                names = {member.name for member in members}
                is_over = asyncio.Event()
                load, calls = Load(RATE), Calls()
                callers = [asyncio.create_task(calls.run(caller)) for caller in range(CALLERS)]
                scheduling = asyncio.create_task(load.run(3_600, is_over))
                await asyncio.sleep(BEFORE_S)
                assert primary.execute("SELECT sync_state FROM pg_stat_replication") == "sync"
                event, took_s, said = await fail_over(primary, standby, url, calls, load)
                assert str(primary.folder) in said, said
                assert str(standby.folder) in said, said
                await asyncio.sleep(1.0)
                is_over.set()
                calls.is_over = True
                await asyncio.gather(*callers)
                await scheduling
                await balanced(node, members)
                assert {member.name for member in members} == names, "none was started anew"
                await settled(url, until_ms=now_ms() + AHEAD_MS)
                assert not calls.wrong, calls.wrong[:5]
                summary = await check(url, load, [event], machine, calls=set(calls.acked), allow="not counted:")
    return (
        f"failover {number}: dead for {event.lasts_ms / 1000:.1f} s, going again {took_s:.1f} s after the promotion; "
        f"{len(calls.acked)} calls ({calls.refused} refused and asked again); refused schedules {dict(load.refused)}; {summary}"
    )


async def test_a_standby_that_is_promoted_under_load_goes_on_with_everything_acknowledged() -> None:
    for number in range(FAILOVERS):
        print(await one_failover(number))
