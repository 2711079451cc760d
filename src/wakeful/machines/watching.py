"""Layer 4. Who watches a machine, and what are they shown?

An awake machine that somebody watches keeps its last news in memory, numbered. A watcher asks its owner for what came
after the number it knows, and waits there a while when that is nothing. So nothing is missed while the machine stays
awake where it is; if it does not, the watcher goes on with a fresh snapshot.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.logic.retry import platform_delay_ms
from wakeful.machines.kept import Kept
from wakeful.machines.showing import shown, unstarted
from wakeful.machines.snapshot import Snapshot
from wakeful.machines.steps import present
from wakeful.runtime.turn import Turn, running_turn
from wakeful.values.errors import DeadlineExceeded, NotRunning, Unavailable
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.machines.feature import MachineFeature
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node

NEWS = "machine.news"
KEPT_MAX = 1_000  # of the steps of one machine; who is further behind gets a fresh snapshot
WAIT_MS = 20_000  # how long a watcher waits at the owner before it asks again
_LOG = "_wakeful_log"

Event = dict[str, Any]
News = Snapshot | Event


class Log:
    """The last steps of one awake machine: what it emitted in each, and how it stood then."""

    def __init__(self, token: int) -> None:
        self.token = token  # of this life of the object: numbers of another mean nothing here
        self.last = 0
        self.steps: deque[tuple[list[Event], Snapshot]] = deque(maxlen=KEPT_MAX)
        self.waiting: set[asyncio.Event] = set()

    def add(self, events: list[Event], snapshot: Snapshot) -> None:
        self.last += 1
        self.steps.append((events, snapshot))
        for waiter in self.waiting:
            waiter.set()

    def since(self, number: int) -> list[tuple[list[Event], Snapshot]] | None:
        """The steps after that one; None when not all of them are there any more."""
        count = self.last - number
        return None if count > len(self.steps) else list(self.steps)[len(self.steps) - count :]


class Watchers:
    """Those who watch machines of this node; told once what they see is on disk."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._waiting: dict[int, set[asyncio.Event]] = {}  # by shard
        node.farewells.append(self._send_away)

    def changed(self, turn: Turn, bound: "Bound", kept: Kept, events: list[Event]) -> None:
        """A step was taken in this turn."""
        log = getattr(turn.activation.instance, _LOG, None)
        if log is not None:
            turn.then = [*turn.then, partial(log.add, events, shown(bound, kept))]

    async def wait(self, shard: int, log: Log, until: int) -> bool:
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


async def news(ctx: "Context", since: tuple[int, int] | None, caller: Any, wait_ms: int) -> tuple[int, int, list[News]]:
    """What this caller may see of what happened since: the operation behind `watch`."""
    activation = ctx._activation
    turn, node, machine = running_turn(activation, NEWS), activation.node, activation.instance
    feature: MachineFeature = node.features["machines"]
    log = getattr(machine, _LOG, None)
    if log is None:
        log = Log(node.next_seq(activation.shard))
        setattr(machine, _LOG, log)
    until = node.clock.now() + wait_ms
    while since is not None and since[0] == log.token:
        steps = log.since(since[1])
        if steps is None:
            break
        number = log.last
        found = [one for events, snapshot in steps for one in _visible(machine, caller, events, snapshot)]
        if found or not await feature.watchers.wait(activation.shard, log, until):
            return (log.token, number, found)
        since = (log.token, number)
    number, bound = log.last, feature.bound(activation.id.cls)
    kept = await present(feature, turn, bound)
    snapshot = unstarted(bound) if kept is None else shown(bound, kept)
    return (log.token, number, _visible(machine, caller, [], snapshot))


def _visible(machine: Any, caller: Any, events: list[Event], snapshot: Snapshot) -> list[News]:
    """Of one step what the class lets this caller see: nothing at all when its snapshot is not for them."""
    seen = machine.visible(caller, snapshot)
    if seen is None:
        return []
    heard = [machine.audible(caller, event) for event in events]
    return [*(event for event in heard if event is not None), seen]


async def watch(app: Any, target: ObjectId, caller: Any) -> AsyncIterator[News]:
    """Snapshots and emitted events of a machine as they come, beginning with how it stands."""
    at: tuple[int, int] | None = None
    last: Snapshot | None = None
    tries = 0
    while True:
        try:
            token, number, found = await app.send(
                target, NEWS, (at, caller, WAIT_MS), {}, deadline_ms=WAIT_MS + 10_000, request_key=None
            )
        except (Unavailable, DeadlineExceeded) as error:
            node = app.node
            if node is None or (isinstance(error, NotRunning) and node.state in ("stopping", "stopped")):
                raise
            tries += 1
            await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
            continue
        tries = 0
        at = (token, number)
        for one in found:
            if isinstance(one, Snapshot):
                if one == last:
                    continue  # nothing changed, or a fresh one told of it already
                last = one
            yield one
