"""Layer 3. When does the node wake up to fire, and what does it hand out?

An exact sleep until the earliest timer in memory, or until it is time to read the next page; no
polling in between. A slow scan of everything due catches what no hint announced.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from wakeful.runtime.committer import Failure
from wakeful.runtime.queue import PAST_ALL
from wakeful.runtime.timer_runs import start_note
from wakeful.runtime.wakeup import Wakeup
from wakeful.values.errors import Unavailable
from wakeful.values.ids import shard_of
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.dispatcher")

PAGE = 2_000  # timers in one read, where a read is a round trip
LOCAL_PAGE = 400  # where a read holds up the event loop instead: about 3 ms
HANDED_OUT = 4
BACKLOG_MAX = 4_000  # commits on their way to disk before dispatch pauses
SAFETY_SCAN_MS = 600_000


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
        self._is_running = False
        self._has_more = False  # the store has timers past the edge but within the horizon
        self._scan_at = 0  # when to look at everything due again
        self._is_poked = False
        self.is_starved = False  # timers may be due, but there is no room: the next commit pokes
        self.unknown: set[str] = set()  # classes and timer names nobody here knows; their timers wait on disk
        self.fired = 0

    def start(self) -> None:
        self._is_running = True
        self.read_again()

    def stop(self) -> None:
        self._is_running = False
        self._due.set(None)
        self._page_due.set(None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def poke(self) -> None:
        """Something changed: look again once this pass of the event loop is over."""
        if self._is_running and not self._is_poked:
            self._is_poked = True
            asyncio.get_running_loop().call_soon(self._poked)

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

    def read_on(self) -> None:
        """Read the next page now."""
        self._has_more = True
        self.poke()

    def _poked(self) -> None:
        self._is_poked = False
        self.look()

    def _tick(self) -> None:
        node = self._node
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
        room = HANDED_OUT * node.limits.concurrent_turns - len(queue.running)
        if node.committer.backlog > BACKLOG_MAX:
            room = 0  # the disk is behind
        while room > 0:
            timer = queue.pop(now)
            if timer is None:
                break
            if self.hand_out(timer):
                room -= 1
        self.is_starved = room <= 0

    def hand_out(self, timer: Timer) -> bool:
        """Give a due timer to its object; False when it stays on disk."""
        node = self._node
        if not node.registry.knows(timer.id.cls):
            self._leave(timer, timer.id.cls, "class")
            return False
        if node.timer_runs.owner_of(timer.name) is None:
            self._leave(timer, timer.name.partition(":")[0], "timer owner")
            return False
        shard = shard_of(timer.id)
        epoch = node.epochs.get(shard)
        if epoch is None:
            node.queue.finished(timer)  # the shard is another's now
            return False
        self.fired += 1
        activation = node.awake.get(timer.id)
        is_suspect = timer.started != 0 and node.timer_runs.crashes_of(timer) > timer.crashes
        if is_suspect or (activation is not None and activation.is_busy):
            node.activation(timer.id).fire(timer)  # its start note waits until it really starts
        else:
            noted = node.queue.note(timer, epoch)
            note = start_note(noted, shard, epoch, timer.crashes, node.clock.now())
            node.committer.submit(note, partial(self._noted, noted))
        return True

    def _noted(self, timer: Timer, failure: Failure | None) -> None:
        """The start note is written: the timer may run, unless it was replaced or cleared meanwhile."""
        node = self._node
        if failure is not None:
            node.note_failed(failure)
        elif self._is_running and node.queue.running.get((timer.id, timer.name)) is timer:
            node.activation(timer.id).fire(timer)

    def _leave(self, timer: Timer, unknown: str, what: str) -> None:
        self._node.queue.finished(timer)
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
        if now >= self._scan_at:
            self._scan_at = now + SAFETY_SCAN_MS
            if queue.edge[0] >= now:
                self._reading = asyncio.get_running_loop().create_task(self._read(queue.edge[0], is_scan=True))
                return
        at = self._scan_at
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
        timers: list[Timer] = []
        try:
            while True:
                page, has_more = await node.reading(
                    node.store.timers(list(node.epochs), after=after, until=until, limit=self._page)
                )
                timers += page
                if not (is_scan and has_more and page):
                    break  # a scan goes on to the edge: what it is for may be on its last page
                after = page[-1].sort_key
        except Unavailable:
            return  # the node is down already and will start us again
        except Exception as error:
            log.exception("reading timers failed", extra={"code": "timers.read"})
            node.store_failed(Unavailable(f"reading timers failed: {error}", code="timers.read"))
            return
        finally:
            self._reading = None
        if is_scan:
            node.queue.end_page(timers, None)
        else:
            node.queue.end_page(timers, timers[-1].sort_key if has_more and timers else (until, PAST_ALL, 0))
            self._has_more = has_more
        self.look()
