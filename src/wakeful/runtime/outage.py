"""Layer 3. What does a node do while its store is away, and when it is back?"""

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime import ended_epochs
from wakeful.runtime.calls import resolve
from wakeful.values.errors import ClusterError, NotRunning, OutcomeUnknown, StoreDown, Unavailable
from wakeful.values.ids import SHARDS, ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.node")

SAID_MS = 60_000  # of one cause the log hears so often, while the store comes and goes
BEGUN_MAX = 20_000  # timers of outages that are remembered, to be handed back at a stop
_NUMBERS = re.compile(r"\d+")


class Outage:
    """Answers nothing, believes nothing, asks again and again."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._recovery: asyncio.Task[None] | None = None
        self.count = 0
        self._said: dict[str, int] = {}  # when, of each cause
        self._is_said = True  # of this outage the log has heard
        self._unsaid = 0  # short ones since the log heard of one
        self.epochs: dict[int, int] = {}  # that were ours when it began
        self.begun: dict[tuple[ObjectId, str], Timer] = {}  # timers whose start notes may still be on disk
        self._waiting: dict[asyncio.Future[None], None] = {}  # who wait until it is over, first come first

    def begin(self, error: Unavailable) -> None:
        """The store can't be written: everyone who waits is told, and what memory believes is forgotten."""
        node = self._node
        if node.state != "up":
            return
        self.count += 1
        self._is_said = False
        if not self._is_locked and self._is_news(error):
            self._say(error)
        node.state, node.is_doubted = "down", False
        node.down_because = error
        node.dispatcher.stop()
        node.membership.stop()
        self.epochs = dict(node.epochs)
        node.ownership.unsure = dict(node.epochs)
        self.keep(node.queue.running.values())
        node.queue.reset()
        # A read that failed says nothing of the commit that is on its way beside it.
        unknown = OutcomeUnknown(f"{error.message}; whether what was on its way arrived is unknown, use a request key")
        is_sending = node.committer.is_sending
        for activation in list(node.awake.values()):
            node.drop(activation, unknown if is_sending and activation.is_unsettled else error)
        node.take_leave(range(SHARDS))
        node.committer.abandon(error)
        self._recovery = asyncio.get_running_loop().create_task(self._recover())

    def keep(self, begun: Iterable[Timer]) -> None:
        """These were handed out when the store went: not they are to blame, should this process end before they run again."""
        for timer in begun:
            self.begun.pop((timer.id, timer.name), None)
            self.begun[timer.id, timer.name] = timer
        while len(self.begun) > BEGUN_MAX:
            del self.begun[next(iter(self.begun))]

    @property
    def _is_locked(self) -> bool:
        """Somebody holds a table: the log has that, once, and not each statement that runs out of time for it."""
        return self._node.lock_watch.held_lock is not None

    def _is_news(self, error: Unavailable) -> bool:
        """A full disk is read and can't be written: the store would be away and back, five times a second."""
        now = self._node.clock.now()
        self._said = {cause: at for cause, at in self._said.items() if at <= now < at + SAID_MS}
        cause = _NUMBERS.sub("#", error.message)
        if cause in self._said:
            return False
        self._said[cause] = now
        return True

    def _say(self, error: Unavailable) -> None:
        # It may as well have been this process that was away: frozen, or cut off.
        stood = self._node.membership.standstill.words()
        more = f"; {stood}" if stood else ""
        more += f" ({self._unsaid} short ones before it were not said)" if self._unsaid else ""
        log.warning(
            "nothing is answered or fired until the store answers: %s%s", error, more, extra={"code": "store.down"}
        )
        self._is_said, self._unsaid = True, 0
        if self._node.notices is not None:
            self._node.notices.outage_began(error)

    def end(self) -> None:
        """The store is there, or nobody need wait for it any more: those who did go on, and see."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            resolve(future, None)

    async def over(self, deadline_at: int) -> None:
        """Wait for a store that is away, or that has to say whose the objects are; `StoreDown` when it takes too long.

        Too long is `store_wait_ms`, or until that deadline; and no more than `store_waiting` wait at once. Nothing was
        begun for whoever is refused here, so nothing was written.
        """
        node = self._node
        until = min(deadline_at, node.clock.now() + node.limits.store_wait_ms)
        while node.state == "down" or (node.state == "up" and node.is_doubted):
            if len(self._waiting) >= node.limits.store_waiting:
                raise Unavailable(
                    f"{len(self._waiting)} calls wait for the store already, the limit; nothing was written, back off",
                    code="store.waiting",
                )
            if node.clock.now() >= until:
                raise self.refusal()
            await self._wait(until)
        if node.state != "up":
            raise self.refusal()

    async def _wait(self, until: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        handle = self._node.clock.call_at(until, lambda: resolve(future, None))
        try:
            await future
        finally:
            handle.cancel()
            self._waiting.pop(future, None)

    def stop(self) -> None:
        self.end()
        if self._recovery is not None:
            self._recovery.cancel()
            self._recovery = None

    # A commit of which no answer came may still arrive, and an object that woke before would not know of it. A node that is up
    # claims new epochs then, as whoever comes next does; one that stops lets nobody wake whom such a commit may be of.

    def bar(self, id: ObjectId) -> None:
        """A commit of this object failed while the node stops."""
        if self._node.state == "stopping":
            self._node.barred.add(id)

    def shut(self) -> None:
        """The node stops and the store is away: a commit of any object may be on its way, until all shards are claimed anew."""
        self._node.is_shut = True
        self._node.barred.clear()

    def refusal(self) -> Unavailable:
        """What a caller is told while nothing can be done for it."""
        node = self._node
        if node.state == "down":
            because = node.down_because
            return StoreDown(
                f"the store is away ({because.message if because else 'unknown'}); nothing was written, try again"
            )
        if node.state == "up" and node.is_doubted:
            return StoreDown(
                "the store does not answer, so the objects may be another node's; nothing was written, try again"
            )
        if node.state == "up":
            return Unavailable("the node has just come back; try again")
        return NotRunning(f"the node is {node.state}; start it with app.run(…)")

    async def _recover(self) -> None:
        """Claim anew what is still ours (waiting out commits whose fate is unknown), then go on as after a start."""
        node = self._node
        tries = 0
        while True:
            await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
            tries += 1
            try:
                await node.store.open(now=node.clock.now())
                node.epochs.clear()
                if node.is_clustered:
                    await node.membership.start()
                else:
                    await node.take_over()
            except ClusterError as error:  # others are there by now, whom it can't be one of: not the store is to blame
                node.down_because = Unavailable(error.message, code=error.code)
                if self._is_news(node.down_because):
                    self._say(node.down_because)
                continue
            except Exception as error:  # whatever it is: to give up would leave the node down for good
                if not self._is_said and not self._is_locked:
                    self._say(node.down_because or StoreDown("unknown"))  # this one lasts
                log.info("the store does not answer yet: %s", error, extra={"code": "store.down"})
                continue
            break
        if self._is_said:
            log.warning("the store answers again, after %d tries", tries, extra={"code": "store.up"})
        else:
            self._unsaid += 1
        self._recovery = None
        node.sideline.cut(set(range(SHARDS)) - node.epochs.keys())
        node.go_up()
        if self._is_said and node.notices is not None:
            node.notices.outage_ended()


# How does a node that stops take leave of its store, also of one that is away?
#
# Timers that it had begun and that the stop cut off did not kill a process, so their start notes are taken back. While
# the store is away that can't be written: it is tried until the time for the stop is over. First of all those are told
# who need no store for it: see `ended_epochs`.

LAST_WORDS_MS = 5_000  # past the deadline of the stop, to say what a store that is back should know


async def leave(node: "Node", *, was_down: bool) -> None:
    """Hand over or hand back what the node has, and be no member any more; a store that is away is waited for."""
    until = node.clock.now() + node.limits.stop_deadline_ms
    epochs = dict(node.outage.epochs if was_down else node.epochs)
    because: Unavailable | None = node.down_because
    if not was_down:
        try:
            await _within(node, until + LAST_WORDS_MS, _part(node))
            return
        except Unavailable as error:
            because = error
        node.outage.keep(node.queue.running.values())
        for activation in list(node.awake.values()):  # none of them may commit under the epochs that are claimed now
            node.drop(activation, because)
        node.committer.abandon(because)
    node.membership.stop()
    node.outage.shut()
    await ended_epochs.tell(node, epochs, node.membership.reachable(), node.routes.ask)
    tries = 0
    while node.clock.now() < until or not tries:
        try:
            await _within(node, until + LAST_WORDS_MS, _part_anew(node, epochs))
            return
        except Unavailable as error:
            because = error
        tries += 1
        left_ms = max(0, until - node.clock.now())
        await node.clock.sleep(min(left_ms, platform_delay_ms(tries, node.dice.random())))
    node.has_left = False
    log.warning("stopped without releasing the store: %s", because, extra={"code": "node.stop"})


async def _part(node: "Node") -> None:
    """The way of every day."""
    if node.is_clustered:
        await node.membership.finish()
        await node.membership.retire()
        await node.membership.make_sure()
    await node.ownership.release_all()
    await node.store.leave(node.name)
    await node.tidings.tell([])


async def _part_anew(node: "Node", epochs: dict[int, int]) -> None:
    """Open the store again and hand back what was begun.

    Under new epochs: a commit that was on its way when the store went can't arrive any more.
    """
    store, now = node.store, node.clock.now()
    await store.open(now=now)
    # A recovery that the stop cut off, or a try before this one, may have claimed them anew, unheard.
    ours = {row.shard: row.epoch for row in await store.owners() if row.owner == node.name}
    seen = {shard: ours.get(shard, epoch) for shard, epoch in epochs.items()}
    won = await store.claim(node.name, sorted(seen), now=now, seen=seen) if seen else {}
    node.epochs.clear()
    node.epochs.update(won)
    await node.ownership.hand_back(won)
    await store.release(node.name, won)
    await store.leave(node.name)
    await node.tidings.tell([])


async def _within(node: "Node", until: int, way: Coroutine[Any, Any, None]) -> None:
    """Do it, or give it up at that time: a store that is slow must not keep a process that was told to end."""
    task = asyncio.get_running_loop().create_task(way)
    handle = node.clock.call_at(until, task.cancel)
    try:
        await asyncio.wait([task])
    except BaseException:
        task.cancel()
        raise
    finally:
        handle.cancel()
    if task.cancelled():
        raise Unavailable("the store did not answer within the time that the stop has")
    task.result()
