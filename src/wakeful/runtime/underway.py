"""Layer 3. What is under way at this node: which calls and due timers, since when, for whom, waiting for what? And stopping one.

Nothing is counted for it while they run: every call that has not ended stands in the line of deadlines, every timer that was
handed out in the queue, and what a turn waits for is looked up when somebody asks.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.runtime.activation import Activation
from wakeful.runtime.calls import FOREVER_MS, Call
from wakeful.runtime.env import Env
from wakeful.runtime.rows import Loader, ObjectRows
from wakeful.values.errors import Conflict
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

LOOKED_MAX = 10_000  # calls, and timers, that one look goes through: some tens of milliseconds
NAME_BITS = 48
FEATURE = "calls"
REQUEST = "calls"  # what nodes ask each other

Row = dict[str, Any]  # plain values: it may be on its way to another node
Wait = dict[str, Any]  # what for, and of a call or a turn, whose

_COMMIT = frozenset({Activation.durable.__code__})
_READ = frozenset(
    read.__code__
    for read in (Loader.load, ObjectRows.read, ObjectRows.fetch, ObjectRows.scan, ObjectRows.gather, Env.reading)
)


class CallFilter(NamedTuple):
    """Of which objects; None does not filter."""

    cls: str | None = None
    key: str | None = None
    prefix: str | None = None

    def has(self, id: ObjectId) -> bool:
        return self.cls in (None, id.cls) and self.key in (None, id.key) and id.key.startswith(self.prefix or "")


class Lingering(NamedTuple):
    """Code of a turn that is over, which could not be stopped: its object's next turn waits for it."""

    id: ObjectId
    item: Call | Timer  # whose turn it was
    since: int  # in ticks

    @property
    def method(self) -> str:
        return self.item.name if isinstance(self.item, Timer) else self.item.method


UnderWay = Call | Timer | Lingering


class NodeCalls:
    """What one node is doing, for whoever looks; names are given to calls that were shown, so that they can be stopped."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._named: dict[str, Call] = {}

    def rows(self, limit: int, cls: str | None = None, key: str | None = None, prefix: str | None = None) -> list[Row]:
        """So many of them, those that have been at it for longest first."""
        look = _Look(self._node)
        longest = nlargest(limit, look.under_way(CallFilter(cls, key, prefix)), key=look.for_ms)
        rows = [(one, look.row(one)) for one in longest]
        names = self._names([one for one, row in rows if isinstance(one, Call) and row["wait"]["for"] != "owner"])
        return [{**row, "name": names.get(id(one))} for one, row in rows]

    def cancel(self, target: ObjectId, name: str) -> str:
        """Stop that call of the object, as its deadline would; its method. `Conflict` when it has none such, or it had ended."""
        call = self._named.get(name)
        if call is None or call.chain[-1] != target or not self._is_under_way(call):
            raise Conflict(f"the call had ended; nothing was done{self._rest_of(target)}", code="call.ended")
        if call.is_finished:
            words = "its turn had ended, and what it wrote is on its way to disk; nothing was done"
            raise Conflict(f"{call.chain[-1]}.{call.method}: {words}", code="call.ended")
        call.cancel()
        return call.method

    def _rest_of(self, target: ObjectId) -> str:
        """What still runs of turns of the object that are over, in words."""
        if all(activation.id != target for activation in self._node.outlasted):
            return ""
        return "; code of a turn that is over still runs, and can't be stopped: it ends by itself, or with its process"

    def _is_under_way(self, call: Call) -> bool:
        node = self._node
        return not call.is_expired and (call in node.deadlines or call in node.timer_runs.deadlines)

    def _names(self, calls: Sequence[Call]) -> dict[int, str]:
        """A name for each, by identity: the one that it has, or a new one; those that have ended are let go."""
        self._named = {name: call for name, call in self._named.items() if self._is_under_way(call)}
        names = {id(call): name for name, call in self._named.items()}
        for call in calls:
            if id(call) not in names:
                name = f"{int(self._node.dice.random() * (1 << NAME_BITS)):012x}"
                names[id(call)] = name
                self._named[name] = call
        return names


def calls_of(node: "Node") -> NodeCalls:
    """That node's."""
    found: NodeCalls = node.features[FEATURE]
    return found


class _Look:
    """One look at all of it."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self._now, self._ticks = node.clock.now(), node.meter.ticks()
        asked = list(islice(node.deadlines.each(), LOOKED_MAX))
        self._firing = set(islice(node.timer_runs.deadlines.each(), LOOKED_MAX))
        self.calls = [*asked, *self._firing]
        self._in_turn = {call.chain[-1]: call for call in self.calls if call.task is not None and self._is_turn(call)}
        # Who waits for a call shows by its chain, unless two that run have the same.
        self._children: dict[tuple[ObjectId, ...], list[Call]] = {}
        for call in asked:
            if len(call.chain) > 1:
                self._children.setdefault(call.chain[:-1], []).append(call)
        self._places: dict[ObjectId, dict[int, int]] = {}
        self._lingering = {one.id: Lingering(one.id, *whose) for one, whose in node.outlasted.items()}
        self._alike = Counter(call.chain for call in self.calls if call.task is not None)

    def _is_turn(self, call: Call) -> bool:
        """Not a reader, which runs beside the turns."""
        return call.answer is not None or call in self._firing

    def under_way(self, wanted: CallFilter) -> Iterator[UnderWay]:
        """Those of the wanted objects that this node has, and that have not ended."""
        yield from (one for one in self._lingering.values() if wanted.has(one.id))
        yield from (call for call in self.calls if wanted.has(call.chain[-1]) and self._is_here(call))
        yield from (timer for timer in self._timers() if wanted.has(timer.id) and self._is_waiting(timer))

    def _is_here(self, call: Call) -> bool:
        if call.task is None and call.answer is not None and call.answer.done():
            return False
        node = self.node
        if not node.is_clustered:
            return True
        shard = shard_of(call.chain[-1])
        return shard in node.epochs or node.membership.owner_of(shard) is None

    def for_ms(self, one: UnderWay) -> int:
        """For how long it has been at it."""
        if isinstance(one, Timer):
            return max(0, self._now - one.due_at)
        if isinstance(one, Lingering):
            return (self._ticks - one.since) // 1_000_000
        if one in self._firing:
            handler = self.node.timer_runs.handler_of(one.method)
            return 0 if handler is None else max(0, self._now - one.deadline_at + handler.deadline_ms)
        began = getattr(one, "began", None)  # None: it has not come to its object yet
        return 0 if began is None else max(0, (self._ticks - began) // 1_000_000)

    def row(self, one: UnderWay) -> Row:
        """How it stands."""
        if isinstance(one, Lingering):
            return self._lingering_row(one)
        return self._timer_row(one) if isinstance(one, Timer) else self._call_row(one)

    def _lingering_row(self, one: Lingering) -> Row:
        return {
            "class": one.id.cls,
            "key": one.id.key,
            "method": one.method,
            "kind": "timer" if isinstance(one.item, Timer) else "call",
            "state": "lingering",
            "for_ms": self.for_ms(one),
            "left_ms": None,
            "chain": [],
            "is_awaited": False,
            "wait": {"for": "lingering"},
        }

    def _call_row(self, call: Call) -> Row:
        target, is_timer = call.chain[-1], call in self._firing
        state, wait = self._stand(call, target)
        return {
            "class": target.cls,
            "key": target.key,
            "method": call.method,
            "kind": "timer" if is_timer else "call" if self._is_turn(call) or call.task is None else "reader",
            "state": state,
            "for_ms": self.for_ms(call),
            "left_ms": left_ms if (left_ms := call.deadline_at - self._now) < FOREVER_MS // 2 else None,
            "chain": [list(id) for id in call.chain[:-1]],
            "is_awaited": is_timer or call.answer is None or not call.answer.done(),
            "wait": wait,
        }

    def _stand(self, call: Call, target: ObjectId) -> tuple[str, Wait]:
        activation = self.node.awake.get(target)
        if call.is_finished:
            return "committing", {"for": "commit"}
        if call.task is None:
            return "waiting", {"for": "owner"} if activation is None else self._queue(activation, call)
        if self._is_turn(call) and activation is not None and _waits_for_slot(activation):
            return "waiting", {"for": "slot"}
        return "running", self._wait(call)

    def _queue(self, activation: Activation, item: Call | Timer) -> Wait:
        """Behind whom, and how many are before it."""
        behind = self._in_turn.get(activation.id) or self._lingering.get(activation.id)
        ahead = self._places_in(activation).get(id(item), 0)
        return {"for": "turn", "method": None if behind is None else behind.method, "ahead": ahead}

    def _places_in(self, activation: Activation) -> dict[int, int]:
        """Where each stands in the mailbox, by identity: gone through once, however many of them are asked about."""
        places = self._places.get(activation.id)
        if places is None:
            places = self._places[activation.id] = {id(one): at for at, one in enumerate(activation._mailbox or ())}
        return places

    def _wait(self, call: Call) -> Wait:
        """What one that runs waits for."""
        assert call.task is not None
        children = self._children.get(call.chain, []) if self._alike[call.chain] == 1 else []
        if children:
            return _for_call(children[0].chain[-1], children[0].method, len(children))
        awaited = list(_coroutines(call.task))
        codes = {one.cr_code for one in awaited}
        if codes & _COMMIT:
            return {"for": "commit"}
        if codes & _READ:
            return {"for": "read"}
        sent = [one for one in awaited if one.cr_code is type(self.node).send.__code__] if self._is_turn(call) else []
        if sent and sent[-1].cr_frame is not None:
            told = sent[-1].cr_frame.f_locals
            return _for_call(told["target"], told["method"], 1)
        return {"for": "code"}

    def _timers(self) -> Iterator[Timer]:
        """Those that were handed out and do not run yet."""
        firing = {(call.chain[-1], call.method) for call in self._firing}
        found = (timer for name, timer in self.node.queue.running.items() if name not in firing)
        return islice(found, LOOKED_MAX)

    def _is_waiting(self, timer: Timer) -> bool:
        """For its turn, or for a slot; else it waits in line after a crash, or goes on its way."""
        activation = self.node.awake.get(timer.id)
        if activation is None or not activation.is_busy:
            return False
        has_no_slot = timer.id not in self._in_turn and _waits_for_slot(activation)
        return has_no_slot or id(timer) in self._places_in(activation)

    def _timer_row(self, timer: Timer) -> Row:
        activation = self.node.awake[timer.id]
        is_in_line = id(timer) in self._places_in(activation)
        return {
            "class": timer.id.cls,
            "key": timer.id.key,
            "method": timer.name,
            "kind": "timer",
            "state": "waiting",
            "for_ms": self.for_ms(timer),
            "left_ms": None,
            "chain": [],
            "is_awaited": True,
            "wait": self._queue(activation, timer) if is_in_line else {"for": "slot"},
        }


def _for_call(target: ObjectId, method: str, count: int) -> Wait:
    return {"for": "call", "class": target.cls, "key": target.key, "method": method, "count": count}


def _waits_for_slot(activation: Activation) -> bool:
    slot = activation._slot
    return slot is not None and not slot.done()


def _coroutines(task: "asyncio.Task[Any]") -> Iterator[Any]:
    """The coroutines that it is in, from the outermost to the innermost."""
    one: Any = task.get_coro()
    while isinstance(getattr(one, "cr_code", None), CodeType):
        yield one
        one = one.cr_await
