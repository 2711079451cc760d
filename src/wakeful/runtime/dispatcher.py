"""Layer 3. When does the node wake up to fire, and what does it hand out?

An exact sleep until the earliest timer in memory, or until it is time to read the next page; no
polling in between. A slow scan of everything due catches what no hint announced.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from wakeful.runtime.committer import Failure
from wakeful.runtime.queue import PAST_ALL
from wakeful.runtime.slots import BACKLOG_MAX
from wakeful.values.commits import Commit, start_note
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer, TimerKey
from wakeful.values.times import Wakeup

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.dispatcher")

PAGE = 2_000  # timers in one read, where a read is a round trip
LOCAL_PAGE = 400  # where a read holds up the event loop instead: about 3 ms
HANDED_OUT = 4
HANDED_AT_ONCE = 250  # then others have the event loop for a moment, and the first notes go to disk
UNREAD_SHARE = 64
SHARES = 4  # a tenant that has more than one of so many shares of that lets others go first
SAFETY_SCAN_MS = 600_000
MANY = 8  # a node that takes one in so many of its shards anew starts slowly again
# Where other processes add timers: how often what is overdue is looked for on disk. A hint that was lost with the
# process that had to send it is made up for by the first, hints that the store can't carry at all by the second.
LOST_SCAN_MS = 5_000
UNTOLD_SCAN_MS = 1_000
# While timers are overdue that nobody here knows, looks don't begin before them: what is added is due then or later.
LOOK_BACK_MS = 15_000
NEWER_MAX = 10_000  # objects that are known to be newer: others are found to be so each time that they are due
LOOKS_MAX = 20  # separate places that are read one by one; more are read as one range

ALWAYS = (1 << 63) - 1
Look = tuple[frozenset[int], int, int]  # shards, and the first and last due time to read there


class Dispatcher:
    """Hands due timers to their objects, never before their time, never more than may run at once."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        # Fewer than this in memory, and the next page fits.
        self._page = min(PAGE, LOCAL_PAGE) if node.store.local else PAGE
        self._short_below = min(self._page, max(1, node.limits.near_timers // 2))
        self._ahead_ms = node.limits.near_horizon_ms // 2
        # Two, because they change at different times: each run of a timer moves the first, few of them the second.
        self._due = Wakeup(node.clock, self._tick)
        self._page_due = Wakeup(node.clock, self._tick)
        self._reading: asyncio.Task[None] | None = None
        self._asked_at: int | None = None  # when the page of timers was asked for that is under way
        self._is_running = False
        self._has_more = False  # the store has timers past the edge but within the horizon
        self._scan_at = 0  # when to look at everything due again
        self._overdue_at: int | None = None  # when to look for overdue ones that nobody told of
        self._looks: list[Look] = []  # places on disk to be read, because something was added there
        self._held: str | None = None  # why nothing fires
        self._waking: list[tuple[Timer, int, int]] | None = None  # with shard and epoch, while due ones are handed out
        self._marks = False  # starts are marked where that costs no trip to the disk, instead of being noted before
        self._is_poked = False
        node.committer.on_notes = self._noting_now
        self.is_starved = False  # timers may be due, but there is no room: the next commit pokes
        self._noting: dict[ObjectId, int] = {}  # objects of which start notes are on their way, and how many
        self._in_doubt: list[
            tuple[Timer, int]
        ] = []  # begun on disk, heard of after the lease: maybe somebody else's by now
        node.returns.append(self._is_sure)
        self.unknown: set[str] = set()  # classes, objects and timer names nobody here knows; their timers wait on disk
        self.newer: dict[ObjectId, int] = {}  # objects with more migrations than this program has, and how many
        self.fired = 0

    def start(self) -> None:
        self._is_running = True
        self._marks = not self._node.start_notes.must_precede(0)
        if self._node.is_clustered:
            self._overdue_at = self._node.clock.now() + self._overdue_every_ms
        self._node.slow_start.begin()
        self.read_again()

    @property
    def _overdue_every_ms(self) -> int:
        return LOST_SCAN_MS if self._node.store.listens else UNTOLD_SCAN_MS

    def hold(self, why: str | None) -> None:
        """Fire nothing for that reason, until called with None."""
        was, self._held = self._held, why
        if was is not None and why is None:
            self.read_again()

    @property
    def reading_ms(self) -> int:
        """How long the store has not answered what was asked of it about timers; 0 when nothing is asked."""
        return 0 if self._asked_at is None else self._node.clock.now() - self._asked_at

    def stop(self) -> None:
        self._is_running = False
        self._asked_at = None
        self._due.set(None)
        self._page_due.set(None)
        self._looks = []
        self._node.slow_start.stop()
        self._node.overload.stop()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def took(self, shards: Collection[int]) -> None:
        """These shards are ours from now on: read what memory would hold of them."""
        if len(shards) * MANY >= len(self._node.epochs):
            self._node.slow_start.begin()
        self.look_at(shards, 0, ALWAYS)

    def look_at(self, shards: Collection[int], first_at: int, last_at: int) -> None:
        """Something was added there: read it, as far as memory reaches."""
        self._looks.append((frozenset(shards), first_at, last_at))
        self.poke()

    def poke(self) -> None:
        """Something changed: look again once this pass of the event loop is over."""
        if self._is_running and not self._is_poked:
            self._is_poked = True
            asyncio.get_running_loop().call_soon(self._on_poke)

    def look(self) -> None:
        """Hand out what is due and has room, read what memory lacks, sleep until there is more."""
        if self._is_running:
            self._tick()

    def clock_was_set(self) -> None:
        """What is waited for comes at another moment now: look again, and wait anew."""
        self._due.set(None)
        self._page_due.set(None)
        self.read_again()

    def read_again(self) -> None:
        """Look at everything due afresh; running timers and later changes are kept apart by the queue."""
        self._scan_at = 0
        self.poke()

    def _on_poke(self) -> None:
        self._is_poked = False
        self.look()

    def _tick(self) -> None:
        node = self._node
        if self._held is not None:
            return
        now = node.clock.now()
        due_at = node.queue.earliest()
        if due_at is not None and due_at <= now:
            self._hand_out_due(now)
            due_at = node.queue.earliest()
        else:
            self.is_starved = False
        self._due.set(None if self.is_starved else due_at)
        self._read_when_due(now)

    def _hand_out_due(self, now: int) -> None:
        node, queue = self._node, self._node.queue
        # Handed out are those that wait for a slot, run, or are on their way to disk: more than may
        # run at once, so that turns go on while the disk is busy.
        total = HANDED_OUT * node.slots.bound
        # While what is due has not even been read to its end, reading goes before more of the same tenant's.
        is_reading = self._has_more and queue.edge[0] < now
        share = max(1, min(total // SHARES, UNREAD_SHARE if is_reading else total))
        room = total - len(queue.running)
        if node.overload.holds() or node.committer.backlog > BACKLOG_MAX:
            self.is_starved = True  # the end of it, or the next commit, looks again
            return
        pause = room - HANDED_AT_ONCE
        if room > 0:
            self._waking = [] if self._marks else None
            for timer in queue.due(now, share=share, is_strict=is_reading):
                if self.hand_out(timer):
                    room -= 1
                    if room <= 0 or room == pause:
                        break
            self._wake_together()
        if room <= 0:
            queue.sift(now, share=share)  # others may be behind a tenant that has more than it gets
        # After a pause there may be more that have room: then the next pass looks on by itself.
        self.is_starved = room <= 0 or (room != pause and len(queue.lines) > 0)

    def hand_out(self, timer: Timer, *, has_waited: bool = False) -> bool:
        """Give a due timer to its object, before later ones if it waited in line; False when it stays on disk."""
        node, id = self._node, timer.id
        unknown = self._unknown(timer)
        if unknown is not None:
            self._leave(timer, *unknown)
            return False
        if not node.lets_wake(id):
            self._lay_down(timer)
            return False
        shard = shard_of(id)
        epoch = node.epochs.get(shard)
        if epoch is None or shard in node.ownership.leaving:
            node.queue.finish(timer)  # the shard is another's now, or is about to be
            return False
        self.fired += 1
        activation = node.awake.get(id)
        is_suspect = timer.started != 0 and node.timer_runs.crashes_of(timer) > timer.crashes
        noting = self._noting.get(id, 0)
        # Behind one whose start note is on its way it goes the same way, or it would be there first.
        if has_waited:
            node.activation(id, shard).fire_before(timer)
        elif self._waking is not None and activation is None and not is_suspect:
            self._waking.append((timer, shard, epoch))
        elif is_suspect or self._marks or (not noting and activation is not None and activation.is_busy):
            node.activation(id, shard).fire(timer)  # its start note, or its mark, waits until it really starts
        else:
            self._noting[id] = noting + 1
            noted = node.queue.note(timer, epoch)
            note = start_note(noted, shard, epoch, timer.crashes, node.clock.now())
            node.committer.note(note, partial(self._on_noted, noted, shard))
        return True

    def _wake_together(self) -> None:
        """Fire those that were handed out to objects which sleep: what these need is read in few statements."""
        node, waking = self._node, self._waking or ()
        self._waking = None
        if len(waking) > 1 and not node.slots.waiting:
            for timer, _, epoch in waking:
                if timer.name.partition(":")[0] not in node.timer_runs.quiet and timer.id not in node.awake:
                    node.loader.begin(timer.id, epoch)
        for timer, shard, _ in waking:
            node.activation(timer.id, shard).fire(timer)

    def _noting_now(self, notes: list[Commit]) -> bool:
        """Start notes are on their way to a server, or are next: meanwhile have the objects read that will be woken.

        Not while turns wait for a slot: what would be read for them, and for those behind them, could be any amount.
        """
        node = self._node
        if node.slots.waiting:
            return False
        awake, quiet, begin = node.awake, node.timer_runs.quiet, node.loader.begin
        for note in notes:
            if note.id not in awake and note.starts[0].name.partition(":")[0] not in quiet:
                begin(note.id, note.epoch)
        return True

    def _on_noted(self, timer: Timer, shard: int, failure: Failure | None) -> None:
        """The start note is written: the timer may run, unless it was replaced or cleared meanwhile."""
        node, id = self._node, timer.id
        left = self._noting.pop(id) - 1
        if left:
            self._noting[id] = left
        if failure is not None:
            node.note_failed(id, failure)
            if node.state == "stopping" and node.queue.running.get((id, timer.name)) is timer:
                self._lay_down(timer)  # nobody runs it, so nobody may wait for it
        elif node.queue.running.get((id, timer.name)) is timer:
            # A node that stops runs it all the same: it is begun on disk, and its shard can't go before it has ended.
            if not node.lets_wake(id):
                self._lay_down(timer)
            elif node.is_doubted:
                self._in_doubt.append((timer, shard))
            else:
                node.activation(id, shard).fire(timer)
        if not left:
            node.loader.forget(id)  # if it was read and is not needed
        if self.is_starved:
            self.poke()  # it may have been the notes themselves that were too many to go on

    def _is_sure(self) -> None:
        """What we have is ours: what was begun and is still here may run."""
        node, doubted, self._in_doubt = self._node, self._in_doubt, []
        for timer, shard in doubted:
            if node.queue.running.get((timer.id, timer.name)) is timer:
                if node.lets_wake(timer.id):
                    node.activation(timer.id, shard).fire(timer)
                else:
                    self._lay_down(timer)

    def _lay_down(self, timer: Timer) -> None:
        """Its object wakes here no more: it is handed back when the node leaves."""
        self._node.outage.keep([timer])
        self._node.queue.finish(timer)

    def met_newer(self, id: ObjectId, done: int) -> None:
        """A newer program has migrated it: its timers wait, until it is met by a program that knows as much."""
        self.newer.pop(id, None)
        self.newer[id] = done
        while len(self.newer) > NEWER_MAX:
            del self.newer[next(iter(self.newer))]

    def met_known(self, id: ObjectId) -> None:
        """This program knows all that it has had: if it did not before, an operator has put an older one back."""
        if self.newer.pop(id, None) is not None:
            self.read_again()

    def leave(self, timer: Timer) -> None:
        """It was begun, and its object is newer than this program: it stays on disk."""
        unknown = self._unknown(timer)
        assert unknown is not None
        self._leave(timer, *unknown)
        self.poke()

    def _unknown(self, timer: Timer) -> tuple[str, str] | None:
        """What about it this program does not know, and what that is."""
        node = self._node
        if self.newer and timer.id in self.newer and timer.name.partition(":")[0] not in node.timer_runs.quiet:
            return f"{timer.id.cls} {self.newer[timer.id]}", "migration"
        if not node.registry.has(timer.id):
            is_class_known = node.registry.knows(timer.id.cls)
            return (str(timer.id), "object") if is_class_known else (timer.id.cls, "class")
        if node.timer_runs.handler_of(timer.name) is None:
            return timer.name.partition(":")[0], "timer owner"
        return None

    def _readable(self, page: Sequence[Timer]) -> Sequence[Timer]:
        """The page without what is due and unknown here: held in memory, any number of those would crowd out the rest."""
        now = self._node.clock.now()
        return [timer for timer in page if timer.due_at > now or self._unknown(timer) is None]

    def _leave(self, timer: Timer, unknown: str, what: str) -> None:
        self._node.queue.finish(timer)
        if unknown not in self.unknown:
            self.unknown.add(unknown)
            log.warning(
                "%s %s of %s is due, but this process knows no %s %r; it stays in the store until one does",
                timer.name,
                timer.nominal_at,
                timer.id,
                what,
                unknown,
                extra={"code": "timer.unknown"},
            )

    def _read_when_due(self, now: int) -> None:
        """Read when the edge of what memory holds comes near, or everything is to be looked at; else sleep until then."""
        if self._reading is not None:
            return  # its end looks again
        queue = self._node.queue
        if self._overdue_at is not None and now >= self._overdue_at:
            self._overdue_at = now + self._overdue_every_ms
            # Else it is read page by page anyway.
            if not self.is_starved and not queue.lines.behind and queue.edge[0] >= now:
                first_at = now - self._overdue_every_ms - LOOK_BACK_MS if self.unknown else 0
                self._looks.append((frozenset(self._node.epochs), first_at, now))
        if self._looks:
            self._reading = asyncio.get_running_loop().create_task(self._read_looks())
            return
        tenant = queue.lines.short()
        if tenant is not None:
            self._reading = asyncio.get_running_loop().create_task(self._read_behind(tenant))
            return
        if queue.lines.behind:  # more than memory may hold is due, and is read bit by bit
            self._scan_at = max(self._scan_at, now + LOST_SCAN_MS)
        if now >= self._scan_at:
            self._scan_at = now + SAFETY_SCAN_MS
            if queue.edge[0] >= now:
                self._reading = asyncio.get_running_loop().create_task(self._read(queue.edge[0], is_scan=True))
                return
        at = self._scan_at if self._overdue_at is None else min(self._scan_at, self._overdue_at)
        if len(queue) < self._short_below:
            at = min(at, now if self._has_more else queue.edge[0] - self._ahead_ms)
            if at <= now:
                self._reading = asyncio.get_running_loop().create_task(
                    self._read(now + 2 * self._ahead_ms, is_scan=False)
                )
                return
        self._page_due.set(at)

    async def _read(self, until: int, *, is_scan: bool) -> None:
        node = self._node
        edge = node.queue.begin_page()
        after = None if is_scan else edge
        shards = list(node.epochs)
        try:
            # A scan goes on to the edge: what it is for may be on its last page.
            timers, more_at = await self._pages(shards, after, until, is_whole=is_scan)
        except Unavailable:
            return  # the node is down already and will start us again
        finally:
            self._reading = None
        if is_scan:
            node.queue.end_page(timers, None)
        else:
            node.queue.end_page(timers, more_at or (until, PAST_ALL, 0))
            self._has_more = more_at is not None
        self.look()

    async def _read_behind(self, tenant: str) -> None:
        """Read on where timers of that tenant were left on disk, because its line gets short."""
        node = self._node
        edge = node.queue.begin_page()
        after = node.queue.lines.behind[tenant]
        try:
            timers, more_at = await self._pages(list(node.epochs), after, edge[0], is_whole=False)
        except Unavailable:
            return  # the node is down already and will start us again
        finally:
            self._reading = None
        node.queue.lines.read_to(tenant, more_at)
        node.queue.end_page(timers, None)
        self.look()

    async def _read_looks(self) -> None:
        """Read the places where something was added, as far as memory reaches; what is further away comes page by page."""
        node = self._node
        looks, self._looks = self._looks, []
        edge = node.queue.begin_page()
        page: list[Timer] = []
        try:
            for shards, first_at, last_at in _join_looks(looks):
                mine = [shard for shard in shards if shard in node.epochs]
                if mine and first_at <= edge[0]:
                    after = (first_at - 1, PAST_ALL, 0)
                    timers, _ = await self._pages(mine, after, min(last_at, edge[0]), is_whole=True)
                    page += timers
        except Unavailable:
            return  # the node is down already and will start us again
        finally:
            self._reading = None
        node.queue.end_page(page, None)
        self.look()

    async def _pages(
        self, shards: list[int], after: TimerKey | None, until: int, *, is_whole: bool
    ) -> tuple[list[Timer], TimerKey | None]:
        """A page of timers, and the place behind which there are more; all pages when it must be whole."""
        node = self._node
        epochs = dict(node.epochs)
        timers: list[Timer] = []
        asked_at = 0
        try:
            while True:
                self._asked_at = asked_at = node.clock.now()
                page, has_more = await node.reading(
                    node.store.timers(shards, after=after, until=until, limit=self._page)
                )
                timers += self._readable(page) if self.unknown else page
                after = page[-1].sort_key if has_more and page else None
                if not is_whole or after is None:
                    return self._still_ours(timers, epochs), after
        except Unavailable:
            raise
        except Exception as error:
            log.exception("reading timers failed", extra={"code": "timers.read"})
            down = Unavailable(f"reading timers failed: {error}", code="timers.read")
            node.store_failed(down)
            raise down from error
        finally:
            if self._asked_at == asked_at:  # else one that was cut off unwinds, and another is under way
                self._asked_at = None

    def _still_ours(self, timers: list[Timer], epochs: dict[int, int]) -> list[Timer]:
        """Without those of shards that went meanwhile, come back or not: another may have run or cleared what a page had."""
        now = self._node.epochs
        if now == epochs:
            return timers
        gone = {shard for shard, epoch in epochs.items() if now.get(shard) != epoch}
        return [timer for timer in timers if shard_of(timer.id) not in gone]


def _join_looks(looks: list[Look]) -> list[Look]:
    """The same places in few reads: shards of one range together; when there are many ranges, one around them all."""
    together: dict[tuple[int, int], frozenset[int]] = {}
    for shards, first_at, last_at in looks:
        together[first_at, last_at] = together.get((first_at, last_at), frozenset()) | shards
    if len(together) > LOOKS_MAX:
        every = frozenset().union(*together.values())
        return [(every, min(first for first, _ in together), max(last for _, last in together))]
    return [(shards, first_at, last_at) for (first_at, last_at), shards in together.items()]
