"""Layer 3. How do timers from outside a turn share trips to the disk?"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Protocol

from wakeful.logic.retry import platform_delay_ms
from wakeful.runtime.calls import resolve
from wakeful.store.protocol import CANCELLED, Store
from wakeful.values.clock import Clock, Dice
from wakeful.values.errors import BadInput, NotRunning, OutcomeUnknown, StoreError, Unavailable, WakefulError
from wakeful.values.metrics import Meter
from wakeful.values.timers import Timer

GROUP_MAX = 2_000  # timers in one insert, so that one stays a few milliseconds
GROUP_BYTES_MAX = 4 << 20  # of what they carry, or a few thousand large ones would be more than a server takes
WAITING_MAX = 20_000  # timers that wait for the disk; past it callers wait to be let in
ALONE_MAX = 4  # inserts of their own under way at once: each may hold a hundred thousand timers
TRIES_MAX = 4  # of an insert whose outcome is unknown; by then the caller had better hear of it


class Arrivals(Protocol):
    """Who must hear of timers that come to disk (see arrivals.py)."""

    def expect(self, timers: Sequence[Timer]) -> int: ...

    def added(self, timers: Sequence[Timer], mark: int) -> None: ...

    def unsure(self, timers: Sequence[Timer]) -> None: ...


class Inserter:
    """Group insert: while one is on its way to disk the next gathers; an idle node adds no delay."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        dice: Dice,
        *,
        arrivals: Arrivals,
        on_down: Callable[[Unavailable], None],
    ) -> None:
        self._store = store
        self.meter = Meter(lambda: 0)  # its node gives it its own
        self._clock = clock
        self._dice = dice
        self._arrivals = arrivals
        self._on_down = on_down
        self._waiting: deque[tuple[Timer, asyncio.Future[None]]] = deque()
        self._room: deque[asyncio.Future[None]] = deque()  # callers that wait to be let in, first come first
        self._worker: asyncio.Task[None] | None = None
        self._alone = asyncio.Semaphore(ALONE_MAX)
        self._is_stopped = False
        self.groups = 0
        self.timers = 0

    async def add(self, timer: Timer) -> None:
        """Bring a timer to disk whose name nobody else can have."""
        while len(self._waiting) >= WAITING_MAX:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        if self._is_stopped:
            raise NotRunning("the node is stopped; nothing was written")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((timer, done))
        if self._worker is None:
            # A context of its own, as in the committer: the first caller's turn must not be seen by all later ones.
            self._worker = asyncio.get_running_loop().create_task(self._work(), context=Context())
        await done

    async def add_all(self, timers: Sequence[Timer]) -> list[Timer]:
        """Bring all of them to disk or none; the timers that have their names already, [] when it was done."""
        async with self._alone:
            return await self._insert(timers)

    def stop(self) -> None:
        """Whoever waits hears that the node is gone; nothing more is sent."""
        self._is_stopped = True
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None
        self._fail(
            [done for _, done in self._waiting], NotRunning("the node stopped; whether it was written is unknown")
        )
        self._waiting.clear()
        self._let_in()

    async def _work(self) -> None:
        try:
            while self._waiting:
                group = self._next_group()
                try:
                    await self._flush(group)
                except BaseException as error:
                    gone = NotRunning("the node stopped; whether it was written is unknown")
                    self._fail([done for _, done in group], error if isinstance(error, WakefulError) else gone)
                    if not isinstance(error, Exception):
                        raise
                self._let_in()
        finally:
            self._worker = None

    def _next_group(self) -> list[tuple[Timer, asyncio.Future[None]]]:
        group, size = [self._waiting.popleft()], 0
        while self._waiting and len(group) < GROUP_MAX:
            size += len(group[-1][0].payload or b"")
            if size > GROUP_BYTES_MAX:
                break
            group.append(self._waiting.popleft())
        return group

    async def _flush(self, group: list[tuple[Timer, asyncio.Future[None]]]) -> None:
        timers = [timer for timer, _ in group]
        refused: dict[int, WakefulError] = {}
        try:
            await self._insert_new(timers)
        except (StoreError, BadInput):
            if len(group) == 1:
                raise
            for index, timer in enumerate(timers):  # find those that the store refuses by themselves
                try:
                    await self._insert_new([timer])
                except (StoreError, BadInput) as error:
                    refused[index] = error
        for index, (_, done) in enumerate(group):
            resolve(done, None, refused.get(index))

    async def _insert_new(self, timers: Sequence[Timer]) -> None:
        """Insert under names that nobody else can have: those that are taken are ours, from a try of unknown outcome."""
        taken = await self._insert(timers)
        if not taken:
            return
        there = {(timer.id, timer.name): timer.seq for timer in taken}
        sent = {(timer.id, timer.name): timer.seq for timer in timers}
        foreign = [name for name, seq in there.items() if sent[name] != seq]
        rest = [timer for timer in timers if (timer.id, timer.name) not in there]
        if foreign or (rest and await self._insert(rest)):
            raise StoreError(f"a timer name was taken that nobody else can have: {foreign}", code="timer.name")

    async def _insert(self, timers: Sequence[Timer]) -> list[Timer]:
        """One trip; when its outcome is unknown it is made again, which names make safe."""
        tries = 0
        while True:
            mark = self._arrivals.expect(timers)
            began = self.meter.ticks()
            try:
                taken = await self._store.insert(timers, now=self._clock.now())
            except BaseException as error:
                self._arrivals.unsure(timers)
                tries += 1
                if not isinstance(error, OutcomeUnknown) or tries >= TRIES_MAX:
                    raise self._failed(error, tries) from None
                await self._clock.sleep(platform_delay_ms(tries, self._dice.random()))
                continue
            if taken:
                self._arrivals.unsure(timers)
                return [] if tries and _are_same(taken, timers) else taken
            self._arrivals.added(timers, mark)
            self.meter.inserts.add((self.meter.ticks() - began) // 1_000)
            self.groups += 1
            self.timers += len(timers)
            return []

    def _failed(self, error: BaseException, tries: int) -> BaseException:
        """What the caller hears."""
        if not isinstance(error, Exception) or (isinstance(error, WakefulError) and not isinstance(error, Unavailable)):
            return error
        if not isinstance(error, Unavailable):
            error = Unavailable(f"the store failed: {type(error).__name__}: {error}", code="store.fault")
        if error.code != CANCELLED:
            self._on_down(error)
        if tries > 1 and not isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(f"{error.message}; whether the insert before it arrived is unknown")
        return error

    def _let_in(self) -> None:
        room = WAITING_MAX - len(self._waiting)
        while self._room and (room > 0 or self._is_stopped):
            waiting = self._room.popleft()
            room -= not waiting.done()  # else its caller has gone, and takes nobody's place
            resolve(waiting, None)

    def _fail(self, waiting: Sequence[asyncio.Future[None]], error: WakefulError) -> None:
        for done in waiting:
            resolve(done, None, error)


def _are_same(taken: Sequence[Timer], timers: Sequence[Timer]) -> bool:
    """All of them are there, each the very setting that was sent."""
    sent = {(timer.id, timer.name): timer.seq for timer in timers}
    return len(taken) == len(timers) and all(sent.get((timer.id, timer.name)) == timer.seq for timer in taken)
