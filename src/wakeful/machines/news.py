"""Layer 4. What is somebody shown who watches a machine?

A watcher asks the machine's owner for what came after the number it knows, and waits there a while when that is nothing. So
nothing is missed while the machine stays awake where it is; if it does not, the watcher goes on with a fresh snapshot.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wakeful.machines.node_machines import feature_of
from wakeful.machines.snapshot import Snapshot, snapshot_of, unstarted_snapshot
from wakeful.machines.steps import present
from wakeful.machines.watch import Watch
from wakeful.machines.watchers import MachineStep, News, StepLog
from wakeful.runtime.context import runtime_of
from wakeful.runtime.long_poll import WAIT_MS, LongPoll
from wakeful.runtime.turn import running_turn
from wakeful.values.codec import encode
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

NEWS, SEEN = "machine.news", "machine.seen"


async def news(ctx: "Context", since: tuple[int, int] | None, caller: Any, wait_ms: int) -> tuple[int, int, list[News]]:
    """What this caller may see of what happened since: the operation behind `watch`."""
    activation = runtime_of(ctx)
    turn, node, machine = running_turn(activation, NEWS), activation.node, activation.instance
    feature = feature_of(node)
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
    number, bound = log.last, feature.bound_of(activation.id.cls)
    kept = await present(feature, turn, bound)
    snapshot = unstarted_snapshot(bound) if kept is None else snapshot_of(bound, kept)
    seen = machine.visible(caller, snapshot)
    return (log.token, number, [] if seen is None else [seen])


def _fitting(machine: Any, caller: Any, steps: list[MachineStep], number: int, room: int) -> tuple[int, list[News]]:
    """As much of the news after that number as fits in so many bytes, one piece at least; the number that it ends with."""
    is_sure = len(steps) == 1 and steps[0].size <= room  # one that is alone needs no encoding to be judged
    pieces: list[News] = []
    size = 0
    for at, piece in _visible(machine, caller, steps, number):
        size += 0 if is_sure else len(encode(piece))
        if pieces and size > room:
            return number, pieces
        pieces.append(piece)
        number = at
    return (steps[-1].last if steps else number), pieces


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


class MachineWatch(LongPoll[News]):
    """One watcher of a machine: what it has been shown, and what comes next."""

    def __init__(self, app: Any, target: ObjectId, caller: Any) -> None:
        super().__init__(app, target)
        self._caller = caller
        self._at: tuple[int, int] | None = None
        self._last: Snapshot | None = None

    async def look(self) -> list[News]:
        """At first how it stands; then what is new, or nothing when that is nothing for a while."""
        token, number, pieces = await self._ask(NEWS, self._at, self._caller, WAIT_MS)
        self._at = (token, number)
        fresh: list[News] = []
        for piece in pieces:
            if isinstance(piece, Snapshot):
                if piece == self._last:
                    continue  # nothing changed, or a fresh one told of it already
                self._last = piece
            fresh.append(piece)
        return fresh


def watch_of(app: Any, target: ObjectId, caller: Any) -> Watch:
    """A watch from inside of the program; what it sends is answered as this caller may see it."""

    async def news() -> AsyncGenerator[News]:
        watching = MachineWatch(app, target, caller)
        while True:
            for one in await watching.wait():
                yield one

    async def deliver(event: str | Mapping[str, Any], data: dict[str, Any]) -> Snapshot | None:
        options: dict[str, Any] = {"deadline_ms": None, "request_key": None}
        answer = await app.send(target, "send", (event,), data, **options)
        found: Snapshot | None = await app.send(target, SEEN, (answer, caller), {}, **options)
        return found

    return Watch(str(target), news, deliver)


async def show(ctx: "Context", snapshot: Snapshot, caller: Any) -> Snapshot | None:
    """What this caller may see of a snapshot that a call has answered: the operation behind calls from outside."""
    running_turn(runtime_of(ctx), SEEN)
    found: Snapshot | None = runtime_of(ctx).instance.visible(caller, snapshot)
    return found
