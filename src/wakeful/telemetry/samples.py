"""Layer 5. What has to be looked at now and then, because nothing happens when it changes?"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from wakeful.values.errors import WakefulError

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.runtime.node import Node

LAG_S = 0.5
COUNT_S = 15.0
# Counting rows takes one part in so many of the time, so a large table is counted less often. Where a read holds up the
# event loop it is a lateness, which must stay rare.
COUNT_SHARE, LOCAL_SHARE = 1_000, 5_000
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
        used = time.monotonic() - used
        is_local = deployment.node is not None and deployment.node.store.local
        await asyncio.sleep(max(COUNT_S, (LOCAL_SHARE if is_local else COUNT_SHARE) * used))


async def count_rows(node: "Node") -> None:
    """Count what the store holds. Of several nodes the owner of the first shard does, so that sums are right."""
    for what in COUNTED:
        gauge = node.meter.stored.of(what)
        gauge.set(await node.store.count(what) if 0 in node.epochs and node.state == "up" else 0)
