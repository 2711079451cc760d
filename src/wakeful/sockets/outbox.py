"""Layer 4. How do messages reach sockets that another process holds: in order, once, and not without bound?

For each gateway there is one line, and one batch under way. A batch has a number and is sent until the gateway said that
it has it, so one that was heard twice counts once. A line that grows too long is dropped, and its sockets are closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wakeful.policy.retry import platform_delay_ms
from wakeful.sockets.gateways import name_of
from wakeful.store.protocol import NodeRow
from wakeful.values.errors import ClusterError, DeadlineExceeded, LimitExceeded, Unavailable

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn
    from wakeful.values.ids import ObjectId


# What leaves a turn for its sockets, and when?
#
# Once the turn is on disk, in the order in which it was asked for, and not at all when it never is. What a rolled-back
# `storage.transaction()` asked for is taken back with it.

SEND, CLOSE, AUTO = "send", "close", "auto"


class Effect(Struct, frozen=True, array_like=True, gc=False):
    """Something for sockets of one object that one gateway holds."""

    kind: str
    cls: str
    key: str
    epoch: int  # of the owner's shard: what an earlier owner sent must not come behind what a later one did
    ids: list[str]  # of the sockets; for AUTO of none, because it is for all of the object's
    message: str | bytes | None = None
    code: int = 0
    reason: str = ""
    auto: tuple[str, str] | None = None
    number: int = 0  # of what AUTO sets: the largest counts, whichever comes last

    @property
    def size(self) -> int:
        """About as many bytes as it takes on its way."""
        return 64 + 24 * len(self.ids) + len(self.message or "")


class Outgoing(list[tuple[str, Effect]]):
    """What one turn sends, by gateway, until it is on disk."""

    def __init__(self, feature: Any, mark: object) -> None:
        super().__init__()
        self._feature = feature
        self.mark = mark  # the savepoint in which it began

    def __call__(self) -> None:
        self._feature.release(self)


def put(turn: "Turn", feature: Any, gateway: str, effect: Effect) -> None:
    """Have that leave with the turn."""
    mark = turn.saved[-1] if turn.saved else None
    last = turn.then[-1] if turn.then else None
    if not isinstance(last, Outgoing) or last.mark is not mark:
        last = Outgoing(feature, mark)
        turn.then = [*turn.then, last]
    last.append((gateway, effect))


def effect(kind: str, turn: "Turn", ids: list[str], **rest: Any) -> Effect:
    id: ObjectId = turn.activation.id
    return Effect(kind, id.cls, id.key, turn.activation.epoch, ids, **rest)


REQUEST = "sockets"
LINE_BYTES_MAX = 16 * 1_048_576  # on their way to one gateway, or as much as may wait for one socket if that is more
BATCH_BYTES = 1_048_576
ASK_MS = 5_000
UNSEEN_MS = (
    3_000  # a gateway that has just joined may be heard of by its first socket, before the next look at who is there
)


class Outbox:
    """What the objects of this process send to sockets that others hold."""

    def __init__(self, node: "Node", sender: Callable[[], str], row_of: Callable[[str], NodeRow | None]) -> None:
        self._node = node
        self._sender = sender
        self._row_of = row_of
        self._lines: dict[str, _Line] = {}
        self._number = 0
        self.dropped = 0

    def push(self, gateway: str, effect: Effect) -> None:
        """Send it behind what was sent before."""
        line = self._lines.get(gateway)
        if line is None:
            line = self._lines[gateway] = _Line()
            task = asyncio.get_running_loop().create_task(self._work(gateway, line), context=Context())
            self._node.keep(task)
        line.add(effect)
        most = max(LINE_BYTES_MAX, self._node.limits.socket_queue_bytes)
        if line.bytes > most and len(line.effects) > 1:
            self.dropped += len(line.effects)
            line.give_up(1013, "too much is waiting for the connection; connect again")

    async def _work(self, gateway: str, line: "_Line") -> None:
        try:
            while line.effects:
                batch = line.take(BATCH_BYTES)
                self._number += 1
                if not await self._deliver(gateway, self._number, batch, line):
                    self.dropped += len(batch) + len(line.effects)
                    return
        finally:
            if self._lines.get(gateway) is line:
                del self._lines[gateway]

    async def _deliver(self, gateway: str, number: int, batch: list[Effect], line: "_Line") -> bool:
        """Until the gateway has it; False when that is no more."""
        node, sender, tries = self._node, self._sender(), 0
        until = node.clock.now() + UNSEEN_MS
        while not node.is_dead:
            row = self._row_of(name_of(gateway))
            if row is None:
                if not node.is_clustered or node.clock.now() >= until:
                    return False
                for home in node.all_homes:
                    home.membership.look()
                await node.clock.sleep(UNSEEN_MS // 10)
                continue
            try:
                plain: list[Any] = [list(one) for one in map(_plain, batch)]
                await node.routes.ask(row, REQUEST, gateway, sender, number, plain, timeout_ms=ASK_MS)
                return True
            except LimitExceeded:
                line.close_first(batch, 1009, "a message is too large to be sent between nodes")
                return True
            except ClusterError:
                return False
            except (Unavailable, DeadlineExceeded):
                tries += 1
                await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
        return False


class _Line:
    """What waits for one gateway."""

    def __init__(self) -> None:
        self.effects: deque[Effect] = deque()
        self.bytes = 0

    def add(self, effect: Effect) -> None:
        self.effects.append(effect)
        self.bytes += effect.size

    def take(self, most: int) -> list[Effect]:
        taken = [self.effects.popleft()]
        size = taken[0].size
        while self.effects and size + self.effects[0].size <= most:
            taken.append(self.effects.popleft())
            size += taken[-1].size
        self.bytes -= size
        return taken

    def give_up(self, code: int, reason: str) -> None:
        """Drop all, and close the sockets that would miss it."""
        effects, self.effects, self.bytes = self.effects, deque(), 0
        self.close_first(effects, code, reason)

    def close_first(self, missed: Any, code: int, reason: str) -> None:
        by_object: dict[tuple[str, str], tuple[int, dict[str, None]]] = {}
        for one in missed:
            _, ids = by_object.setdefault((one.cls, one.key), (one.epoch, {}))
            ids.update(dict.fromkeys(one.ids))
        for (cls, key), (epoch, ids) in by_object.items():
            effect = Effect(CLOSE, cls, key, epoch, list(ids), code=code, reason=reason)
            self.effects.appendleft(effect)
            self.bytes += effect.size


def _plain(effect: Effect) -> tuple[Any, ...]:
    return tuple(getattr(effect, name) for name in effect.__struct_fields__)
