"""Layer 3. Whose timer is next, when one tenant has more due than may run and others come behind it?

A tenant that has more than its share handed out gets a line of its own, and so has every tenant that would go
before one with fewer; then those behind can be seen. What a line has no room for is left on disk, with a mark from
where on, and is read again when the line gets short.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from wakeful.values.ids import ObjectId, tenant_of
from wakeful.values.timers import Timer, TimerKey

Name = tuple[ObjectId, str]
SHORTEST = 16  # a line has room for so many at least


class TenantLines:
    """Due timers that wait for their tenant's turn, in firing order within each tenant."""

    def __init__(self, bound: int) -> None:
        self._bound = max(1, bound // 2)  # the other half is for what is not due yet
        self._held: dict[Name, Timer] = {}
        self._lines: dict[str, list[tuple[TimerKey, int, Timer]]] = {}
        self._ticks: dict[str, int] = {}  # when the tenant was served last, or began to wait
        self._tick = 0
        self._order: list[tuple[int, int, str]] = []  # handed out, tick, tenant: as of the last look
        # Of these tenants everything after that place is on disk only.
        self.behind: dict[str, TimerKey] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: Name) -> bool:
        return name in self._held

    @property
    def is_full(self) -> bool:
        """No more tenants may be lined up."""
        return len(self._held) >= self._bound

    @property
    def is_used(self) -> bool:
        return bool(self._lines or self.behind)

    def has(self, tenant: str) -> bool:
        """Timers of that tenant have to stand in its line."""
        return tenant in self._lines or tenant in self.behind

    def add(self, tenant: str, timer: Timer) -> None:
        """Stand in line, or be left on disk when it is too long."""
        key = timer.sort_key
        mark = self.behind.get(tenant)
        if mark is not None and key > mark:
            return
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = []
            self._tick += 1
            self._ticks[tenant] = self._tick
            heappush(self._order, (0, self._tick, tenant))
        elif mark is None and len(line) >= self._longest() and key > max(line)[0]:
            self.behind[tenant] = (key[0], key[1], key[2] - 1)
            return
        self._tick += 1
        heappush(line, (key, self._tick, timer))
        self._held[timer.id, timer.name] = timer

    def look(self, out: Mapping[str, int]) -> None:
        """Timers may have come back since the last look: put the tenants in order anew."""
        self._order = [(out.get(tenant, 0), tick, tenant) for tenant, tick in self._ticks.items()]
        heapify(self._order)

    def neediest(self, out: Mapping[str, int]) -> str | None:
        """The tenant in line with the fewest handed out; of equal ones, who waited longest."""
        order = self._order
        while order:
            place = order[0]
            tenant = place[2]
            if tenant not in self._lines:
                heappop(order)
                continue
            now = out.get(tenant, 0), self._ticks[tenant], tenant
            if now <= place:
                return tenant
            heapreplace(order, now)
        return None

    def pop(self, tenant: str) -> Timer | None:
        """The first in that tenant's line; None when all of it is gone."""
        line = self._lines[tenant]
        self._tick += 1
        self._ticks[tenant] = self._tick
        found = None
        while line and found is None:
            timer = heappop(line)[2]
            if self._held.get((timer.id, timer.name)) is timer:
                del self._held[timer.id, timer.name]
                found = timer
        if not line:
            del self._lines[tenant]
            del self._ticks[tenant]
        return found

    def clear(self, name: Name, seq: int) -> None:
        """It is gone from disk, or is another now (seq 0: whatever setting it was)."""
        held = self._held.get(name)
        if held is not None and seq in (0, held.seq):
            del self._held[name]

    def forget(self, gone: Iterable[ObjectId]) -> None:
        ids = set(gone)
        self._held = {name: timer for name, timer in self._held.items() if name[0] not in ids}

    def reset(self) -> None:
        self._held, self._lines, self._ticks, self._order, self.behind = {}, {}, {}, [], {}

    def objects(self) -> set[ObjectId]:
        return {id for id, _ in self._held}

    def timers(self) -> list[Timer]:
        return list(self._held.values())

    def first_due(self) -> list[int]:
        """When the first of each line was due; changes nothing, and may be asked from any thread."""
        places = [place for line in list(self._lines.values()) for place in line[:1]]
        return [timer.due_at for _, _, timer in places if self._held.get((timer.id, timer.name)) is timer]

    def is_left(self, timer: Timer) -> bool:
        """It was left on disk, to be read when its tenant's line gets short."""
        mark = self.behind.get(tenant_of(timer.id.key))
        return mark is not None and timer.sort_key > mark

    def short(self) -> str | None:
        """A tenant that has more on disk and not much left in its line."""
        for tenant in self.behind:
            if len(self._lines.get(tenant, ())) <= self._longest() // 2:
                return tenant
        return None

    def read_to(self, tenant: str, place: TimerKey | None) -> None:
        """Its timers have been read up to that place; None: all that memory reaches."""
        if place is None:
            self.behind.pop(tenant, None)
        elif tenant in self.behind:
            self.behind[tenant] = max(place, self.behind[tenant])

    def _longest(self) -> int:
        return max(SHORTEST, self._bound // (1 + len(self._lines)))
