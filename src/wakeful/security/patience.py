"""Layer 5. How long is something waited for that asks a store, which may not answer at all?"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.runtime.lock_watch import LOOK_MS
from wakeful.values.errors import NotRunning, StoreDown
from wakeful.values.times import Wakeup

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.store.protocol import TableLock

T = TypeVar("T")

LOCKED_MS = 3_000  # what takes longer, while a table can't be read, waits for that


async def within(node: "Node", work: Coroutine[Any, Any, T], ms: int) -> asyncio.Task[T]:
    """The work as a task, which was waited for so long. One that is not done goes on: a question is not taken back."""
    loop = asyncio.get_running_loop()
    task, over = loop.create_task(work), asyncio.Event()
    node.keep(task)
    task.add_done_callback(_take_outcome)
    handle = node.clock.call_at(node.clock.now() + ms, over.set)
    task.add_done_callback(lambda _: over.set())
    try:
        await over.wait()
    finally:
        handle.cancel()
    if task.cancelled():
        raise NotRunning("the node has stopped meanwhile")
    return task


async def unless_locked(node: "Node", work: Awaitable[T], homes: "Callable[[], Iterable[Node]]") -> T:
    """What comes of it; `StoreDown` when it waits, and so does everybody else, for a lock that somebody holds on a table.

    `homes` says in whose stores is what it waits for.
    """
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)

    def look() -> None:
        with suppress(NotRunning):  # the program stops, and with it all that waits
            if lock_of(homes()) is None:
                watch.set(node.clock.now() + LOOK_MS)
                return
            limit.reschedule(loop.time())

    watch = Wakeup(node.clock, look)
    watch.set(node.clock.now() + LOCKED_MS)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise StoreDown("a table is locked, and what was asked for can't be read", code="store.locked") from None
    finally:
        watch.set(None)


def lock_of(homes: "Iterable[Node]") -> "TableLock | None":
    """One that keeps everybody from reading, in the store of one of them."""
    return next(filter(None, (home.lock_watch.unreadable for home in homes)), None)


def _take_outcome(task: asyncio.Task[Any]) -> None:
    """What it raised is for whoever still waits, if anybody does."""
    if not task.cancelled():
        task.exception()
