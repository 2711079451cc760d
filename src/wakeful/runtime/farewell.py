"""Layer 3. How does a node that stops take leave of its store, also of one that is away?

Timers that it had begun and that the stop cut off did not kill a process, so their start notes are taken back. While
the store is away that can't be written: it is tried until the time for the stop is over. First of all those are told
who need no store for it: see `ended_epochs`.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime import ended_epochs
from wakeful.values.errors import Unavailable

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.node")

LAST_WORDS_MS = 5_000  # past the deadline of the stop, to say what a store that is back should know


async def leave(node: "Node", *, was_down: bool) -> None:
    """Hand over or hand back what the node has, and be no member any more; a store that is away is waited for."""
    until = node.clock.now() + node.limits.stop_deadline_ms
    epochs = dict(node.outage.epochs if was_down else node.epochs)
    because: Unavailable | None = node.down_because
    if not was_down:
        try:
            await _within(node, until + LAST_WORDS_MS, _part(node))
            return
        except Unavailable as error:
            because = error
        node.outage.keep(node.queue.running.values())
        for activation in list(node.awake.values()):  # none of them may commit under the epochs that are claimed now
            node.drop(activation, because)
        node.committer.abandon(because)
    node.outage.shut()
    await ended_epochs.tell(node, epochs, node.membership.reachable(), node.routes.ask)
    tries = 0
    while node.clock.now() < until or not tries:
        try:
            await _within(node, until + LAST_WORDS_MS, _part_anew(node, epochs))
            return
        except Unavailable as error:
            because = error
        tries += 1
        left_ms = max(0, until - node.clock.now())
        await node.clock.sleep(min(left_ms, platform_delay_ms(tries, node.dice.random())))
    log.warning("stopped without releasing the store: %s", because, extra={"code": "node.stop"})


async def _part(node: "Node") -> None:
    """The way of every day."""
    if node.is_clustered:
        await node.membership.retire()
        await node.membership.make_sure()
    await node.ownership.release_all()
    await node.store.leave(node.name)
    await node.store.tell([])


async def _part_anew(node: "Node", epochs: dict[int, int]) -> None:
    """Open the store again and hand back what was begun.

    Under new epochs: a commit that was on its way when the store went can't arrive any more.
    """
    store, now = node.store, node.clock.now()
    await store.open(now=now)
    # A recovery that the stop cut off, or a try before this one, may have claimed them anew, unheard.
    ours = {row.shard: row.epoch for row in await store.owners() if row.owner == node.name}
    seen = {shard: ours.get(shard, epoch) for shard, epoch in epochs.items()}
    won = await store.claim(node.name, sorted(seen), now=now, seen=seen) if seen else {}
    node.epochs.clear()
    node.epochs.update(won)
    await node.ownership.hand_back(won)
    await store.release(node.name, won)
    await store.leave(node.name)
    await store.tell([])


async def _within(node: "Node", until: int, way: Coroutine[Any, Any, None]) -> None:
    """Do it, or give it up at that time: a store that is slow must not keep a process that was told to end."""
    task = asyncio.get_running_loop().create_task(way)
    handle = node.clock.call_at(until, task.cancel)
    try:
        await asyncio.wait([task])
    except BaseException:
        task.cancel()
        raise
    finally:
        handle.cancel()
    if task.cancelled():
        raise Unavailable("the store did not answer within the time that the stop has")
    task.result()
