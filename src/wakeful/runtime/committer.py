"""Layer 3. How do many turns share one trip to the disk?"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextvars import Context

from wakeful.store.protocol import ALONE, Outcome, Store
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, Unavailable, WakefulError
from wakeful.values.metrics import Meter

GROUP_BYTES_MAX = 16 << 20  # a server takes no statement of a gibibyte, and a lease waits for no large one
CROWD = 16  # so many in a group make it worth a thought when they are told
TURN_NS = 20_000  # no turn takes less
AGAIN = 64  # groups until it is tried again whether it is worth it to wait for those who were told

# One caller alone: to wake the writer's thread and to be woken by it costs it more than the disk does.
ALONE_AFTER = 8  # groups of one that nothing came beside
ALONE_FOR = 32  # groups in the loop's thread, in which nobody can be seen to come; then it is looked again
LOOKS = 2
SLOW_NS = 10_000_000  # so long the loop must not stand: after one that took longer
FORBIDDEN_NS = 60_000_000_000  # none is tried for so long

Failure = Fenced | WakefulError
OnDone = Callable[[Failure | None], None]


class Solitude:
    """Has somebody committed one at a time for a while, with nothing beside it that the event loop had to do?"""

    def __init__(self) -> None:
        self._lone = 0  # groups of one in a row; the last of them in the loop's thread
        self._forbidden_until = 0

    def allows(self, *, is_lone: bool, now: int) -> bool:
        """The next group may be written in the loop's thread."""
        if not is_lone:
            self._lone = 0
        return self._lone >= ALONE_AFTER and now >= self._forbidden_until

    def note(self, *, was_inside: bool, is_lone: bool, now: int, took: int) -> None:
        """It was written, so, and nothing came meanwhile (as far as that can be seen)."""
        if was_inside and took > SLOW_NS:
            self._forbidden_until = now + FORBIDDEN_NS
        if not is_lone:
            self._lone = 0
            return
        self._lone += 1
        if self._lone >= ALONE_AFTER + ALONE_FOR:
            self._lone = ALONE_AFTER - LOOKS


class Committer:
    """Group commit: while one list is on its way to disk the next gathers; an idle node adds no delay."""

    def __init__(
        self,
        store: Store,
        node: str,
        *,
        group_max: int,
        on_down: Callable[[Unavailable], None],
        on_group: Callable[[], None],
    ) -> None:
        self._store = store
        self._node = node
        self._group_max = group_max
        self._on_down = on_down
        self._on_group = on_group
        # Hears of start notes that go now or next, once, unless it says that it did not listen.
        self.on_notes: Callable[[list[Commit]], bool] | None = None
        self.meter = Meter(lambda: 0)  # its node gives it its own
        self._waiting: list[Commit] = []
        self._listeners: list[OnDone] = []  # of those that wait, in the same order
        # Start notes, where they go before the rest; with who hears of each.
        self._notes: list[tuple[Commit, OnDone]] = []
        self._told = 0  # of how many of these, from the first on, `on_notes` has heard
        self._under_way = 0
        # One task for all groups: a task for each is a tenth of the cost of a small turn.
        self._worker: asyncio.Task[None] | None = None
        self._rest: asyncio.Future[None] | None = None  # what the worker waits for while there is nothing to do
        self._is_ending = False
        self._began = 0  # when the last group was sent
        self._ended = 0  # when everyone in the last group had been told
        self._untried = 0  # groups until it is tried again
        self._solitude = Solitude()
        self.sent = 0  # groups that were sent, on disk or not
        self.groups = 0
        self.commits = 0

    @property
    def backlog(self) -> int:
        """Commits that are not on disk yet."""
        return len(self._waiting) + len(self._notes) + self._under_way

    @property
    def is_sending(self) -> bool:
        """A group is on its way, or was written and not everyone in it has heard."""
        return self._under_way > 0

    @property
    def sending_ms(self) -> int:
        """How long the group that is on its way has been so; 0 when there is none."""
        return (self.meter.ticks() - self._began) // 1_000_000 if self._under_way else 0

    def submit(self, commit: Commit, on_done: OnDone) -> None:
        """Take the commit into the next group; `on_done` hears what became of it, in order of submission."""
        self._waiting.append(commit)
        self._listeners.append(on_done)
        self._go()

    def note(self, note: Commit, on_done: OnDone) -> None:
        """The same for the start note of a timer whose object is not busy; notes go in their order, before what waits.

        A due timer waits for it: behind the calls of a flood it would wait for two of their groups.
        """
        self._notes.append((note, on_done))
        self._go()

    def _go(self) -> None:
        # The worker begins one pass of the event loop later, so turns that end in this pass share its group.
        if self._rest is not None:
            self._wake()
        elif self._worker is None:
            # A context of its own: the turn that happens to be first must not be seen, or kept, by all later ones.
            self._worker = asyncio.get_running_loop().create_task(self._work(), context=Context())

    def abandon(self, error: Unavailable) -> None:
        """Fail whatever has not been sent: what it was built on is gone."""
        dropped = [on_done for _, on_done in self._notes] + self._listeners
        self._waiting, self._listeners, self._notes, self._told = [], [], [], 0
        for on_done in dropped:
            on_done(error)

    def kill(self) -> None:
        """Drop everything without a word, as a crash would."""
        self._waiting, self._listeners, self._notes, self._told, self._under_way = [], [], [], 0, 0
        if self._worker is not None:
            self._worker.cancel()
            self._worker = self._rest = None  # cancelled before its first step it would never say so itself

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way; the worker goes home."""
        while self._worker is not None:
            self._is_ending = True
            self._wake()
            await asyncio.wait([self._worker])

    def _wake(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None and not rest.done():
            rest.set_result(None)

    async def _work(self) -> None:
        me = asyncio.current_task()
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._waiting or self._notes:
                    await self._flush()
                if self._is_ending or self._worker is not me:
                    break
                self._rest = loop.create_future()
                await self._rest
        finally:
            if self._worker is me:
                self._worker, self._rest, self._is_ending = None, None, False

    def _next_size(self) -> int:
        """How many of those that wait make the next group: as many as may, but not more bytes than one trip should carry."""
        size = 0
        for index, commit in enumerate(self._waiting[: self._group_max]):
            if commit.puts:
                size += sum(map(len, commit.puts.values()))
            if commit.sends:
                size += sum(len(timer.payload or b"") for timer in commit.sends)
            if commit.records:
                size += sum(len(record.answer) for record in commit.records)
            if size > GROUP_BYTES_MAX:
                return max(1, index)
        return self._group_max

    async def _flush(self) -> None:
        """Bring what waits to disk: notes, then the next group.

        Where that is a trip to a server they share it, half and half when there are many of both: so that, while what
        has run is written, there is something to run. Where it is none, notes go alone: then they don't wait for the disk.
        """
        group, listeners = self._take_notes() if self._notes else ([], [])
        if group and self._store.local:
            await self._send(group, listeners)
            group, listeners = [], []
        most = min(self._next_size(), max(1, self._group_max - len(group)))
        group += self._waiting[:most]
        listeners += self._listeners[:most]
        del self._waiting[:most], self._listeners[:most]
        if group:
            await self._send(group, listeners)

    def _take_notes(self) -> tuple[list[Commit], list[OnDone]]:
        """As many notes as go now."""
        is_shared = bool(self._waiting) and not self._store.local
        notes_max = max(1, self._group_max // 2) if is_shared else self._group_max
        if self.on_notes is not None and not self._store.local:
            near = min(len(self._notes), notes_max + self._group_max // 2)
            if self._told < near and self.on_notes([note for note, _ in self._notes[self._told : near]]):
                self._told = near
        noted = self._notes[:notes_max]
        del self._notes[:notes_max]
        self._told = max(0, self._told - notes_max)
        return [note for note, _ in noted], [on_done for _, on_done in noted]

    async def _send(self, group: list[Commit], listeners: list[OnDone]) -> None:
        """Bring a group to disk and tell everyone in it."""
        self._under_way = len(group)
        self.sent += 1
        meter = self.meter
        self._began = began = meter.ticks()
        rested = began - self._ended
        is_lone = len(group) == 1 and self._has_nobody
        is_inside = self._solitude.allows(is_lone=is_lone, now=began)
        if is_inside:
            token = ALONE.set(True)
        try:
            outcomes: Sequence[Outcome] = await self._store.commit(self._node, group)
        except Unavailable as error:
            self._fail(listeners, error)
            return
        except Exception as error:
            # A store that fails in a way it did not name: nothing is known about the group.
            self._fail(listeners, Unavailable(f"the store failed: {type(error).__name__}: {error}", code="store.fault"))
            return
        finally:
            if is_inside:
                ALONE.reset(token)
        took = meter.ticks() - began
        self._solitude.note(was_inside=is_inside, is_lone=is_lone and self._has_nobody, now=began, took=took)
        meter.commits.add(took // 1_000)
        meter.commit_sizes.add(len(group))
        self.groups += 1
        self.commits += len(group)
        is_crowd = len(group) >= CROWD
        if is_crowd and 3 * rested < 5 * took < 5 * rested and self._is_everyone(group, outcomes):
            listeners, outcomes = await self._tell_half(listeners, outcomes)
        self._under_way = 0
        built_on = [] if outcomes.count(None) == len(outcomes) else self._take_built_on(group, outcomes)
        for on_done, outcome in zip(listeners, outcomes, strict=True):
            on_done(outcome)
        for on_done, failure in built_on:
            on_done(failure)
        self._on_group()
        self._ended = meter.ticks()
        if is_crowd and self._waiting and not self._notes and took > 3 * TURN_NS * len(group):
            await self._let_join(took)

    # Callers who are told together come back together: then the store rests while their turns run, and they rest while
    # it writes. In two halves, one of which runs while the other is written, they get more done for as long as the
    # store is the quicker, and less when it is the slower. (When it is quicker by far there is nothing to gain, and
    # the second group is not free.)

    @property
    def _has_nobody(self) -> bool:
        return not self._waiting and not self._notes

    def _is_everyone(self, group: list[Commit], outcomes: Sequence[Outcome]) -> bool:
        """Nobody waits for the next group, and it does no harm to be told later than others of this one: timers don't wait."""
        return self._has_nobody and outcomes.count(None) == len(group) and not any(commit.starts for commit in group)

    async def _tell_half(
        self, listeners: list[OnDone], outcomes: Sequence[Outcome]
    ) -> tuple[list[OnDone], Sequence[Outcome]]:
        """Tell the first half; the others are to be told when the turns of those have run."""
        half = len(listeners) // 2
        self._under_way -= half
        for on_done, outcome in zip(listeners[:half], outcomes[:half], strict=True):
            on_done(outcome)
        await _Pass()
        return listeners[half:], outcomes[half:]

    async def _let_join(self, took: int) -> None:
        """Others wait for the next group: where the store is slow, let those who were just told run and join them."""
        if self._untried:
            self._untried -= 1
            return
        await _Pass()
        # Their turns are half of the work; and a part of what the store takes is work in this thread, too.
        if 3 * (self.meter.ticks() - self._ended) > took:
            self._untried = AGAIN

    def _take_built_on(self, group: list[Commit], outcomes: Sequence[Outcome]) -> list[tuple[OnDone, Failure]]:
        """Those that wait and were built on one that was refused: the next turn of its object had begun by then."""
        refused = {commit.id: outcome for commit, outcome in zip(group, outcomes, strict=True) if outcome is not None}
        waiting, self._waiting = self._waiting, []
        listeners, self._listeners = self._listeners, []
        taken: list[tuple[OnDone, Failure]] = []
        for commit, on_done in zip(waiting, listeners, strict=True):
            if commit.id in refused:
                taken.append((on_done, refused[commit.id]))
            else:
                self._waiting.append(commit)
                self._listeners.append(on_done)
        return taken

    def _fail(self, listeners: list[OnDone], error: Unavailable) -> None:
        self._under_way = 0
        self.meter.commit_failures.add(len(listeners))
        self._on_down(error)
        for on_done in listeners:
            on_done(error)
        self.abandon(error)


class _Pass:
    """Awaited, it lets everything run that is ready now."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield
