"""Layer 4. How do points in time join the nodes of a program?"""

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from wakeful.history.images import bookmark, bookmark_at, check_bookmark, is_own
from wakeful.history.object_history import ObjectHistory
from wakeful.runtime.context import runtime_of
from wakeful.runtime.erasure import is_there
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import Turn, running_turn
from wakeful.store.protocol import Query, Range
from wakeful.values.commits import HISTORY
from wakeful.values.errors import BadOption, UnknownObject, WakefulError
from wakeful.values.ids import ObjectId, shard_of

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime

log = logging.getLogger("wakeful.objects")

FEATURE = "history"
RESTORE = "history.restore"
PRUNE = "history.prune"
SWEPT = 500  # objects of a class that one round looks at


class HistoryFeature(Feature):
    """Undo images for the objects of every class that declares `history`."""

    def equip(self, node: "Node") -> None:
        histories = node.features[FEATURE] = NodeHistories(node)
        node.operations |= {RESTORE: restore, PRUNE: prune}
        node.quiet_operations |= {RESTORE, PRUNE}  # an object that can't wake any more is one to bring back
        node.upkeep.chores.append(histories.sweep)

    async def erase(self, turn: Turn) -> None:
        """Nothing more: images are rows of the object."""


async def restore(context: "Context", mark: str, timers: bool) -> str:
    """For an operator: have the object be as it was; the bookmark of what it was until now."""
    activation = runtime_of(context)
    if not await is_there(activation.node, activation.id):
        raise UnknownObject(f"there is no {activation.id}; it may have been forgotten meanwhile")
    return await _restore(activation, running_turn(activation, "restore"), mark, timers=timers)


async def prune(context: "Context") -> bool:
    """Drop images that are past keeping, as many as one commit drops; whether there were any."""
    activation = runtime_of(context)
    history = activation.history
    return history is not None and await history.prune(running_turn(activation, "prune"))


async def _restore(activation: "ObjectRuntime", turn: Turn, mark: str, *, timers: bool) -> str:
    turn.check_writable()
    history = _of(activation)
    if timers and turn.consumed is not None and is_own(turn.consumed.name):
        raise BadOption(
            f"{activation.id}: this turn is the timer {turn.consumed.name!r}, which would be due again at once; "
            "restore(…, timers=False) leaves timers as they are",
            code="history.timers",
        )
    await history.check(check_bookmark(mark))
    before = await history.last()
    history.want(turn, mark, timers=timers)
    return before


def _of(activation: "ObjectRuntime") -> ObjectHistory:
    history = activation.history
    if not isinstance(history, ObjectHistory) or not history.is_on:
        raise BadOption(
            f'{activation.id}: its class keeps no history; write history = "30d" on it, and points begin then',
            code="history.off",
        )
    return history


class NodeHistories:
    """The histories of the objects of one node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._after: dict[str, tuple[object, ...]] = {}  # where the sweep of each class stands

    def of(self, activation: "ObjectRuntime") -> ObjectHistory:
        """That of an object which is about to be awake."""
        return ObjectHistory(activation, activation.known.history_ms)

    async def bookmark(self, activation: "ObjectRuntime", at: datetime | None) -> str:
        """`ctx.bookmark()`."""
        running_turn(activation, "ctx.bookmark()")
        history = _of(activation)
        if at is None:
            return await history.last()
        mark = bookmark_at(at)
        await history.check(mark)
        return min(mark, await history.last())  # not one that later commits of this millisecond would be before

    async def restore(self, activation: "ObjectRuntime", mark: str, *, timers: bool) -> str:
        """`ctx.restore()`."""
        turn = running_turn(activation, "ctx.restore()")
        if turn.saved:
            raise BadOption(f"{activation.id}: ctx.restore() inside a transaction(); call it after", code="turn.nested")
        if not activation.is_awake:
            raise BadOption(
                f"{activation.id}: ctx.restore() while the object wakes, which it would do again; call it in a method",
                code="history.waking",
            )
        return await _restore(activation, turn, mark, timers=timers)

    async def sweep(self) -> None:
        """Have objects drop what is past keeping, also those that sleep: some of each class at a time."""
        node = self._node
        now = node.clock.now()
        for name, known in node.registry.items():
            if not known.history_ms:
                continue
            found = await node.store.find_objects(Query(cls=name, limit=SWEPT, after=self._after.pop(name, None)))
            if len(found) == SWEPT:
                self._after[name] = (found[-1].id.cls, found[-1].id.key)
            old = Range(last=bookmark(max(0, now - known.history_ms), 0), limit=1)
            for info in found:
                if shard_of(info.id) in node.epochs and await node.store.scan(info.id, HISTORY, old):
                    await self._prune(info.id)

    async def _prune(self, id: ObjectId) -> None:
        """One that is busy, full or on its way elsewhere has its turn in the next round; that is nothing of the store's."""
        try:
            while await self._node.send(id, PRUNE, (), {}) and self._node.state == "up":
                pass
        except WakefulError as error:
            log.info("what is past keeping of %s stays for now: %s", id, error, extra={"code": "history.later"})
