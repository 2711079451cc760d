"""Layer 5. What has to be looked at now and then, because nothing happens when it changes?"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from wakeful.queues.queues import list_queues
from wakeful.values.errors import WakefulError
from wakeful.values.times import from_datetime

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.runtime.node import Node

LAG_S = 0.5
COUNT_S = 15.0
# Counting rows takes one part in so many of the time, so a large table is counted less often. Where a read holds up the
# event loop it is a lateness, which must stay rare.
COUNT_SHARE, LOCAL_SHARE = 1_000, 5_000
QUEUES_MAX = 60  # of which each is said: three lines of what is scraped
COUNTED: tuple[Literal["parked", "timers", "objects"], ...] = ("parked", "timers", "objects")


@asynccontextmanager
async def sampling(deployment: "Deployment") -> AsyncIterator[None]:
    """Measure how late the event loop is and how full the store, for as long as the block lasts; twice is once."""
    if deployment.is_sampled:
        yield
        return
    deployment.is_sampled = True
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_measure_lag(deployment)), loop.create_task(_count_rows(deployment))]
    try:
        yield
    finally:
        deployment.is_sampled = False
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _measure_lag(deployment: "Deployment") -> None:
    while True:
        asked = time.monotonic()
        await asyncio.sleep(LAG_S)
        if deployment.node is not None:
            deployment.node.meter.lag.add(round((time.monotonic() - asked - LAG_S) * 1000))


async def _count_rows(deployment: "Deployment") -> None:
    while True:
        used = time.monotonic()
        for node in [] if deployment.node is None else deployment.node.all_homes:
            with contextlib.suppress(WakefulError):  # the store is away: the numbers stay as they were
                await count_rows(node)
                await count_queues(node)
        used = time.monotonic() - used
        is_local = deployment.node is not None and deployment.node.store.local
        await asyncio.sleep(max(COUNT_S, (LOCAL_SHARE if is_local else COUNT_SHARE) * used))


async def count_rows(node: "Node") -> None:
    """Count what the store holds. Of several nodes the owner of the first shard does, so that sums are right."""
    for what in COUNTED:
        gauge = node.meter.stored.of(what)
        gauge.set(await node.store.count(what) if 0 in node.epochs and node.state == "up" else 0)


async def count_queues(node: "Node") -> None:
    """How the first of its queues stand, by name; the owner of the first shard says it for all."""
    is_ours = 0 in node.epochs and node.state == "up"
    now = node.clock.now()
    found = {one.name: one for one in await list_queues(node.store, now, QUEUES_MAX)} if is_ours else {}
    for (queue, _), gauge in node.meter.queues.items():
        if queue not in found:
            gauge.set(0)
    for name, one in found.items():
        oldest_ms = 0 if one.oldest_at is None else max(0, now - from_datetime(one.oldest_at))
        for what, value in (("waiting", one.waiting), ("running", one.running), ("oldest_ms", oldest_ms)):
            node.meter.queues.of(name, what).set(value)
