"""Layer 4. A method that a chart invokes: how does it run beside the object's turns, and answer exactly once?

Its timer stays on disk, begun, until the answer is applied: a node that dies leaves it to the next owner, who runs it
again. The answer is a turn like any event. One that comes after the state was left, or a second one of the same run,
is not for the chart any more and is dropped.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.calls import copy_back
from wakeful.runtime.turn import Turn
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.timers import Timer, run_id, text_of

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime

ANSWER, KEEP = "machine.answer", "machine.keep"
log = logging.getLogger("wakeful.machine")


class Actors:
    """The invoked methods that run on this node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node

    def begin(self, activation: "ObjectRuntime", bound: "Bound", timer: Timer, call: list[Any]) -> None:
        """Run it beside the turns of its object."""
        instance = activation.instance
        self._node.sideline.begin(timer, lambda: self._run(instance, bound, timer, call))

    def stop_after(self, turn: Turn, name: str) -> None:
        """The state that invoked it is left: stop it once that is on disk."""
        sideline, target = self._node.sideline, turn.activation.id
        seq = sideline.seq_of(target, name)
        if seq is not None:
            turn.then = [*turn.then, partial(sideline.stop, target, name, seq)]

    async def _run(self, instance: Any, bound: "Bound", timer: Timer, call: list[Any]) -> None:
        src, input, _, context, event = call
        began_at = self._node.clock.now()
        try:
            answer = await bound.method(src, instance, context, event, input)
            is_good, value = (
                True,
                copy_back(answer, self._node.limits.arguments_bytes, f"{timer.id}.{src}"),
            )
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the state was left, or the node goes
            is_good, value = False, plain(error)
        except Exception as error:
            is_good, value = False, plain(error)
        await self._answer(timer, call, began_at, is_good, value)

    async def _answer(self, timer: Timer, call: list[Any], began_at: int, is_good: bool, value: Any) -> None:
        node, tries = self._node, 0
        id = timer.name.partition(":")[2]
        method, args = ANSWER, (id, call[2], run_id(timer), began_at, is_good, value)
        while not node.is_dead:
            try:
                await node.send_beside(timer.id, method, args)
                return
            except (Unavailable, DeadlineExceeded):
                tries += 1
                await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
            except Exception:
                if method == KEEP:
                    words = "the answer of %s %s is lost until it runs again"
                    log.exception(words, timer.id, timer.name, extra={"code": "machine.answer"})
                    return
                # The chart can't take it now. As a timer it is tried again by the rules of timers, or parked.
                method, args = KEEP, (id, call, is_good, value)  # type: ignore[assignment]


def plain(error: BaseException) -> dict[str, Any]:
    """An error as data, the form that XState's own has when it is serialised."""
    return {"name": type(error).__name__, "message": text_of(error)}
