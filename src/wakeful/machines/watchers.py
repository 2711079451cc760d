"""Layer 4. Who watches the machines of a node, and what has happened since they asked last?

An awake machine that somebody watches keeps its last news in memory, numbered; `news` has how it is asked for.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.machines.records import ROW, MachineRecord
from wakeful.machines.snapshot import Snapshot, snapshot_of
from wakeful.runtime.turn import Turn
from wakeful.values.codec import encode
from wakeful.values.errors import BadInput

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.object_runtime import NodeRuntime

KEPT_MAX = 1_000  # of the steps of one machine; who is further behind gets a fresh snapshot
KEPT_BYTES_MAX = 4 * 1_048_576  # and of their bytes, which would else be gigabytes: two of the largest snapshots
GONE_MS = 600_000  # nobody who has not asked for so long is waited for: ten minutes to look at a piece of news

Event = dict[str, Any]
News = Snapshot | Event


class MachineStep(NamedTuple):
    """What a machine emitted in one step, and how it stood then: each is a piece of news with a number."""

    before: int  # the number of the last piece before it
    events: list[Event]
    snapshot: Snapshot
    size: int  # about so many bytes

    @property
    def last(self) -> int:
        return self.before + len(self.events) + 1


class StepLog:
    """The last steps of one awake machine."""

    def __init__(self, token: int) -> None:
        self.token = token  # of this life of the object: numbers of another mean nothing here
        self.last = 0
        self.steps: deque[MachineStep] = deque()
        self.waiting: set[asyncio.Event] = set()
        self.asked_at = 0
        self._size = 0

    def add(self, events: list[Event], snapshot: Snapshot, size: int = 0) -> None:
        step = MachineStep(self.last, events, snapshot, size)
        self.last = step.last
        self.steps.append(step)
        self._size += size
        while len(self.steps) > KEPT_MAX or (self._size > KEPT_BYTES_MAX and len(self.steps) > 1):
            self._size -= self.steps.popleft().size
        for waiter in self.waiting:
            waiter.set()

    def since(self, number: int) -> list[MachineStep] | None:
        """The steps after that piece, of the first perhaps only a part; None when not all of them are there any more."""
        steps: list[MachineStep] = []
        for step in reversed(self.steps):
            if step.last <= number:
                break
            steps.append(step)
        first = steps[-1].before if steps else self.last
        return None if number < first else steps[::-1]


class Watchers:
    """Those who watch machines of this node; told once what they see is on disk."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._waiting: dict[int, set[asyncio.Event]] = {}  # by shard
        node.farewells.append(self._send_away)

    def note_step(self, turn: Turn, bound: "Bound", kept: MachineRecord, events: list[Event]) -> None:
        """A step was taken in this turn."""
        log: StepLog | None = turn.activation.watched
        if log is None:
            return
        if not log.waiting and self._node.clock.now() - log.asked_at > GONE_MS:
            turn.activation.watched = None
            return
        row = turn.writes.get(ROW)  # just encoded, unless the machine ends: that says how large it is
        size = (len(row) if row else _size_of(kept.snapshot)) + (_size_of(events) if events else 0)
        turn.then = [*turn.then, partial(log.add, events, snapshot_of(bound, kept), size)]

    async def wait(self, shard: int, log: StepLog, until: int) -> bool:
        """Until there is news or it is time; False: the shard is about to go, so nobody may wait."""
        waiter = asyncio.Event()
        here = self._waiting.setdefault(shard, set())
        clock = self._node.clock
        handle = clock.call_at(until, waiter.set)
        log.waiting.add(waiter)
        here.add(waiter)
        try:
            await waiter.wait()
        finally:
            handle.cancel()
            log.waiting.discard(waiter)
            is_welcome = waiter in here
            here.discard(waiter)
            if not here and self._waiting.get(shard) is here:
                del self._waiting[shard]
        return is_welcome and clock.now() < until

    def _send_away(self, shards: Collection[int]) -> None:
        for shard in [shard for shard in self._waiting if shard in shards]:
            here = self._waiting[shard]
            for waiter in here:
                waiter.set()
            here.clear()  # how they see that they are not welcome


def _size_of(value: Any) -> int:
    try:
        return len(encode(value))
    except BadInput:
        return 0  # who watches is told what is wrong with an event; the step goes on
