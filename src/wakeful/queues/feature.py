"""Layer 4. How do queues join the nodes of a program?"""

from typing import TYPE_CHECKING

from wakeful.runtime.admission import JOIN, LEAVE, QUEUES
from wakeful.runtime.context import runtime_of
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import running_turn
from wakeful.values.errors import BadOption, UnknownObject

if TYPE_CHECKING:  # a program that does not run yet has no timers of queues
    from wakeful.queues.records import QueueBook
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn

PAUSE, RESUME = "queues.pause", "queues.resume"
NOTE_CHARS_MAX = 500


class QueueObject:
    """Keeps one queue, whose name is its key; it has no methods, only timers and operations."""


class QueueFeature(Feature):
    """No more of them at once, or in a stretch of time."""

    classes = ((QueueObject, QUEUES),)

    def equip(self, node: "Node") -> None:
        from wakeful.queues.records import TURN
        from wakeful.queues.timers import ASK, QueueTimers

        for prefix in (JOIN, LEAVE, TURN, ASK):
            node.timer_runs.register(QueueTimers(prefix, node.limits.alarm_deadline_ms), quiet=True)
        operations = {PAUSE: pause, RESUME: resume}
        node.operations |= operations
        node.quiet_operations |= set(operations)

    async def erase(self, turn: "Turn") -> None:
        """Nothing more: what waits in a queue or runs says that it is over when the handler of its timer ends it."""


async def pause(context: "Context", note: str = "") -> bool:
    """Let nobody go until it is resumed; those that run are let run. False: it was paused already."""
    from wakeful.queues.timers import admit

    if not isinstance(note, str) or len(note) > NOTE_CHARS_MAX:
        raise BadOption(f"note must be text of at most {NOTE_CHARS_MAX} characters", code="queue.option")
    book = await _there(context, PAUSE)
    if book.state.paused_at:
        return False
    book.state.paused_at, book.state.note = max(1, book.now), note
    await admit(book)
    return True


async def resume(context: "Context") -> bool:
    """Those that wait may go again. False: it was not paused."""
    from wakeful.queues.timers import admit

    book = await _there(context, RESUME)
    if not book.state.paused_at:
        return False
    book.state.paused_at, book.state.note, book.state.moved_at = 0, "", book.now
    await admit(book)
    return True


async def _there(context: "Context", what: str) -> "QueueBook":
    from wakeful.queues.records import STATE, QueueBook

    activation = runtime_of(context)
    turn = running_turn(activation, what)
    if await activation.rows.read(STATE) is None:
        raise unknown_queue(context.key)
    return await QueueBook.open(turn)


def unknown_queue(name: str) -> UnknownObject:
    return UnknownObject(f"there is no queue {name!r}: nothing has gone through it yet", code="queue.unknown")
