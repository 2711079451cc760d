"""Layer 4. How do threads and processes for methods join the nodes of a program?"""

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.executors.permits import Permits
from wakeful.runtime.context import Context
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.errors import TurnOver
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:  # most programs have none of these methods
    from collections.abc import Callable

    from wakeful.executors.worker_processes import WorkerProcesses
    from wakeful.policy.limits import Limits
    from wakeful.runtime.node import Node

FEATURE = "executors"


class ExecutorFeature(Feature):
    """Threads and processes for methods that are not `async def`."""

    def equip(self, node: "Node") -> None:
        node.features[FEATURE] = executors = NodeExecutors(node.limits)
        node.hurried.append(executors.hurry)

    async def erase(self, turn: Turn) -> None:
        """Nothing: what runs is a turn of the object, and keeps nothing anywhere."""

    async def stopping(self, node: "Node") -> None:
        node.features[FEATURE].end()


class NodeExecutors:
    """Those of one node."""

    def __init__(self, limits: "Limits") -> None:
        holders: Counter[ObjectId] = Counter()
        self._threads_free = Permits(limits.threads, holders)
        self._processes_free = Permits(limits.processes or os.cpu_count() or 1, holders)
        from wakeful.executors.method_threads import MethodThreads

        self._threads = MethodThreads(limits.threads)
        self._processes: WorkerProcesses | None = None

    async def run_in_thread(self, turn: Turn, code: "Callable[[], Any]") -> Any:
        return await self._threads.run(turn, code, await self._threads_free.take(turn))

    async def run_in_process(self, turn: Turn, instance: Any, name: str, args: Any, kwargs: Any) -> Any:
        """A method of the object in a process of its own, and a thread here that speaks with it."""
        permit = await self._processes_free.take(turn)
        if self._processes is None:
            from wakeful.executors.worker_processes import WorkerProcesses

            self._processes = WorkerProcesses(self._processes_free.limit)
        with self._processes.worker() as worker:
            code = partial(worker.run, Context(turn.activation), instance, name, args, kwargs)
            return await self._threads.run(turn, code, permit, worker.kill)

    def hurry(self, id: ObjectId) -> None:
        """A turn of that object is waited for by one that may hold a place."""
        self._threads_free.hurry(id)
        self._processes_free.hurry(id)

    def end(self) -> None:
        self._threads.end()
        if self._processes is not None:
            self._processes.end()


def executors_here(what: str) -> tuple[NodeExecutors, Turn]:
    """Those of the node whose turn is asking."""
    turn = CURRENT.get()
    if turn is None:
        raise TurnOver(f"{what} is for code that runs in a turn of its object; call it through a stub: app.get(…)")
    turn.check_open()
    found: NodeExecutors = turn.activation.node.features[FEATURE]
    return found, turn
