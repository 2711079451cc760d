"""Layer 3. Timers that reached the disk without a turn of their own object: who must hear of them?

This node, when it owns their shard: they go straight into its near future. Else the owner, by a hint, which says
where to look and is never believed itself. A hint that is lost costs time, not timers: there is a scan.

A store that can't bring a hint to anybody holds it for whoever reads: so that nobody waits for its next look, the nodes
that it concerns are asked over their links to look now.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol

from wakeful.runtime.env import Env, NodeRequest
from wakeful.runtime.events import Events
from wakeful.runtime.queue import TimerQueue
from wakeful.store.protocol import Hint, NodeRow
from wakeful.values.errors import Unavailable
from wakeful.values.ids import shard_of
from wakeful.values.timers import Timer

FAR_MS = 600_000  # memory never reaches this far past its horizon, however long an insert takes
HINTS_MAX = 100  # told one by one; more are told as one range of time per shard
LOOK = "look"  # what nodes ask each other where what was told must be read
LOOK_MS = 4_000  # by then the other has looked by itself


class ShardHistory(Protocol):
    """Whose the shards are and were (see ownership.py)."""

    takes: int  # how often some came

    def was_ours_before_this_group(self, shard: int) -> bool: ...


class DiskReader(Protocol):
    """Hands out due timers, and can be told where to look for them on disk (see dispatcher.py)."""

    def poke(self) -> None: ...

    def look_at(self, shards: Collection[int], first_at: int, last_at: int) -> None: ...


class Neighbours(Protocol):
    """The other nodes, as far as they concern whoever has news for them."""

    def owner_of(self, shard: int) -> NodeRow | None: ...

    def reachable(self) -> list[NodeRow]: ...


class Ways(Protocol):
    """How other nodes are reached (see routes.py)."""

    @property
    def ask(self) -> NodeRequest: ...

    def is_linked(self, name: str) -> bool: ...


class Tidings:
    """Tells other nodes that timers were added or that shards changed hands: through the store, and over links where it must be read.

    Best effort: to each node one request is under way, and what comes meanwhile is one more behind it. No node dials
    another for it (each asks the others now and then, which keeps links up), but a client, which asks nobody.
    """

    def __init__(self, env: Env, company: Neighbours, ways: Ways, keep: Callable[[asyncio.Task[None]], None]) -> None:
        self._env = env
        self._company = company
        self._ways = ways
        self._keep = keep
        self._asking: dict[str, bool] = {}  # nodes that are asked to look, and whether once more

    async def tell(self, hints: Sequence[Hint]) -> None:
        """As the store's `tell`."""
        await self._env.store.tell(hints)
        if not self._env.store.needs_looks:
            return
        others = {row.node: row for row in self._company.reachable()}
        if hints:
            owners = (self._company.owner_of(shard) for shard in {hint.shard: None for hint in hints})
            others = {row.node: row for row in owners if row is not None and row.node in others}
        for name, row in others.items():
            if not (self._env.is_client or self._ways.is_linked(name)):
                continue
            if name in self._asking:
                self._asking[name] = True
            else:
                self._asking[name] = False
                self._keep(asyncio.get_running_loop().create_task(self._ask_to_look(row)))

    async def _ask_to_look(self, row: NodeRow) -> None:
        try:
            is_asked_again = True
            while is_asked_again:
                self._asking[row.node] = False
                with suppress(Exception):  # whatever failed there: it looks by itself before long
                    await self._ways.ask(row, LOOK, self._env.store.identity, timeout_ms=LOOK_MS)
                is_asked_again = self._asking[row.node]
        finally:
            del self._asking[row.node]


class Arrivals:
    """Brings added timers into memory here, and hints of them to others."""

    def __init__(
        self,
        env: Env,
        queue: TimerQueue,
        events: Events,
        ownership: ShardHistory,
        dispatcher: DiskReader,
        tidings: Tidings,
    ) -> None:
        self._env = env
        self._reach_ms = env.limits.near_horizon_ms + FAR_MS
        self._queue = queue
        self._events = events
        self._ownership = ownership
        self._dispatcher = dispatcher
        self._tidings = tidings
        self._hints: list[Hint] = []
        self._telling: asyncio.Task[None] | None = None
        self.told = 0
        self.heard = 0

    def expect(self, timers: Sequence[Timer]) -> int:
        """They are about to be added: a page that sees them before we hear of it leaves them to us. A mark for `added`."""
        if near := self._near(timers):
            self._queue.expected.update((timer.id, timer.name) for timer in near)
        return self._ownership.takes

    def on_added(self, timers: Sequence[Timer], mark: int) -> None:
        """They are on disk."""
        if self._events.is_heard:
            self._events.timers(timers)
        timers = self._near(timers)
        if not timers:  # then none was when they were expected
            return
        expected = self._queue.expected
        # A turn may have seen one on disk before we heard of it, and cleared or changed it; and when a shard came
        # meanwhile, its owner before us may have run one already: then the disk is asked.
        is_same = mark == self._ownership.takes
        sure = [timer for timer in timers if is_same and (timer.id, timer.name) in expected]
        self._no_longer_expected(timers)
        if sure:
            self._place(sure)
        if len(sure) < len(timers):
            known = {id(timer) for timer in sure}
            self._tell([timer for timer in timers if id(timer) not in known and not self._look(timer)])

    def unsure(self, timers: Sequence[Timer]) -> None:
        """Nothing was added, or nobody knows."""
        timers = self._near(timers)
        self._no_longer_expected(timers)
        for timer in timers:
            self._look(timer)

    def on_sent(self, timers: Sequence[Timer]) -> None:
        """They came with a commit that just reached the disk."""
        ours = self._ownership.was_ours_before_this_group
        mine = [timer for timer in timers if ours(shard_of(timer.id))]
        for timer in mine:
            self._queue.set(timer)
        if len(mine) < len(timers):
            known = {id(timer) for timer in mine}
            self._tell([timer for timer in timers if id(timer) not in known and not self._look(timer)])

    def hear(self, hints: Sequence[Hint]) -> None:
        """Another process added timers."""
        self.heard += len(hints)
        for hint in hints:
            if hint.shard in self._env.epochs:
                self._dispatcher.look_at([hint.shard], hint.first_at, hint.last_at)

    def _near(self, timers: Sequence[Timer]) -> list[Timer]:
        """Those that memory may hold before the next page is read: a hundred thousand for next year are nobody's concern."""
        until = self._env.clock.now() + self._reach_ms
        return [timer for timer in timers if timer.due_at <= until]

    def _place(self, timers: Sequence[Timer]) -> None:
        others = []
        for timer in timers:
            if shard_of(timer.id) in self._env.epochs:
                self._queue.set(timer)
            else:
                others.append(timer)
        if len(others) < len(timers):
            self._dispatcher.poke()
        self._tell(others)

    def _look(self, timer: Timer) -> bool:
        """Have the disk asked, when the shard is ours."""
        shard = shard_of(timer.id)
        if shard not in self._env.epochs:
            return False
        self._dispatcher.look_at([shard], timer.due_at, timer.due_at)
        return True

    def _no_longer_expected(self, timers: Sequence[Timer]) -> None:
        self._queue.expected.difference_update((timer.id, timer.name) for timer in timers)

    def _tell(self, timers: Sequence[Timer]) -> None:
        env = self._env
        if not timers or not env.is_clustered or not env.store.tells:
            return
        soon = env.clock.now() + env.limits.near_horizon_ms  # what is further away is read when its time comes
        self._hints += [Hint(shard_of(t.id), t.due_at, t.due_at) for t in timers if t.due_at <= soon]
        if self._hints and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._hints:
                hints, self._hints = self._hints, []
                self.told += len(hints)
                await self._tidings.tell(_merge(hints))
        except Unavailable:
            self._hints = []  # the owner's scan finds them
        finally:
            self._telling = None


def _merge(hints: Sequence[Hint]) -> list[Hint]:
    """No two the same; when there are many, one range per shard."""
    some = list(dict.fromkeys(hints))
    if len(some) <= HINTS_MAX:
        return some
    ranges: dict[int, Hint] = {}
    for hint in some:
        known = ranges.get(hint.shard, hint)
        ranges[hint.shard] = Hint(hint.shard, min(known.first_at, hint.first_at), max(known.last_at, hint.last_at))
    return list(ranges.values())
