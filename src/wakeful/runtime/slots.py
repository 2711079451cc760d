"""Layer 3. How many turns run at once, and whose is next when there are more?

Bounds for the node, for each class and for each tenant. While slots are scarce the next one goes to
the tenant that has the fewest turns running, of equal ones to the one that waited longest; within a
tenant to whoever came first.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from wakeful.logic.limits import Limits
from wakeful.logic.ramp import turns_allowed
from wakeful.runtime.wakeup import Wakeup
from wakeful.values.clock import Clock
from wakeful.values.ids import ObjectId, tenant_of

Slot = asyncio.Future[None]
STEPS = 64  # in which a slow start goes up


class Slots:
    """A bound on concurrent turns. Calls made by a turn pass freely: waiting for a slot, they would hold the one that must end first."""

    def __init__(self, limits: Limits) -> None:
        self.bound = limits.concurrent_turns
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
        self._crowds: dict[str | None, _Crowd] = {}  # who waits, by bounded class; None: all other classes

    def take(self, id: ObjectId, *, nested: bool) -> Slot | None:
        """Take a slot: None when it is yours at once, else a future to await first."""
        if nested or (self.taken < self.bound and (not self._is_narrow or self._has_room(id))):
            self._begin(id)
            return None
        return self._wait(id)

    def hurry(self, slot: Slot, id: ObjectId) -> None:
        """Let this one pass at once: a turn that holds a slot waits behind it."""
        if not slot.done():
            self._leave(slot, id)
            self._begin(id)
            slot.set_result(None)

    def give_back(self, slot: Slot | None, id: ObjectId) -> None:
        """Give it back, whether it was waited for to the end or not."""
        if slot is not None and (not slot.done() or slot.cancelled()):
            self._leave(slot, id)
            slot.cancel()
            return
        self.taken -= 1
        tenant = tenant_of(id.key)
        left = self._tenants[tenant] - 1
        if left:
            self._tenants[tenant] = left
        else:
            del self._tenants[tenant]
        if self._is_narrow and id.cls in self._classes:
            self._classes[id.cls] -= 1
        if self.waiting:
            if tenant in self._ticks:  # it has fewer now, so its place may be further ahead
                for crowd in self._crowds.values():
                    crowd.moved(tenant)
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
        if self._is_narrow and self._bound_of(id.cls) is not None:
            self._classes[id.cls] = self._classes.get(id.cls, 0) + 1

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
            crowd = self._crowds[group] = _Crowd(self._rank)
        crowd.add(tenant, slot, self._tick, id)
        return slot

    def _rank(self, tenant: str) -> tuple[int, int]:
        """Fewest running first, then who was served longest ago."""
        return self._tenants.get(tenant, 0), self._ticks[tenant]

    def _leave(self, slot: Slot, id: ObjectId) -> None:
        """It waits no longer, if it did."""
        for group in (id.cls, None):
            crowd = self._crowds.get(group)
            if crowd is not None and crowd.remove(tenant_of(id.key), slot):
                self._gone(group, crowd, tenant_of(id.key))
                return

    def _gone(self, group: str | None, crowd: "_Crowd", tenant: str) -> None:
        """One of that tenant's left the crowd: tidy up after the last."""
        self.waiting -= 1
        if not crowd.lines:
            del self._crowds[group]
        if all(tenant not in crowd.lines for crowd in self._crowds.values()):
            del self._ticks[tenant]

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
            slot, id = crowd.pop(tenant)
            self._tick += 1
            self._ticks[tenant] = self._tick
            self._gone(group, crowd, tenant)
            if not slot.done():  # else its task was cancelled a moment ago
                self._begin(id)
                slot.set_result(None)


_Place = tuple[int, int, int, str]  # the tenant's rank, the number of its first waiter, the tenant


class _Crowd:
    """Those that wait for the same class, in a line for each tenant.

    Places are kept in a heap. A rank that rose is noticed when it comes to the front; one that fell is told by `moved`.
    """

    __slots__ = ("_heap", "_places", "_rank", "lines")

    def __init__(self, rank: Callable[[str], tuple[int, int]]) -> None:
        self._rank = rank
        self._heap: list[_Place] = []
        self._places: dict[str, _Place] = {}  # the one that counts, of each tenant
        # Not a plain dict: taking from its front leaves holes to step over.
        self.lines: dict[str, OrderedDict[Slot, tuple[int, ObjectId]]] = {}

    def add(self, tenant: str, slot: Slot, number: int, id: ObjectId) -> None:
        line = self.lines.get(tenant)
        if line is None:
            line = self.lines[tenant] = OrderedDict()
        line[slot] = number, id
        if len(line) == 1:
            self.moved(tenant)

    def remove(self, tenant: str, slot: Slot) -> bool:
        """Take it out of its line; False when it is in none."""
        line = self.lines.get(tenant)
        if line is None or line.pop(slot, None) is None:
            return False
        if not line:
            self._drop(tenant)
        return True

    def pop(self, tenant: str) -> tuple[Slot, ObjectId]:
        line = self.lines[tenant]
        slot, (_, id) = line.popitem(last=False)
        if not line:
            self._drop(tenant)
        return slot, id

    def first(self) -> _Place:
        """The place at the front; there is one."""
        heap = self._heap
        while True:
            place = heap[0]
            tenant = place[3]
            if self._places.get(tenant) is not place:
                heappop(heap)
                continue
            now = self._place(tenant)
            if now == place:
                return place
            heappop(heap)
            self._push(now)

    def moved(self, tenant: str) -> None:
        """Its rank may have fallen."""
        if tenant in self.lines:
            self._push(self._place(tenant))

    def _place(self, tenant: str) -> _Place:
        number, _ = next(iter(self.lines[tenant].values()))
        return (*self._rank(tenant), number, tenant)

    def _push(self, place: _Place) -> None:
        self._places[place[3]] = place
        heappush(self._heap, place)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._places):
            self._heap = list(self._places.values())
            heapify(self._heap)

    def _drop(self, tenant: str) -> None:
        del self.lines[tenant]
        del self._places[tenant]


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
