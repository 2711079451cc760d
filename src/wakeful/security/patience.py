"""Layer 5. How long is something waited for that asks a store, which may not answer at all?"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.values.errors import NotRunning

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

T = TypeVar("T")


async def within(node: "Node", work: Coroutine[Any, Any, T], ms: int) -> asyncio.Task[T]:
    """The work as a task, which was waited for so long. One that is not done goes on: a question is not taken back."""
    loop = asyncio.get_running_loop()
    task, over = loop.create_task(work), asyncio.Event()
    node.keep(task)
    task.add_done_callback(_heard)
    handle = node.clock.call_at(node.clock.now() + ms, over.set)
    task.add_done_callback(lambda _: over.set())
    try:
        await over.wait()
    finally:
        handle.cancel()
    if task.cancelled():
        raise NotRunning("the node has stopped meanwhile")
    return task


def _heard(task: asyncio.Task[Any]) -> None:
    """What it raised is for whoever still waits, if anybody does."""
    if not task.cancelled():
        task.exception()
