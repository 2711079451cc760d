"""Layer 3. What is happening in the deployment right now, for whoever looks on?

Nobody listens most of the time, and then it costs one `if` at each place where something happens. While someone does,
the newest events are kept in two rings: those of this process, which other nodes ask for, and those of the whole
deployment, which listeners here read. A listener is a place in the ring and nothing more: any number of them cost no
memory, and one that is too slow loses the oldest and is told how many.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from wakeful.policy.retry import platform_delay_ms
from wakeful.values.commits import Commit
from wakeful.values.errors import BadOption, WakefulError
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.values.timers import Entry, Timer

if TYPE_CHECKING:
    from wakeful.runtime.calls import Call
    from wakeful.runtime.env import NodeRequest
    from wakeful.store.protocol import NodeRow, Store
    from wakeful.values.times import Clock, Dice


class KnownNodes(Protocol):
    """Who is there, by a store."""

    nodes: "dict[str, NodeRow]"
    others: set[str]
    is_draining: bool


class NodeWays(Protocol):
    """To the other nodes."""

    @property
    def ask(self) -> "NodeRequest": ...


class EventHome(Protocol):
    """A node of this process: one for each store of the program."""

    name: str
    state: str
    store: "Store"
    epochs: dict[int, int]
    is_clustered: bool

    dice: "Dice"

    @property
    def membership(self) -> KnownNodes: ...

    @property
    def routes(self) -> "NodeWays": ...


Event = dict[str, Any]
Sees = Callable[[Event], bool]

KINDS = ("call", "dropped", "job", "lost", "node", "parked", "redriven", "run", "schedule", "timer", "write")
KEPT = 4_096  # events in each ring: a reader may be so far behind before it loses some; about 2 MB
GRACE_MS = 30_000  # events are kept for so long after the last listener, which may come back where it was
ASKED_MS = 30_000  # another node that has not asked for so long does not listen any more
POLL_MS = 10_000  # how long a question to another node waits for something to happen
GATHER_MS = 50  # and after that for more of it, so that a busy node is not asked a thousand times a second
POLL_MAX = 1_000
LOOK_MS = 1_000  # between two looks at who is there
PLACES_MAX = 1_000  # of nodes that were followed and may come back
STRETCH = 4_096  # numbers to a millisecond, more than there can be events: no two stretches of events share one
PER_COMMIT_MAX = 20  # timers of one commit that are told one by one
ERROR_CHARS_MAX = 300


class EventRing:
    """The newest events, numbered from `begin` on; older ones are overwritten."""

    def __init__(self, size: int, begin: int = 1) -> None:
        self._items: list[Event | None] = [None] * size
        self.begin = self.next = begin
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, event: Event) -> None:
        self._items[self.next % len(self._items)] = event
        self.next += 1
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def first(self) -> int:
        """The number of the oldest that is still there."""
        return max(self.begin, self.next - len(self._items))

    def after(self, number: int, limit: int) -> tuple[int, list[Event]]:
        """The number of the first event after that one which is still there, and so many events from it on."""
        start = max(number + 1, self.first())
        size = len(self._items)
        found = [self._items[at % size] for at in range(start, min(self.next, start + limit))]
        return start, [event for event in found if event is not None]

    async def news(self, number: int, wait: Callable[[asyncio.Future[None]], Awaitable[None]]) -> None:
        """Until there is an event after that number, or `wait` has had enough."""
        if self.next <= number + 1:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await wait(future)
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)


class Listener:
    """A place in the stream of events: `async for event in listener`, or `some()` for as many as there are."""

    def __init__(self, events: "Events", *, kinds: Collection[str] | None, sees: Sees | None, after: int) -> None:
        self._events = events
        self._kinds = None if kinds is None else frozenset(kinds) | {"lost"}
        self._sees = sees
        self.number = after  # of the last event that was read

    async def __aenter__(self) -> "Listener":
        self._events.enter(self)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._events.leave(self)

    async def some(self, *, limit: int = 500, wait_ms: int | None = None) -> list[tuple[int, Event]]:
        """The next events with their numbers; none when nothing happened for `wait_ms`, or the node has stopped."""
        events, ring = self._events, self._events.ring
        until = None if wait_ms is None else events.clock.now() + wait_ms
        while not events.is_over:
            start, fresh = ring.after(self.number, limit)
            lost, self.number = start - self.number - 1, start + len(fresh) - 1
            chosen = [(start + index, event) for index, event in enumerate(fresh) if self._wants(event)]
            if lost:
                events.dropped += lost
                chosen.insert(0, (start - 1, {"kind": "lost", "at": events.clock.now(), "count": lost}))
            if chosen:
                return chosen
            if not fresh:
                if until is not None and events.clock.now() >= until:
                    return []
                await ring.news(self.number, partial(events.wait_until, until))
        return []

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with self:
            while not self._events.is_over:
                for _, event in await self.some():
                    yield event

    def _wants(self, event: Event) -> bool:
        if self._kinds is not None and event["kind"] not in self._kinds:
            return False
        return self._sees is None or event["kind"] == "lost" or self._sees(event)


class Events:
    """The events of a process, and while someone listens here those of the other nodes as well."""

    def __init__(self, name: str, clock: "Clock", homes: Callable[[], Sequence[EventHome]]) -> None:
        self._name = name
        self._homes = homes  # the nodes of this process
        self.clock = clock
        self.is_heard = False  # what everyone who has something to tell asks first
        self.is_over = False
        self.ring = EventRing(KEPT)  # of the deployment
        self._own = EventRing(KEPT, self.clock.now() * STRETCH)  # of this process while others ask, for them
        self._listeners: set[Listener] = set()
        self.dropped = 0  # by listeners that were too slow
        self._gap_at = 0  # the ring's number where nobody listened for a while
        self._heard_until = 0
        self._asked_until = 0
        self._looking: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._places: dict[str, int] = {}  # how far each of them was read, also of one that has gone and may come back
        self._seen: dict[str, Any] = {}  # of the nodes of this process, for what changes with them
        self._others: set[str] | None = None  # nodes of other processes at the last look; None: nobody looked yet

    # listening

    def listen(
        self,
        *,
        kinds: Collection[str] | None = None,
        after: int | None = None,
        since: int | None = None,
        sees: Sees | None = None,
        reserved: bool = False,
    ) -> Listener:
        """From now on; from after that number, or since that instant (ms), as far as it is still kept.

        `sees` chooses events; those of Wakeful's own classes are left out unless `reserved`.
        """
        unknown = set(kinds or ()) - set(KINDS)
        if unknown:
            raise BadOption(f"no events are of kind {min(unknown)!r}; there are {', '.join(KINDS)}", code="events.kind")
        if since is not None:
            start, kept = self.ring.after(0, KEPT)
            older = next((index for index, event in enumerate(kept) if event["at"] >= since), len(kept))
            after = start + older - 1
        if after is None or not 0 <= after < self.ring.next:
            after = self.ring.next - 1
        return Listener(self, kinds=kinds, sees=sees if reserved else partial(_is_users, sees), after=after)

    @property
    def readers(self) -> int:
        return len(self._listeners)

    def enter(self, listener: Listener) -> None:
        self._listeners.add(listener)
        self.is_heard = True
        if self._looking is None and not self.is_over:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners:
            self._heard_until = self.clock.now() + GRACE_MS
            self._review_at(self._heard_until)

    def stop(self) -> None:
        """The node ends: whoever listens reads no more."""
        self.is_over, self.is_heard = True, False
        for task in (self._looking, *self._following.values()):
            if task is not None:
                task.cancel()
        self._looking, self._following = None, {}
        self.ring.wake()
        self._own.wake()

    async def wait_until(self, until: int | None, future: asyncio.Future[None]) -> None:
        """Until the future is done or that instant is there."""
        if until is None:
            await future
            return
        handle = self.clock.call_at(until, partial(_wake, future))
        try:
            await future
        finally:
            handle.cancel()

    # telling: only asked to when `is_heard`

    def tell(self, kind: str, id: ObjectId | None = None, **about: Any) -> None:
        """Something happened."""
        event: Event = {"kind": kind, "at": self.clock.now(), "node": self._name}
        if id is not None:
            event["object"] = f"{id.cls}/{id.key}"
            event["class"], event["key"] = id
        event.update(about)
        self.ring.add(event)
        if self._asked_until:
            self._own.add(event)

    def on_commit(self, commit: Commit) -> None:
        """A commit is on disk: what it says of runs, timers and rows."""
        for entry in commit.entries:
            self.tell("run", entry.id, **_about_run(entry))
        for parked in commit.parks:
            name, error = parked.timer.name, _short(parked.error)
            self.tell("parked", commit.id, name=name, verdict=parked.reason, attempts=parked.attempts, error=error)
        for number in commit.unparks:
            self.tell("redriven" if commit.sets else "dropped", commit.id, number=number)
        if commit.sets or commit.clears:
            self.timers(commit.sets)
            set_anew = {timer.name for timer in commit.sets}
            for name, _ in commit.clears[:PER_COMMIT_MAX]:
                if name not in set_anew:
                    self.tell("timer", commit.id, name=name, due_at=None)
        if commit.sends:
            self.timers(commit.sends)
        if commit.puts or commit.deletes or commit.wipe:
            self.tell("write", commit.id, keys=len(commit.puts) + len(commit.deletes))

    def timers(self, timers: Sequence[Timer]) -> None:
        """They are on disk, due then; when they are many, the first of them stand for all."""
        for timer in timers[:PER_COMMIT_MAX]:
            self.tell("timer", timer.id, name=timer.name, due_at=timer.due_at)

    async def watch(self, id: ObjectId, call: "Call", way: Awaitable[Any]) -> Any:
        """The answer of a call, which is told of with how long it took."""
        began_at = self.clock.now()
        verdict, error = "failed", None
        try:
            answer = await way
            verdict = "done"
            return answer
        except Exception as raised:
            error = _short(f"{type(raised).__name__}: {raised}")
            raise
        except asyncio.CancelledError:
            verdict = "left"  # by its caller; a turn that has begun goes on
            raise
        finally:
            owner, _, operation = call.method.partition(".")
            kind = {"schedules": "schedule", "jobs": "job"}.get(owner, "call") if operation else "call"
            about = {"verdict": verdict, "took_ms": self.clock.now() - began_at, "error": error}
            if kind == "call":
                self.tell(kind, id, name=call.method, **about)
            else:
                name = call.args[0] if call.args and isinstance(call.args[0], str) else None
                self.tell(kind, id, name=name, operation=operation, **about)

    # among nodes

    async def answer(self, after: int | None, limit: int, wait_ms: int) -> dict[str, Any]:
        """What another node asks: the events of this process after that number, once there are some."""
        now = self.clock.now()
        self._asked_until = now + ASKED_MS + wait_ms
        self.is_heard = not self.is_over
        self._review_at(self._asked_until)
        self._notice()
        ring = self._own
        if after is None:
            return {"events": [], "next": ring.next - 1, "lost": 0}
        if (
            not ring.begin - 1 <= after < ring.next
        ):  # a place in what was kept before nobody asked, or of a process before
            start, events = ring.after(0, max(1, min(limit, POLL_MAX)))
            return {"events": events, "next": start + len(events) - 1, "lost": None}
        if ring.next <= after + 1:
            await ring.news(after, partial(self.wait_until, now + max(0, min(wait_ms, POLL_MS))))
            if ring.next > after + 1 and not self.is_over:
                await self.clock.sleep(GATHER_MS)
        start, events = ring.after(after, max(1, min(limit, POLL_MAX)))
        return {"events": events, "next": start + len(events) - 1, "lost": start - after - 1}

    async def _look(self) -> None:
        """While someone listens: see who is there, and follow each of them."""
        try:
            while self._listeners or self.clock.now() < self._heard_until:
                self._notice()
                self._notice_others()
                peers = self._peers()
                for name in [name for name in self._following if name not in peers]:
                    self._following.pop(name).cancel()
                for name, (home, row) in peers.items():
                    if name not in self._following:
                        task = asyncio.get_running_loop().create_task(self._follow(home, row))
                        self._following[name] = task
                await self.clock.sleep(LOOK_MS)
        finally:
            for task in self._following.values():
                task.cancel()
            self._following, self._looking, self._others, self._places = {}, None, None, {}
            self._leave_gap()

    async def _follow(self, home: EventHome, row: "NodeRow") -> None:
        after, tries = self._places.pop(row.node, None), 0
        while True:
            try:
                answer = await home.routes.ask(row, "events", after, POLL_MAX, POLL_MS, timeout_ms=2 * POLL_MS)
            except WakefulError:
                tries += 1
                await self.clock.sleep(LOOK_MS + platform_delay_ms(tries, home.dice.random()))
                continue
            tries, after = 0, answer["next"]
            self._places[row.node] = after
            while len(self._places) > PLACES_MAX:
                del self._places[next(iter(self._places))]
            if answer["lost"] != 0:
                self.ring.add({"kind": "lost", "at": self.clock.now(), "node": row.node, "count": answer["lost"]})
            for event in answer["events"]:
                self.ring.add(event)

    def _peers(self) -> dict[str, tuple[EventHome, "NodeRow"]]:
        """The other processes that can be asked, by any store that both are on."""
        found: dict[str, tuple[EventHome, NodeRow]] = {}
        for home in self._homes():
            for name, row in home.membership.nodes.items() if home.is_clustered else ():
                if name != home.name and row.address and row.is_here is not False:
                    found.setdefault(name, (home, row))
        return found

    def _notice(self) -> None:
        """Tell what has changed with the nodes of this process since the last look."""
        for home in self._homes():
            now = {"verdict": home.state, "shards": len(home.epochs), "is_draining": home.membership.is_draining}
            before = self._seen.get(home.store.url)
            self._seen[home.store.url] = now
            if before is not None and before != now:
                self.tell("node", None, name=home.name, **now)

    def _notice_others(self) -> None:
        """Which nodes have come and gone, for listeners here alone: every node sees that, and would tell it to all others."""
        now = set[str]().union(*(home.membership.others for home in self._homes() if home.is_clustered))
        before, self._others = self._others, now
        for name in sorted(now ^ before) if before is not None else ():
            verdict = "joined" if name in now else "gone"
            event = {"kind": "node", "at": self.clock.now(), "node": self._name, "name": name, "verdict": verdict}
            self.ring.add(event)

    def _leave_gap(self) -> None:
        """What happens from here on is not kept: whoever comes back to a place before it has lost some."""
        if self._gap_at != self.ring.next and not self.is_over:
            self.ring.add({"kind": "lost", "at": self.clock.now(), "count": None})
            self._gap_at = self.ring.next

    def _review_at(self, at: int) -> None:
        self.clock.call_at(at, self._review)

    def _review(self) -> None:
        now = self.clock.now()
        if self._asked_until and now >= self._asked_until:
            # From here on nothing is kept for the others: a place in what was is none in what will be.
            self._asked_until, old = 0, self._own
            self._own = EventRing(KEPT, max(now * STRETCH, old.next + 1))
            old.wake()
        was_heard = self.is_heard
        self.is_heard = not self.is_over and bool(self._listeners or now < self._heard_until or self._asked_until)
        if was_heard and not self.is_heard:
            self._leave_gap()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_users(sees: Sees | None, event: Event) -> bool:
    """Not of one of Wakeful's own classes, and wanted."""
    return not event.get("class", "").startswith(RESERVED) and (sees is None or sees(event))


def _about_run(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "verdict": entry.verdict,
        "run_id": entry.run_id,
        "attempt": entry.attempt,
        "nominal_at": entry.nominal_at,
        "fired_at": entry.fired_at,
        "lateness_ms": max(0, entry.fired_at - entry.nominal_at),
        "took_ms": max(0, entry.finished_at - entry.fired_at),
        "covers": entry.covers,
        "error": _short(entry.error),
    }


def _short(text: str | None) -> str | None:
    """The first line of it, not too long."""
    return None if text is None else text.strip().partition("\n")[0][:ERROR_CHARS_MAX]
