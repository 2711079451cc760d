"""Layer 4. Who watches a machine, and what are they shown?

An awake machine that somebody watches keeps its last news in memory, numbered. A watcher asks its owner for what came
after the number it knows, and waits there a while when that is nothing. So nothing is missed while the machine stays
awake where it is; if it does not, the watcher goes on with a fresh snapshot.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.machines.machine_view import shown, unstarted
from wakeful.machines.records import ROW, MachineRecord
from wakeful.machines.snapshot import Snapshot
from wakeful.machines.steps import present
from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.turn import Turn, running_turn
from wakeful.values.codec import encode
from wakeful.values.errors import BadInput, DeadlineExceeded, NotRunning, Unavailable
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.machines.node_machines import NodeMachines
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node

NEWS, SEEN = "machine.news", "machine.seen"
KEPT_MAX = 1_000  # of the steps of one machine; who is further behind gets a fresh snapshot
KEPT_BYTES_MAX = 4 * 1_048_576  # and of their bytes, which would else be gigabytes: two of the largest snapshots
WAIT_MS = 20_000  # how long a watcher waits at the owner before it asks again
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
        found: list[MachineStep] = []
        for step in reversed(self.steps):
            if step.last <= number:
                break
            found.append(step)
        first = found[-1].before if found else self.last
        return None if number < first else found[::-1]


class Watchers:
    """Those who watch machines of this node; told once what they see is on disk."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._waiting: dict[int, set[asyncio.Event]] = {}  # by shard
        node.farewells.append(self._send_away)

    def changed(self, turn: Turn, bound: "Bound", kept: MachineRecord, events: list[Event]) -> None:
        """A step was taken in this turn."""
        log: StepLog | None = turn.activation.watched
        if log is None:
            return
        if not log.waiting and self._node.clock.now() - log.asked_at > GONE_MS:
            turn.activation.watched = None
            return
        row = turn.writes.get(ROW)  # just encoded, unless the machine ends: that says how large it is
        size = (len(row) if row else _size_of(kept.snapshot)) + (_size_of(events) if events else 0)
        turn.then = [*turn.then, partial(log.add, events, shown(bound, kept), size)]

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


async def news(ctx: "Context", since: tuple[int, int] | None, caller: Any, wait_ms: int) -> tuple[int, int, list[News]]:
    """What this caller may see of what happened since: the operation behind `watch`."""
    activation = ctx._activation
    turn, node, machine = running_turn(activation, NEWS), activation.node, activation.instance
    feature: NodeMachines = node.features["machines"]
    log: StepLog | None = activation.watched
    if log is None:
        log = activation.watched = StepLog(node.next_seq(activation.shard))
    log.asked_at = node.clock.now()
    until = log.asked_at + wait_ms
    while since is not None and since[0] == log.token:
        steps = log.since(since[1])
        if steps is None:
            break
        number, found = _fitting(machine, caller, steps, since[1], node.limits.arguments_bytes // 2)
        if found or not await feature.watchers.wait(activation.shard, log, until):
            return (log.token, number, found)
        since = (log.token, number)
    number, bound = log.last, feature.bound(activation.id.cls)
    kept = await present(feature, turn, bound)
    snapshot = unstarted(bound) if kept is None else shown(bound, kept)
    seen = machine.visible(caller, snapshot)
    return (log.token, number, [] if seen is None else [seen])


def _fitting(machine: Any, caller: Any, steps: list[MachineStep], number: int, room: int) -> tuple[int, list[News]]:
    """As much of the news after that number as fits in so many bytes, one piece at least; the number that it ends with."""
    is_sure = len(steps) == 1 and steps[0].size <= room  # one that is alone needs no encoding to be judged
    found: list[News] = []
    size = 0
    for at, one in _visible(machine, caller, steps, number):
        size += 0 if is_sure else len(encode(one))
        if found and size > room:
            return number, found
        found.append(one)
        number = at
    return (steps[-1].last if steps else number), found


def _visible(machine: Any, caller: Any, steps: list[MachineStep], number: int) -> Iterator[tuple[int, News]]:
    """What the class lets this caller see, each with its number: of a step whose snapshot is not for them nothing at all."""
    for step in steps:
        seen = machine.visible(caller, step.snapshot)
        if seen is None:
            continue
        for at, event in enumerate(step.events, step.before + 1):
            heard = machine.audible(caller, event) if at > number else None
            if heard is not None:
                yield at, heard
        yield step.last, seen


def _size_of(value: Any) -> int:
    try:
        return len(encode(value))
    except BadInput:
        return 0  # who watches is told what is wrong with an event; the step goes on


class MachineWatch:
    """One watcher of a machine: what it has been shown, and what comes next."""

    def __init__(self, app: Any, target: ObjectId, caller: Any) -> None:
        self._app = app
        self._target = target
        self._caller = caller
        self._at: tuple[int, int] | None = None
        self._last: Snapshot | None = None
        self._tries = 0

    async def look(self) -> list[News]:
        """At first how it stands; then what is new, or nothing when that is nothing for a while."""
        token, number, found = await self._app.send(
            self._target, NEWS, (self._at, self._caller, WAIT_MS), {}, deadline_ms=WAIT_MS + 10_000, request_key=None
        )
        self._tries = 0
        self._at = (token, number)
        fresh: list[News] = []
        for one in found:
            if isinstance(one, Snapshot):
                if one == self._last:
                    continue  # nothing changed, or a fresh one told of it already
                self._last = one
            fresh.append(one)
        return fresh

    async def wait(self) -> list[News]:
        """The same, also while the machine can't be reached: nothing then, and it is asked again later."""
        try:
            return await self.look()
        except (Unavailable, DeadlineExceeded) as error:
            node = self._app.node
            if node is None or (isinstance(error, NotRunning) and node.state in ("stopping", "stopped")):
                raise
            self._tries += 1
            await node.clock.sleep(platform_delay_ms(self._tries, node.dice.random()))
            return []


async def watch(app: Any, target: ObjectId, caller: Any) -> AsyncIterator[News]:
    """Snapshots and emitted events of a machine as they come, beginning with how it stands."""
    watching = MachineWatch(app, target, caller)
    while True:
        for one in await watching.wait():
            yield one


async def seen(ctx: "Context", snapshot: Snapshot, caller: Any) -> Snapshot | None:
    """What this caller may see of a snapshot that a call has answered: the operation behind calls from outside."""
    running_turn(ctx._activation, SEEN)
    found: Snapshot | None = ctx._activation.instance.visible(caller, snapshot)
    return found
