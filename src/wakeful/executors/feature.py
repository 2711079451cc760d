"""Layer 4. How do threads and processes for methods join the nodes of a program?"""

from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.executors.method_threads import MethodThreads
from wakeful.runtime.context import Context
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.errors import TurnOver

if TYPE_CHECKING:  # most programs have none of these methods
    from collections.abc import Callable

    from wakeful.executors.worker_processes import WorkerProcesses
    from wakeful.policy.limits import Limits
    from wakeful.runtime.node import Node

FEATURE = "executors"


class ExecutorFeature(Feature):
    """Threads and processes for methods that are not `async def`."""

    def equip(self, node: "Node") -> None:
        node.features[FEATURE] = NodeExecutors(node.limits)

    async def erase(self, turn: Turn) -> None:
        """Nothing: what runs is a turn of the object, and keeps nothing anywhere."""

    async def stopping(self, node: "Node") -> None:
        node.features[FEATURE].end()


class NodeExecutors:
    """Those of one node."""

    def __init__(self, limits: "Limits") -> None:
        self._limits = limits
        self._threads = MethodThreads(limits.threads)
        self._processes: WorkerProcesses | None = None

    async def run_in_thread(self, turn: Turn, code: "Callable[[], Any]") -> Any:
        return await self._threads.run(turn, code)

    async def run_in_process(self, turn: Turn, instance: Any, name: str, args: Any, kwargs: Any) -> Any:
        """A method of the object in a process of its own, and a thread here that speaks with it."""
        if self._processes is None:
            from wakeful.executors.worker_processes import WorkerProcesses

            self._processes = WorkerProcesses(self._limits.processes)
        async with self._processes.worker(is_nested=len(turn.chain) > 1) as worker:
            code = partial(worker.run, Context(turn.activation), instance, name, args, kwargs)
            return await self._threads.run_beyond(turn, code, on_cut=worker.kill)

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
