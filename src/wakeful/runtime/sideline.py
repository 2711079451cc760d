"""Layer 3. What runs beside the turns of its object, for a timer that stays begun until it is over?

The object is free for other turns meanwhile, and may sleep. A node that dies leaves the timer to the next owner; one
that lets the shard go stops the work and hands the timer back, so that nobody counts a crash.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer
from wakeful.values.times import Clock

log = logging.getLogger("wakeful.sideline")


class Sideline:
    """The work of this node that no turn waits for."""

    def __init__(self, clock: Clock, keep: Callable[[asyncio.Task[Any]], None]) -> None:
        self._clock = clock
        self._keep = keep
        self._running: dict[tuple[ObjectId, str], tuple[int, asyncio.Task[None]]] = {}
        self._endless: set[tuple[ObjectId, str]] = set()  # those that go on until they are stopped

    def __len__(self) -> int:
        """How much is under way that will come to an end."""
        return len(self._running) - len(self._endless)

    def __contains__(self, name: tuple[ObjectId, str]) -> bool:
        return name in self._running

    def seq_of(self, id: ObjectId, name: str) -> int | None:
        """For which setting of the timer of that name it is at work."""
        found = self._running.get((id, name))
        return None if found is None else found[0]

    def will_end(self, name: tuple[ObjectId, str]) -> bool:
        """Whether it is worth to wait for it."""
        return name not in self._endless

    def begin(self, timer: Timer, make: Callable[[], Coroutine[Any, Any, None]], *, is_endless: bool = False) -> None:
        """Begin the work, unless it is under way: the store may have been away, and this process was not."""
        name = (timer.id, timer.name)
        seq = self.seq_of(*name)
        if seq == timer.seq:
            return
        if seq is not None:
            self.stop(*name, seq)
        task = asyncio.get_running_loop().create_task(make())
        self._running[name] = (timer.seq, task)
        if is_endless:
            self._endless.add(name)
        self._keep(task)
        task.add_done_callback(lambda _: self._on_end(name, task))

    async def over(self, id: ObjectId, name: str, *, within_ms: int) -> bool:
        """Wait for it to end, no longer than that; whether it has."""
        work = self._running.get((id, name))
        if work is None:
            return True
        waiter, clock = asyncio.Event(), self._clock
        handle = clock.call_at(clock.now() + within_ms, waiter.set)
        work[1].add_done_callback(lambda _: waiter.set())
        await waiter.wait()
        handle.cancel()
        return work[1].done()

    def stop(self, id: ObjectId, name: str, seq: int) -> None:
        """Nobody wants it any more."""
        if self.seq_of(id, name) == seq:
            self._endless.discard((id, name))
            self._running.pop((id, name))[1].cancel()

    def cut(self, shards: Collection[int]) -> None:
        """Stop what belongs to these shards."""
        for name, (seq, _) in [found for found in self._running.items() if shard_of(found[0][0]) in shards]:
            self.stop(*name, seq)

    def _on_end(self, name: tuple[ObjectId, str], task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s %s ended without an answer", *name, exc_info=error, extra={"code": "sideline.failed"})
        if self._running.get(name, (0, None))[1] is task:
            self._endless.discard(name)
            del self._running[name]
