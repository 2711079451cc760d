"""Layer 4. How many methods run beside the loop at once, and who need not wait for a place?

Who waits in line while it holds up somebody with a place would wait for ever: what an object asks that has one, and what
stands before such a question in another object's mailbox, has a place at once. All others wait in the order of their coming.
"""

import asyncio
from collections import Counter

from wakeful.runtime.turn import Turn
from wakeful.values.ids import ObjectId


class Permits:
    """Places of one kind on a node; `holders` are the objects that have one, of whatever kind."""

    def __init__(self, limit: int, holders: Counter[ObjectId]) -> None:
        self.limit = limit
        self._free = limit
        self._holders = holders
        self._line: dict[asyncio.Future[bool], ObjectId] = {}

    async def take(self, turn: Turn) -> "Permit":
        """A place for code of that turn, once there is one."""
        is_counted = self._free > 0 and not self._line
        if is_counted:
            self._free -= 1
        elif not turn.activation.is_hurried and not any(self._holders[id] for id in turn.chain[:-1]):
            is_counted = await self._wait(turn.activation.id)
        self._holders[turn.activation.id] += 1
        return Permit(self, turn.activation.id, is_counted=is_counted)

    async def _wait(self, id: ObjectId) -> bool:
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._line[place] = id
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self._free += 1  # it came while its turn was told to end
            raise
        finally:
            del self._line[place]
            self._go_on()  # who came meanwhile stood behind it

    def hurry(self, id: ObjectId) -> None:
        """Somebody who may hold a place waits for a turn of that object: it waits no more."""
        for place, waiting in self._line.items():
            if waiting == id and not place.done():
                place.set_result(False)

    def give(self, id: ObjectId, *, is_counted: bool) -> None:
        self._holders[id] -= 1
        if not self._holders[id]:
            del self._holders[id]
        if is_counted:
            self._free += 1
            self._go_on()

    def _go_on(self) -> None:
        for place in self._line:
            if self._free and not place.done():
                self._free -= 1
                place.set_result(True)


class Permit:
    """A place that somebody has; given back once."""

    def __init__(self, permits: Permits, id: ObjectId, *, is_counted: bool) -> None:
        self._permits = permits
        self._id = id
        self._is_counted = is_counted
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._permits.give(self._id, is_counted=self._is_counted)
