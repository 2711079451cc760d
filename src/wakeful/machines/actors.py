"""Layer 4. A method that a chart invokes: how does it run beside the object's turns, and answer exactly once?

Its timer stays on disk, begun, until the answer is applied: a node that dies leaves it to the next owner, who runs it
again. The answer is a turn like any event. One that comes after the state was left, or a second one of the same run,
is not for the chart any more and is dropped.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.logic.retry import platform_delay_ms
from wakeful.runtime.turn import Turn
from wakeful.values.errors import Unavailable, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node

ANSWER = "machine.answer"


class Actors:
    """The invoked methods that run on this node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._tasks: dict[tuple[ObjectId, str], tuple[int, asyncio.Task[None]]] = {}

    def begin(self, activation: "Activation", bound: "Bound", timer: Timer, call: list[Any]) -> None:
        """Run it beside the turns of its object."""
        src, input, seq, context, event = call
        id = timer.name.partition(":")[2]
        running = bound.method(src, activation.instance, context, event, input)
        task = asyncio.get_running_loop().create_task(self._run(activation.id, id, seq, running))
        self._tasks[activation.id, id] = (seq, task)
        self._node.keep(task)
        task.add_done_callback(lambda _: self._gone(activation.id, id, seq))

    def stop_later(self, turn: Turn, id: str, seq: int) -> None:
        """The state that invoked it is left: stop it once that is on disk."""
        asyncio.get_running_loop().call_soon(self._follow, turn.activation, id, seq)

    def _follow(self, activation: "Activation", id: str, seq: int) -> None:
        if (activation.id, id) in self._tasks:
            self._node.keep(asyncio.get_running_loop().create_task(self._stop(activation, id, seq)))

    async def _stop(self, activation: "Activation", id: str, seq: int) -> None:
        try:
            await activation.settled()
        except Unavailable:
            return  # it was not left after all
        number, task = self._tasks.get((activation.id, id), (0, None))
        if task is not None and number == seq:
            task.cancel()

    def _gone(self, target: ObjectId, id: str, seq: int) -> None:
        if self._tasks.get((target, id), (0, None))[0] == seq:
            del self._tasks[target, id]

    async def _run(self, target: ObjectId, id: str, seq: int, running: Any) -> None:
        try:
            answer = [True, await running]
        except Exception as error:
            answer = [False, _plain(error)]
        tries = 0
        while True:
            try:
                await self._node.send(target, ANSWER, (id, seq, *answer), {})
                return
            except Unavailable:
                tries += 1
                if self._node.is_dead:
                    return
                await self._node.clock.sleep(platform_delay_ms(tries, self._node.dice.random()))
            except WakefulError as error:
                if not answer[0]:
                    raise
                answer = [False, _plain(error)]  # an answer that can't be kept is a failure of the method


def _plain(error: BaseException) -> dict[str, Any]:
    """An error as data, the form that XState's own has when it is serialised."""
    return {"name": type(error).__name__, "message": str(error)}
