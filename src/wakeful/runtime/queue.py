"""Layer 3. Which timer is due next, without holding all of them in memory?

Memory holds every timer up to the edge (a place in the firing order), and nothing past it; the
store's index holds the rest. The edge moves forward by reading the next page, and back when the
bound is reached.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from heapq import heapify, heappop, heappush, heapreplace

from wakeful.values.ids import ObjectId, tenant_of
from wakeful.values.timers import Timer, TimerKey

Name = tuple[ObjectId, str]

# Whose timer is next, when one tenant has more due than may run and others come behind it?
#
# A tenant that has more than its share handed out gets a line of its own, and so has every tenant that would go
# before one with fewer; then those behind can be seen. What a line has no room for is left on disk, with a mark from
# where on, and is read again when the line gets short.

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
        first = None
        while line and first is None:
            timer = heappop(line)[2]
            if self._held.get((timer.id, timer.name)) is timer:
                del self._held[timer.id, timer.name]
                first = timer
        if not line:
            del self._lines[tenant]
            del self._ticks[tenant]
        return first

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


_Place = tuple[int, int, int, int, Timer]  # its sort key, a number that breaks ties, the timer
PEEKED = 63  # at the front of the heap, behind places that mean nothing any more
PAST_ALL = (1 << 31) - 1  # as the negated priority: behind every timer of that instant


class TimerQueue:
    """The near future of the owned shards, in firing order."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._heap: list[_Place] = []
        self._current: dict[Name, Timer] = {}
        self.running: dict[Name, Timer] = {}  # handed out to run, not finished
        self._out: dict[str, int] = {}  # how many of these each tenant has
        self.lines = TenantLines(bound)  # due ones that wait because their tenant has its share
        self._changed: dict[Name, Timer | None] | None = None  # what changed since a page was asked for
        self._is_void = False  # the page being read no longer joins on to the edge
        self.expected: set[Name] = (
            set()
        )  # on their way to disk by this process, which will say when they are there; not those that changed since
        self._pushes = 0  # breaks ties of equal keys (timers of different objects set at once)
        self.edge: TimerKey = (-1, 0, 0)

    def __len__(self) -> int:
        return len(self._current)

    def earliest(self) -> int | None:
        """When the next one is due; None when memory holds none. What stands in line is due already."""
        if self.lines:
            return 0
        head = self._head()
        return None if head is None else head.due_at

    def oldest_at(self) -> int | None:
        """When the first that memory holds is or was due, in line or not: near enough, changing nothing, from any thread."""
        current = self._current
        places = [(due_at, timer) for due_at, _, _, _, timer in self._heap[:PEEKED]]
        found = [due_at for due_at, timer in places if current.get((timer.id, timer.name)) is timer]
        return min([*found, *self.lines.first_due()], default=None)

    def due(self, now: int, *, share: int, is_strict: bool = False) -> Iterator[Timer]:
        """Timers to hand out, each until `finished`, `set` or `clear` is heard of its name.

        In firing order, but none of a tenant that has its share before one that has fewer: strictly none of it, or as
        soon as nobody else has any.
        """
        lines, out = self.lines, self._out
        lines.look(out)
        while True:
            if not lines.is_used:  # nearly always
                head = self._head()
                if head is None or head.due_at > now:
                    return
                if out.get(tenant_of(head.id.key), 0) < share:
                    yield self._hand_out(self._take_out())
                    continue
            self.sift(now, share=share)
            head = self._head()
            if head is not None and head.due_at > now:
                head = None
            needy = lines.neediest(out)
            if needy is not None and is_strict and out.get(needy, 0) >= share:
                needy = None
            if needy is None:
                if head is None:
                    return
                yield self._hand_out(self._take_out())
                continue
            if head is not None and not lines.has(tenant := tenant_of(head.id.key)):
                if out.get(tenant, 0) <= out.get(needy, 0):
                    yield self._hand_out(self._take_out())
                    continue
                if not lines.is_full:
                    lines.add(tenant, self._take_out())
                    continue
            found = lines.pop(needy)
            if found is not None:
                yield self._hand_out(found)

    def sift(self, now: int, *, share: int) -> None:
        """Line up what is due of tenants that have a line or their share, so that others come to the front."""
        lines, out = self.lines, self._out
        while True:
            head = self._head()
            if head is None or head.due_at > now:
                return
            tenant = tenant_of(head.id.key)
            if not lines.has(tenant) and (out.get(tenant, 0) < share or lines.is_full):
                return
            lines.add(tenant, self._take_out())

    def _head(self) -> Timer | None:
        """The first that does not stand in line."""
        heap = self._heap
        while heap:
            timer = heap[0][4]
            if self._current.get((timer.id, timer.name)) is timer:
                return timer
            heappop(heap)
        return None

    def _take_out(self) -> Timer:
        timer = heappop(self._heap)[4]
        del self._current[timer.id, timer.name]
        return timer

    def _hand_out(self, timer: Timer) -> Timer:
        self.running[timer.id, timer.name] = timer
        tenant = tenant_of(timer.id.key)
        self._out[tenant] = self._out.get(tenant, 0) + 1
        return timer

    def _came_back(self, id: ObjectId) -> None:
        tenant = tenant_of(id.key)
        left = self._out[tenant] - 1
        if left:
            self._out[tenant] = left
        else:
            del self._out[tenant]

    def set(self, timer: Timer) -> bool:
        """A timer is on disk: hold it if it is before the edge. True when it became the earliest."""
        name = (timer.id, timer.name)
        if self._changed is not None:
            self._changed[name] = timer
        if self.expected:
            self.expected.discard(name)  # whoever hears now that it was added may know an older setting
        out = self.running.pop(name, None)
        if out is not None and (out.seq, out.attempt, out.due_at) == (timer.seq, timer.attempt, timer.due_at):
            self.running[name] = out  # a page told of it before its commit was heard of: it was handed out already
            return False
        if out is not None:
            self._came_back(timer.id)
        self._current.pop(name, None)
        if self.lines:
            self.lines.clear(name, 0)
        if timer.due_at > self.edge[0] or timer.sort_key > self.edge:
            return False
        self._push(timer)
        if len(self._current) > self._bound:
            self._shrink()
        return bool(self._heap) and self._heap[0][4] is timer

    def clear(self, id: ObjectId, name: str, seq: int) -> None:
        """A timer is gone from disk (seq 0: whatever setting it was)."""
        if self._changed is not None:
            self._changed[id, name] = None
        if self.expected:
            self.expected.discard((id, name))
        held = self._current.get((id, name))
        if held is not None and seq in (0, held.seq):
            del self._current[id, name]
        if self.lines:
            self.lines.clear((id, name), seq)
        out = self.running.get((id, name))
        if out is not None and seq in (0, out.seq):
            del self.running[id, name]
            self._came_back(id)

    def note(self, timer: Timer, epoch: int) -> Timer:
        """It is about to be started in that epoch: the same timer, as the disk will have it."""
        noted = self.running[timer.id, timer.name] = timer.with_start(epoch)
        return noted

    def finish(self, timer: Timer) -> None:
        """It was handed out and will not run: a turn before it replaced or cleared it."""
        if self.running.get((timer.id, timer.name)) is timer:
            del self.running[timer.id, timer.name]
            self._came_back(timer.id)

    def begin_page(self) -> TimerKey:
        """A page is about to be read; until `end_page`, what changes wins over what it says. Where the edge is."""
        self._changed = {}
        self._is_void = False
        return self.edge

    def end_page(self, timers: Iterable[Timer], edge: TimerKey | None) -> None:
        """Take the page in and move the edge (None: it stays), but not over names that changed meanwhile or are running."""
        changed, self._changed = self._changed or {}, None
        if edge is not None:
            if self._is_void:
                return
            self.edge = edge
        for timer in timers:
            if (timer.id, timer.name) not in changed and timer.sort_key <= self.edge:
                self._take(timer)
        for newer in changed.values():
            if newer is not None and newer.sort_key <= self.edge:
                self._take(newer)
        if len(self._current) > self._bound:
            self._shrink()

    def forget(self, ids: Iterable[ObjectId]) -> None:
        """Forget these objects' timers: somebody else owns them now, or they must be read from disk again."""
        gone = set(ids)
        self._current = {name: timer for name, timer in self._current.items() if name[0] not in gone}
        self.running = {name: timer for name, timer in self.running.items() if name[0] not in gone}
        self._out = {}
        for id, _ in self.running:
            tenant = tenant_of(id.key)
            self._out[tenant] = self._out.get(tenant, 0) + 1
        self.lines.forget(gone)

    def reset(self) -> None:
        """Forget everything; the store knows."""
        self._heap, self._current, self.running, self._out, self._changed = [], {}, {}, {}, None
        self.lines.reset()
        self.edge = (-1, 0, 0)

    def objects(self) -> Set[ObjectId]:
        return {id for id, _ in self._current} | {id for id, _ in self.running} | self.lines.objects()

    def _take(self, timer: Timer) -> None:
        """Hold what a page told of. Where memory has another setting of that name the page is right: it was asked later.

        A page that was on its way while a shard went can leave one behind, which is old when the shard comes back.
        """
        name = (timer.id, timer.name)
        if name in self.running or name in self.lines or name in self.expected:
            return
        held = self._current.get(name)
        if held is None or (held.seq, held.attempt, held.due_at) != (timer.seq, timer.attempt, timer.due_at):
            self._push(timer)

    def _push(self, timer: Timer) -> None:
        self._current[timer.id, timer.name] = timer
        self._pushes += 1
        # Flat: a key within the tuple would make each comparison twice as dear, and there are ten to a timer.
        heappush(self._heap, (timer.due_at, -timer.priority, timer.seq, self._pushes, timer))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._current):
            self._heap = [place for place in self._heap if self._current.get((place[4].id, place[4].name)) is place[4]]
            heapify(self._heap)

    def _shrink(self) -> None:
        """Keep the earlier half and move the edge back to its last timer."""
        kept = sorted(self._current.values(), key=lambda timer: timer.sort_key)[: max(1, self._bound // 2)]
        self.edge = kept[-1].sort_key
        self._is_void = True
        # Equal keys must be on the same side of the edge.
        self._current = {(t.id, t.name): t for t in self._current.values() if t.sort_key <= self.edge}
        self._heap = []
        for timer in self._current.values():
            self._pushes += 1
            self._heap.append((*timer.sort_key, self._pushes, timer))
        heapify(self._heap)
