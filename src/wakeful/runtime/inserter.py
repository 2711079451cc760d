"""Layer 3. How do timers from outside a turn share trips to the disk, and get there once though answers are lost?

An insert whose answer was lost is sent again. That the name of its timer is free says nothing by then: the first try may
have been written, and its timer fired and cleared. So every insert has a receipt, which the store keeps in the commit
that takes it (see `Receipt`): what was taken before is not taken again, nor is a first try that comes after the second.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context
from typing import Protocol

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.calls import resolve, within
from wakeful.store.protocol import CANCELLED, NO_GUARDS, Guard, Obstacle, Receipt, Store
from wakeful.values.errors import (
    BadInput,
    DeadlineExceeded,
    NotRunning,
    OutcomeUnknown,
    SlotMoved,
    StoreDown,
    StoreError,
    Unavailable,
    WakefulError,
)
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.metrics import Meter
from wakeful.values.timers import Timer
from wakeful.values.times import Clock, Dice, Handle

GROUP_MAX = 2_000  # timers in one insert, so that one stays a few milliseconds
GROUP_BYTES_MAX = 4 << 20  # of what they carry, or a few thousand large ones would be more than a server takes
WAITING_MAX = 20_000  # timers that wait for the disk; past it callers wait to be let in
ALONE_MAX = 4  # inserts of their own under way at once: each may hold a hundred thousand timers
RECEIPT_MS = 86_400_000  # how long the store remembers what it took last
REPEAT_MS = RECEIPT_MS // 2  # and how long it may be sent again, whatever the deadline: clocks may differ


class ArrivalSink(Protocol):
    """Who must hear of timers that come to disk (see arrivals.py)."""

    def expect(self, timers: Sequence[Timer]) -> int: ...

    def on_added(self, timers: Sequence[Timer], mark: int) -> None: ...

    def unsure(self, timers: Sequence[Timer]) -> None: ...


class InsertLane:
    """What is sent one after the other, and numbered."""

    __slots__ = ("_id", "_number")

    def __init__(self, id: str) -> None:
        self._id = id
        self._number = 0

    def next(self, now: int) -> Receipt:
        """The receipt for what is sent now; for all tries of it the same."""
        self._number += 1
        return Receipt(self._id, self._number, now + RECEIPT_MS)


class Sending:
    """One insert on its way, in however many tries."""

    __slots__ = ("failure", "group", "is_first", "receipt")

    def __init__(self, receipt: Receipt, group: "Sequence[InsertRequest]" = (), *, is_first: bool = True) -> None:
        self.receipt = receipt
        self.is_first = is_first  # no try of it can have arrived before
        self.group = group
        self.failure: Unavailable | None = None  # of the last try, while the next is to come


class InsertRequest:
    """One timer that somebody waits to see on disk."""

    __slots__ = ("done", "guard", "timer", "twins", "until")

    def __init__(self, timer: Timer, guard: Guard | None, until: int, done: "asyncio.Future[Obstacle | None]") -> None:
        self.timer = timer
        self.guard = guard
        self.until = until
        self.done = done
        self.twins: list[InsertRequest] | None = None  # others who want the same name


class Inserter:
    """Group insert: while one is on its way to disk the next gathers; an idle node adds no delay."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        dice: Dice,
        *,
        arrivals: ArrivalSink,
        on_down: Callable[[Unavailable], None],
    ) -> None:
        self._store = store
        self.meter = Meter(lambda: 0)  # its node gives it its own
        self._clock = clock
        self._dice = dice
        self._arrivals = arrivals
        self._on_down = on_down
        self._waiting: deque[InsertRequest] = deque()
        self._sending: Sending | None = None  # the group that is under way
        self._room: deque[asyncio.Future[None]] = deque()  # callers that wait to be let in, first come first
        self._worker: asyncio.Task[None] | None = None  # one for all groups, as in the committer
        self._rest: asyncio.Future[None] | None = None  # what it waits for while there is nothing to do
        # At the first deadline of those that wait, or of one that waited: to set it for each would be felt.
        self._watch: Handle | None = None
        self._watch_at = 0
        self._alone = asyncio.Semaphore(ALONE_MAX)
        self._lane: InsertLane | None = None
        self._lanes: list[InsertLane] = []  # of inserts of their own, those that are free
        self._is_stopped = False
        self.groups = 0
        self.timers = 0

    async def add(self, timer: Timer, guard: Guard | None = None, *, until: int) -> Obstacle | None:
        """Bring a timer to disk: under a name that nobody else can have, or unless its guard finds something in the way."""
        while len(self._waiting) >= WAITING_MAX:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            with within(self._clock, until, lambda: _late(None)):
                await room
        if self._is_stopped:
            raise NotRunning("the node is stopped; nothing was written")
        loop = asyncio.get_running_loop()
        asked = InsertRequest(timer, guard, until, loop.create_future())
        self._waiting.append(asked)
        if self._watch is None or until < self._watch_at:
            self._watch_until(until)
        if self._rest is not None:
            rest, self._rest = self._rest, None
            resolve(rest, None)
        elif self._worker is None:
            # A context of its own, as in the committer: the first caller's turn must not be seen by all later ones.
            self._worker = loop.create_task(self._work(), context=Context())
        return await asked.done

    async def add_all(
        self,
        timers: Sequence[Timer],
        guards: Mapping[int, Guard] = NO_GUARDS,
        *,
        until: int,
        receipt: Receipt | None = None,
    ) -> list[Obstacle]:
        """Bring all of them to disk or none; what is in the way, [] when it was done."""
        async with self._alone:
            if self._is_stopped:
                raise NotRunning("the node is stopped; nothing was written")
            lane = self._lanes.pop() if self._lanes else self._new_lane()
            sending = Sending(receipt or lane.next(self._clock.now()), is_first=receipt is None)
            try:
                with within(self._clock, until, lambda: _late(sending)):
                    return await self._insert(timers, sending, guards=guards, each=False, until=lambda: until)
            finally:
                self._lanes.append(lane)

    def stop(self) -> None:
        """Whoever waits hears that the node is gone; nothing more is sent."""
        self._is_stopped = True
        if self._worker is not None:
            self._worker.cancel()
            self._worker = self._rest = None
        self._end_watch()
        self._fail(self._waiting, NotRunning("the node stopped; whether it was written is unknown"))
        self._waiting.clear()
        self._let_in()

    # deadlines

    def _expire(self) -> None:
        """Tell those whose time is over, and come again for the next."""
        now, sending = self._clock.now(), self._sending
        lines = [(sending, asked) for asked in _with_twins(sending.group)] if sending is not None else []
        left = []
        for sent, asked in (*lines, *((None, asked) for asked in self._waiting)):
            if asked.until <= now:
                resolve(asked.done, None, _late(sent))
            elif not asked.done.done():
                left.append(asked.until)
        self._watch = None
        if left:
            self._watch_until(min(left))

    def _watch_until(self, until: int) -> None:
        self._end_watch()
        self._watch, self._watch_at = self._clock.call_at(until, self._expire), until

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    # groups

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._waiting:
                    await self._bring(self._next_group())
                self._rest = loop.create_future()
                await self._rest
        finally:
            self._worker = self._rest = None

    async def _bring(self, group: list[InsertRequest]) -> None:
        try:
            if group:
                await self._flush(group)
        except BaseException as error:
            gone = NotRunning("the node stopped; whether it was written is unknown")
            self._fail(group, error if isinstance(error, WakefulError) else gone)
            if not isinstance(error, Exception):
                raise
        finally:
            self._sending = None
        if self._room:
            self._let_in()

    def _next_group(self) -> list[InsertRequest]:
        """The next that somebody still waits for; of those that want one name the first, with the others as its twins."""
        group: list[InsertRequest] = []
        guarded: dict[tuple[ObjectId, str], InsertRequest] = {}
        size = 0
        waiting = self._waiting
        while waiting and len(group) < GROUP_MAX and size <= GROUP_BYTES_MAX:
            asked = waiting.popleft()
            if asked.done.done():
                continue
            if asked.guard is not None:
                first = guarded.setdefault((asked.timer.id, asked.timer.name), asked)
                if first is not asked:
                    first.twins = [*(first.twins or ()), asked]
                    continue
            group.append(asked)
            if waiting:
                size += len(asked.timer.payload or b"")
        return group

    async def _flush(self, group: list[InsertRequest]) -> None:
        while True:
            try:
                obstacles = await self._insert_group(group)
            except SlotMoved as error:
                gone = [asked for asked in group if shard_of(asked.timer.id) in error.slots]
                rest = [asked for asked in group if shard_of(asked.timer.id) not in error.slots]
                self._fail(gone or group, error)
                if not (gone and rest):
                    return
                group = rest
                continue
            except (StoreError, BadInput):
                if len(group) == 1:
                    raise
                break
            self._answer(group, obstacles)
            return
        for asked in group:  # find those that the store refuses by themselves
            if all(one.done.done() for one in _with_twins([asked])):
                continue
            try:
                self._answer([asked], await self._insert_group([asked], group))
            except (StoreError, BadInput) as error:
                self._fail([asked], error)

    async def _insert_group(self, group: list[InsertRequest], waiting: Sequence[InsertRequest] = ()) -> list[Obstacle]:
        """Send them; `waiting` are all whose deadlines pass meanwhile, if there are others."""
        lane = self._lane
        if lane is None:
            lane = self._lane = self._new_lane()
        self._sending = sending = Sending(lane.next(self._clock.now()), waiting or group)
        guards = {n: asked.guard for n, asked in enumerate(group) if asked.guard is not None}
        obstacles = await self._insert(
            [asked.timer for asked in group],
            sending,
            guards=guards,
            each=bool(guards),
            until=lambda: max((one.until for one in _with_twins(group) if not one.done.done()), default=0),
        )
        if obstacles and not guards:  # then none of them is in
            raise _taken_error(group[obstacles[0].index].timer)
        return obstacles

    def _answer(self, group: list[InsertRequest], obstacles: list[Obstacle]) -> None:
        met = {one.index: one for one in obstacles} if obstacles else {}
        for n, asked in enumerate(group):
            obstacle = met.get(n) if met else None
            if obstacle is not None and asked.guard is None:
                resolve(asked.done, None, _taken_error(asked.timer))
                continue
            resolve(asked.done, obstacle)
            if asked.twins is not None:
                for twin in asked.twins:
                    resolve(twin.done, obstacle or Obstacle(0, asked.timer))

    async def _insert(
        self,
        timers: Sequence[Timer],
        sending: Sending,
        *,
        guards: Mapping[int, Guard],
        each: bool,
        until: Callable[[], int],
    ) -> list[Obstacle]:
        """Sent until it is answered, or nobody waits any more; the receipt makes that safe."""
        tries = last_at = delay_ms = 0
        while True:
            obstacles: list[Obstacle] | None = None
            mark = self._arrivals.expect(timers)
            began = self.meter.ticks()
            if not isinstance(sending.failure, OutcomeUnknown):
                sending.failure = None  # what is known of the try before says nothing of this one
            try:
                obstacles = await self._store.insert(
                    timers, now=self._clock.now(), receipt=sending.receipt, guards=guards, each=each
                )
            except BaseException as error:
                self._arrivals.unsure(timers)
                tries += 1
                sending.is_first = False
                sending.failure = self._failed(error, sending.failure)
                again_at = self._clock.now() + (delay_ms := platform_delay_ms(tries, self._dice.random()))
                last_at = last_at or self._clock.now() + REPEAT_MS
                if self._is_stopped or again_at >= min(until(), last_at):
                    self._on_down(sending.failure)
                    raise sending.failure from None
            if obstacles is None:
                await self._clock.sleep(delay_ms)
                continue
            is_in = each or not obstacles or all(one.is_in for one in obstacles)
            if is_in and sending.is_first:
                self._tell_arrivals(timers, obstacles, mark)
            else:
                self._arrivals.unsure(timers)  # nothing was added, or nobody knows since when it is there
            if is_in:
                self.meter.inserts.add((self.meter.ticks() - began) // 1_000)
                self.groups += 1
                self.timers += len(timers) - len(obstacles)
            return obstacles

    def _tell_arrivals(self, timers: Sequence[Timer], obstacles: list[Obstacle], mark: int) -> None:
        """Those who wait for timers hear of them, but for those that are not in."""
        out = {one.index for one in obstacles if not one.is_in} if obstacles else ()
        if out:
            self._arrivals.unsure([timers[n] for n in out])
            timers = [timer for n, timer in enumerate(timers) if n not in out]
        self._arrivals.on_added(timers, mark)

    def _failed(self, error: BaseException, before: Unavailable | None) -> Unavailable:
        """Why it has to be tried again; what would not help is raised. Once the outcome is unknown, it stays so."""
        if not isinstance(error, Unavailable):
            if not isinstance(error, Exception) or isinstance(error, WakefulError):
                raise error
            fault = Unavailable(f"the store failed: {type(error).__name__}: {error}", code="store.fault")
            self._on_down(fault)
            raise fault from None
        if error.code == CANCELLED or isinstance(error, SlotMoved):
            raise error
        if isinstance(error, OutcomeUnknown):
            return error
        self._on_down(error)
        if isinstance(before, OutcomeUnknown):
            return OutcomeUnknown(f"{error.message}; whether the insert before it arrived is unknown")
        return error

    def _new_lane(self) -> InsertLane:
        return InsertLane(
            f"insert:{int(self._dice.random() * (1 << 52)):013x}{int(self._dice.random() * (1 << 52)):013x}"
        )

    def _let_in(self) -> None:
        room = WAITING_MAX - len(self._waiting)
        while self._room and (room > 0 or self._is_stopped):
            waiting = self._room.popleft()
            room -= not waiting.done()  # else its caller has gone, and takes nobody's place
            resolve(waiting, None)

    def _fail(self, asked: Sequence[InsertRequest], error: WakefulError) -> None:
        for one in _with_twins(asked):
            resolve(one.done, None, error)


def _with_twins(asked: Sequence[InsertRequest]) -> Iterator[InsertRequest]:
    for one in asked:
        yield one
        if one.twins is not None:
            yield from one.twins


def _taken_error(timer: Timer) -> StoreError:
    return StoreError(f"a timer name was taken that nobody else can have: {timer.name}", code="timer.name")


def _late(sending: Sending | None) -> WakefulError:
    """What is said at the deadline of what is on its way, or is not yet: why the store did not take it, if that is known."""
    if sending is None:
        return StoreDown("the store takes no more for now; nothing was written by the deadline, try again")
    failure = sending.failure
    if isinstance(failure, OutcomeUnknown):
        return OutcomeUnknown(f"{failure.message}; whether it was written is unknown, ask again with a key")
    if failure is not None:
        return StoreDown(f"{failure.message}; nothing was written by the deadline, try again")
    return DeadlineExceeded(
        "it was not on disk by the deadline; whether it will be is unknown, ask again with a key", code="job.deadline"
    )
