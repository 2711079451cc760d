"""Layer 4. A method that a chart invokes: how does it run beside the object's turns, and answer exactly once?

Its timer stays on disk, begun, until the answer is applied: a node that dies leaves it to the next owner, who runs it
again. The answer is a turn like any event. One that comes after the state was left, or a second one of the same run,
is not for the chart any more and is dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.machines.snapshot import event_of
from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.calls import copy_back
from wakeful.runtime.turn import Turn
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer, run_id, text_of

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime

ANSWER, KEEP, SAY = "machine.answer", "machine.keep", "machine.say"
INBOX_MAX = 1_000  # events that wait for one callback: one that is so far behind has stopped listening
log = logging.getLogger("wakeful.machine")


class Actors:
    """The invoked methods that run on this node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._inboxes: dict[tuple[ObjectId, str, int], Inbox] = {}  # of callbacks, by object, timer and start
        node.farewells.append(self._forget)

    def begin(self, activation: "ObjectRuntime", bound: "Bound", timer: Timer, call: list[Any]) -> None:
        """Run it beside the turns of its object."""
        instance = activation.instance
        is_callback = call[0] in bound.callbacks
        run = self._listen if is_callback else self._run
        self._node.sideline.begin(timer, lambda: run(instance, bound, timer, call), is_endless=is_callback)

    def stop_after(self, turn: Turn, name: str) -> None:
        """The state that invoked it is left: stop it once that is on disk."""
        sideline, target = self._node.sideline, turn.activation.id
        seq = sideline.seq_of(target, name)
        for inbox in [one for one in self._inboxes if one[:2] == (target, name)]:
            turn.then = [*turn.then, partial(self._drop, inbox)]
        if seq is not None:
            turn.then = [*turn.then, partial(sideline.stop, target, name, seq)]

    def hand_after(self, turn: Turn, name: str, number: int, event: dict[str, Any]) -> None:
        """A callback gets an event, once what sent it is on disk; it is kept in memory only."""
        turn.then = [*turn.then, partial(self._hand, (turn.activation.id, name, number), event)]

    def _hand(self, name: tuple[ObjectId, str, int], event: dict[str, Any]) -> None:
        if not self._inboxes.setdefault(name, Inbox()).put(event):
            words = "%s %s: the callback does not take its events; the oldest of %d is dropped"
            log.warning(words, name[0], name[1], INBOX_MAX, extra={"code": "machine.inbox"})

    def _drop(self, name: tuple[ObjectId, str, int]) -> None:
        self._inboxes.pop(name, None)

    def _forget(self, shards: Collection[int]) -> None:
        """What is for callbacks of these shards that do not run here is for nobody here any more."""
        sideline = self._node.sideline
        for name in [one for one in self._inboxes if shard_of(one[0]) in shards and one[:2] not in sideline]:
            del self._inboxes[name]

    async def _listen(self, instance: Any, bound: "Bound", timer: Timer, call: list[Any]) -> None:
        """Run a callback until its state is left; one that returns rests until then, one that raises is an error."""
        src, input, number = call[:3]
        id, began_at = timer.name.partition(":")[2], self._node.clock.now()
        name = (timer.id, timer.name, number)
        inbox = self._inboxes[name] = Inbox(self._inboxes.get(name))

        async def send_back(event: str | Mapping[str, Any], /, **data: Any) -> None:
            await self._say(timer, (id, number, event_of(event, data)))

        try:
            await bound.method(src, instance, input, send_back, inbox)
            await asyncio.Event().wait()
        except Exception as error:
            await self._answer(timer, call, began_at, False, plain(error))
        finally:
            if self._inboxes.get(name) is inbox:  # the same start may run here again while this one cleans up
                self._drop(name)

    async def _say(self, timer: Timer, args: tuple[Any, ...]) -> None:
        node, tries = self._node, 0
        while not node.is_dead:
            try:
                await node.send_beside(timer.id, SAY, args)
                return
            except (Unavailable, DeadlineExceeded):
                tries += 1
                await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))

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


class Inbox:
    """What a callback was sent: `async for event in receive`."""

    def __init__(self, before: "Inbox | None" = None) -> None:
        """With what the one `before` has not given out: who listened there, if anybody, does so no more."""
        self._events: deque[dict[str, Any]] = deque(maxlen=INBOX_MAX)
        self._is_there = asyncio.Event()
        if before is not None:
            self._events, before._events = before._events, self._events

    def put(self, event: dict[str, Any]) -> bool:
        """Whether there was room; if not, the oldest gives way."""
        had_room = len(self._events) < INBOX_MAX
        self._events.append(event)
        self._is_there.set()
        return had_room

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._events:
            self._is_there.clear()
            await self._is_there.wait()
        return self._events.popleft()


def plain(error: BaseException) -> dict[str, Any]:
    """An error as data, the form that XState's own has when it is serialised."""
    return {"name": type(error).__name__, "message": text_of(error)}
