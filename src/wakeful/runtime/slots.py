"""Layer 3. How many turns run at once, and whose is next when there are more?

Bounds for the node, for each class and for each tenant. While slots are scarce the next one goes to
the tenant that has the fewest turns running, of equal ones to the one that waited longest; within a
tenant to whoever came first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from wakeful.policy.limits import Limits, turns_allowed
from wakeful.values.ids import ObjectId, tenant_of
from wakeful.values.times import Clock, Wakeup

Slot = asyncio.Future[None]
STEPS = 64  # in which a slow start goes up


class Slots:
    """A bound on concurrent turns. Calls made by a turn pass freely: waiting for a slot, they would hold the one that must end first."""

    def __init__(self, limits: Limits) -> None:
        self.bound = limits.concurrent_turns
        self.free: set[str] = (
            set()
        )  # classes of which no turn waits: who wants to end those that hang is not behind them
        self.taken = 0
        self.waiting = 0
        self._of_tenant = limits.tenant_turns
        self._of_class = limits.class_turns
        self._of_classes = dict(limits.turns_of)
        # Only who has such bounds pays for them.
        self._is_narrow = self._of_tenant is not None or self._of_class is not None or bool(self._of_classes)
        self._tenants: dict[str, int] = {}  # turns that run, for each tenant that has any
        self._classes: dict[str, int] = {}  # the same for classes that have a bound
        self._ticks: dict[str, int] = {}  # when a waiting tenant was served last, or began to wait
        self._tick = 0
        self._gone = 0  # of those in line, how many gave up or were hurried
        self._crowds: dict[str | None, _Crowd] = {}  # who waits, by bounded class; None: all other classes

    def take(self, id: ObjectId, *, nested: bool) -> Slot | None:
        """Take a slot: None when it is yours at once, else a future to await first."""
        if nested or (self.taken < self.bound and (not self._is_narrow or self._has_room(id))):
            self.taken += 1
            key = id.key
            tenant = key.partition("/")[0] if "/" in key else key  # `tenant_of`, which would double the cost of this
            self._tenants[tenant] = self._tenants.get(tenant, 0) + 1
            if self._is_narrow:
                self._count_class(id.cls)
            return None
        if id.cls in self.free:
            self._begin(id)
            return None
        return self._wait(id)

    def hurry(self, slot: Slot, id: ObjectId) -> None:
        """Let this one pass at once: a turn that holds a slot waits behind it."""
        if not slot.done():
            self._leave(slot)
            self._begin(id)
            slot.set_result(None)

    def give_back(self, slot: Slot | None, id: ObjectId) -> None:
        """Give it back, whether it was waited for to the end or not."""
        if slot is not None and (not slot.done() or slot.cancelled()):
            self._leave(slot)
            slot.cancel()
            return
        self.taken -= 1
        key = id.key
        tenant = key.partition("/")[0] if "/" in key else key
        tenants = self._tenants
        left = tenants[tenant] - 1
        if left:
            tenants[tenant] = left
        else:
            del tenants[tenant]
        if self._is_narrow and id.cls in self._classes:
            self._classes[id.cls] -= 1
        if self.waiting:
            if tenant in self._ticks:  # it has fewer now, so its place may be further ahead
                for crowd in self._crowds.values():
                    crowd.rerank(tenant)
            self._grant()

    def widen(self, bound: int) -> None:
        """So many may run from now on; those that run go on."""
        self.bound = bound
        self._grant()

    def running(self, tenant: str) -> int:
        """How many turns of that tenant run."""
        return self._tenants.get(tenant, 0)

    def _begin(self, id: ObjectId) -> None:
        self.taken += 1
        tenant = tenant_of(id.key)
        self._tenants[tenant] = self._tenants.get(tenant, 0) + 1
        if self._is_narrow:
            self._count_class(id.cls)

    def _count_class(self, cls: str) -> None:
        if self._bound_of(cls) is not None:
            self._classes[cls] = self._classes.get(cls, 0) + 1

    def _bound_of(self, cls: str) -> int | None:
        return self._of_classes.get(cls, self._of_class)

    def _has_room(self, id: ObjectId) -> bool:
        most = self._of_tenant
        if most is not None and self._tenants.get(tenant_of(id.key), 0) >= most:
            return False
        return self._class_has_room(id.cls)

    def _class_has_room(self, cls: str) -> bool:
        most = self._bound_of(cls)
        return most is None or self._classes.get(cls, 0) < most

    # who waits

    def _wait(self, id: ObjectId) -> Slot:
        slot: Slot = asyncio.get_running_loop().create_future()
        tenant = tenant_of(id.key)
        self._tick += 1
        self._ticks.setdefault(tenant, self._tick)
        self.waiting += 1
        group = id.cls if self._is_narrow and self._bound_of(id.cls) is not None else None
        crowd = self._crowds.get(group)
        if crowd is None:
            crowd = self._crowds[group] = _Crowd(self._tenants, self._ticks)
        crowd.add(tenant, (self._tick, slot, id))
        return slot

    def _leave(self, slot: Slot) -> None:
        """It waits no longer: whoever comes to it in its line steps over it."""
        self.waiting -= 1
        self._gone += 1
        if not self.waiting:
            self._clear()
        elif self._gone > 64 and self._gone > self.waiting:
            self._tidy(slot)

    def _clear(self) -> None:
        """Nobody waits; those still in line have all gone."""
        self._crowds, self._ticks, self._gone = {}, {}, 0

    def _tidy(self, last: Slot) -> None:
        """More have gone than wait: make the lines anew."""
        old, self._crowds, self._gone = self._crowds, {}, 0
        waiting = [
            (group, tenant, waiter)
            for group, crowd in old.items()
            for tenant, line in crowd.lines.items()
            for waiter in line
            if waiter[1] is not last and not waiter[1].done()
        ]
        ticks = {tenant: self._ticks[tenant] for _, tenant, _ in waiting}
        self._ticks = ticks
        for group, tenant, waiter in waiting:
            if group not in self._crowds:
                self._crowds[group] = _Crowd(self._tenants, ticks)
            self._crowds[group].add(tenant, waiter)

    def _grant(self) -> None:
        """Give out what is free to those who may have it, the neediest first."""
        while self.waiting and self.taken < self.bound:
            best: tuple[_Place, str | None, _Crowd] | None = None
            for group, crowd in self._crowds.items():
                if group is not None and not self._class_has_room(group):
                    continue
                place = crowd.first()
                # The first has the fewest: when even that is as many as a tenant may have, so it is for the others.
                if self._of_tenant is not None and place[0] >= self._of_tenant:
                    continue
                if best is None or place < best[0]:
                    best = place, group, crowd
            if best is None:
                return
            (_, _, _, tenant), group, crowd = best
            waiter = crowd.pop(tenant)
            self._tick += 1
            self._ticks[tenant] = self._tick
            if tenant not in crowd.lines:
                if not crowd.lines:
                    del self._crowds[group]
                if not any(tenant in other.lines for other in self._crowds.values()):
                    del self._ticks[tenant]
            if waiter is None:
                continue
            self.waiting -= 1
            if not self.waiting:
                self._clear()
            _, slot, id = waiter
            self._begin(id)
            slot.set_result(None)


_Waiter = tuple[int, Slot, ObjectId]  # in order of arrival
_Place = tuple[int, int, int, str]  # how many the tenant has running, when it was served, its first waiter, the tenant


class _Crowd:
    """Those that wait for the same class, in a line for each tenant.

    Places are kept in a heap. A rank that rose is noticed when it comes to the front; one that fell is told by `moved`.
    """

    __slots__ = ("_heap", "_places", "_running", "_ticks", "lines")

    def __init__(self, running: dict[str, int], ticks: dict[str, int]) -> None:
        self._running = running
        self._ticks = ticks
        self._heap: list[_Place] = []
        self._places: dict[str, _Place] = {}  # the one that counts, of each tenant
        self.lines: dict[str, deque[_Waiter]] = {}

    def add(self, tenant: str, waiter: _Waiter) -> None:
        line = self.lines.get(tenant)
        if line is None:
            self.lines[tenant] = deque((waiter,))
            self._push(waiter[0], tenant)
        else:
            line.append(waiter)

    def first(self) -> _Place:
        """The place at the front; there is one."""
        heap = self._heap
        while True:
            place = heap[0]
            running, tick, number, tenant = place
            if self._places.get(tenant) != place:  # it was replaced
                heappop(heap)
            elif running == self._running.get(tenant, 0) and tick == self._ticks[tenant]:
                return place
            else:
                heappop(heap)
                self._push(number, tenant)

    def pop(self, tenant: str) -> _Waiter | None:
        """The first of that tenant who still waits."""
        line = self.lines[tenant]
        first = None
        while line and first is None:
            waiter = line.popleft()
            if not waiter[1].done():
                first = waiter
        if line:
            self._push(line[0][0], tenant)
        else:
            del self.lines[tenant]
            del self._places[tenant]
        return first

    def rerank(self, tenant: str) -> None:
        """Its rank may have fallen."""
        line = self.lines.get(tenant)
        if line is not None:
            self._push(line[0][0], tenant)

    def _push(self, number: int, tenant: str) -> None:
        place = self._places[tenant] = (self._running.get(tenant, 0), self._ticks[tenant], number, tenant)
        heappush(self._heap, place)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._places):
            self._heap[:] = self._places.values()
            heapify(self._heap)


class SlowStart:
    """Lets the bound on concurrent turns grow after a start or a takeover, so that cold objects don't all wake at once."""

    def __init__(self, slots: Slots, limits: Limits, clock: Clock, *, on_wider: Callable[[], object]) -> None:
        self._slots = slots
        self._limits = limits
        self._clock = clock
        self._on_wider = on_wider
        self._initial = limits.concurrent_turns
        self._began_at = 0
        self._step = Wakeup(clock, self._grow)

    @property
    def is_on(self) -> bool:
        return self._slots.bound < self._limits.concurrent_turns

    def begin(self) -> None:
        """From few to all again; never fewer than run at this moment, for those were fine."""
        if not self._limits.slow_start_ms:
            return
        self._initial = max(self._limits.slow_start_turns, self._slots.taken)
        self._began_at = self._clock.now()
        self._grow()

    def stop(self) -> None:
        self._step.set(None)

    def _grow(self) -> None:
        limits, now = self._limits, self._clock.now()
        over_ms = limits.slow_start_ms
        age_ms = now - self._began_at
        if age_ms < 0:  # the clock was set back
            self._began_at, age_ms = now, 0
        bound = turns_allowed(age_ms, initial=self._initial, limit=limits.concurrent_turns, over_ms=over_ms)
        is_wider = bound > self._slots.bound
        self._slots.widen(bound)
        self._step.set(now + max(1, over_ms // STEPS) if self.is_on else None)
        if is_wider:
            self._on_wider()


# Has this node more to do than it can, and what does it stop doing then?
#
# While it is overloaded no due timer is handed out; calls are still answered, and bounded by the mailboxes. It is
# looked at only while there is work, by the node's clock.

log = logging.getLogger("wakeful.overload")

LOOK_MS = 250
BACKLOG_MAX = 4_000  # commits on their way to disk


class Overload:
    """Whether, since when and why dispatch is paused."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        is_working: Callable[[], bool],
        backlog: Callable[[], int],
        on_over: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._is_working = is_working  # something is handed out or runs
        self._backlog = backlog  # how many commits are on their way to disk
        self._on_over = on_over
        self._look = Wakeup(clock, self._on_look)
        self._asked_at = 0  # when the next look should come
        self._symptom: str | None = None  # what the last look saw; one alone may be a hiccup, or a clock that was set
        self._has_failed = False  # the program's own question raised
        self.ask: Callable[[], Any] | None = None  # the program's own: true, or the reason as text, when it is too much
        self.is_on = False
        self.since_at: int | None = None
        self.why: str | None = None
        self.episodes = 0
        self._paused_ms = 0
        self.lag_ms = 0  # how late the event loop was when last looked at

    def holds(self) -> bool:
        """Nothing due may be handed out now. Asked whenever something is due."""
        if self._look.at is None:
            self._judge(self._program_says())
            self._again()
        return self.is_on

    @property
    def paused_ms(self) -> int:
        """How long dispatch has been paused in all."""
        return self._paused_ms + (0 if self.since_at is None else max(0, self._clock.now() - self.since_at))

    def stop(self) -> None:
        """Nothing is handed out any more, so there is nothing to look at."""
        self._look.set(None)
        self._symptom = None
        self._judge(None)

    def status(self) -> dict[str, Any]:
        return {
            "is_on": self.is_on,
            "since_at": self.since_at,
            "why": self.why,
            "episodes": self.episodes,
            "paused_ms": self.paused_ms,
            "lag_ms": self.lag_ms,
        }

    def _again(self) -> None:
        self._asked_at = self._clock.now() + LOOK_MS
        self._look.set(self._asked_at)

    def _on_look(self) -> None:
        self.lag_ms = max(0, self._clock.now() - self._asked_at)
        before, self._symptom = self._symptom, self._own_symptom()
        self._judge(self._program_says() or (self._symptom if before is not None else None))
        if self.is_on or self._symptom is not None or self._is_working():
            self._again()

    def _own_symptom(self) -> str | None:
        if self.lag_ms >= self._limits.overload_lag_ms:
            return f"the event loop is {self.lag_ms} ms late: a turn computes or blocks in it, or it has too little CPU"
        if (backlog := self._backlog()) > BACKLOG_MAX:
            return f"{backlog} commits are on their way to the store, which does not keep up"
        return None

    def _program_says(self) -> str | None:
        if self.ask is None:
            return None
        try:
            said = self.ask()
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log.exception("overloaded() raised; taken as no, and not told again", extra={"code": "node.overloaded"})
            return None
        return (said if isinstance(said, str) else "the program says so") if said else None

    def _judge(self, why: str | None) -> None:
        now = self._clock.now()
        if why is not None:
            self.why = why
            if not self.is_on:
                self.is_on, self.since_at = True, now
                self.episodes += 1
                log.warning("overloaded: %s; due timers wait", why, extra={"code": "node.overload"})
        elif self.is_on:
            self._paused_ms = self.paused_ms
            self.is_on, self.since_at, self.why = False, None, None
            self._on_over()
