"""Layer 3. A process that owns shards: where do calls and due timers meet their objects?"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from wakeful.policy.lease import Lease
from wakeful.policy.limits import Limits
from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.activation import Activation
from wakeful.runtime.alarms import Alarms
from wakeful.runtime.arrivals import Arrivals, Tidings
from wakeful.runtime.calls import (
    FOREVER_MS,
    Call,
    Deadlines,
    ObjectElsewhere,
    check_loop,
    copy_message,
    is_small,
    make_stub,
)
from wakeful.runtime.committer import Committer, Failure
from wakeful.runtime.dispatcher import Dispatcher
from wakeful.runtime.erasure import FORGET, Forgets, forget
from wakeful.runtime.events import Events
from wakeful.runtime.hibernation import Hibernation
from wakeful.runtime.homes import FORWARDED, PREFIX, Forwards, Homes, add_apart, route_timers
from wakeful.runtime.inserter import Inserter
from wakeful.runtime.links import Links
from wakeful.runtime.lock_watch import LockWatch
from wakeful.runtime.membership import Membership
from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
from wakeful.runtime.outage import Outage, leave
from wakeful.runtime.ownership import Ownership
from wakeful.runtime.queue import TimerQueue
from wakeful.runtime.redrives import DROP, REDRIVE, drop, redrive
from wakeful.runtime.registry import ObjectClass, Registry
from wakeful.runtime.routes import Routes
from wakeful.runtime.rows import Loader
from wakeful.runtime.sideline import Sideline
from wakeful.runtime.slots import Overload, Slots, SlowStart
from wakeful.runtime.start_notes import StartNotes
from wakeful.runtime.timer_handler import TimerHandler
from wakeful.runtime.timer_runs import TimerRuns
from wakeful.runtime.tracer import begin
from wakeful.runtime.turn import CURRENT, Turn, running_turn
from wakeful.runtime.upkeep import Upkeep
from wakeful.store.protocol import NO_GUARDS, Guard, Hint, NodeRow, Obstacle, Store
from wakeful.values.commits import FORGET_TIMER, Commit
from wakeful.values.errors import Fenced, NotRunning, Reentrancy, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.metrics import Meter
from wakeful.values.timers import Parked, Timer
from wakeful.values.times import Clock, Dice, Handle

T = TypeVar("T")
CIRCLES_MAX = 16  # how often an object whose events are no turns may wait for calls of itself
_ELSEWHERE: Any = object()  # in place of an answer
log = logging.getLogger("wakeful.node")
# Of a name that stands for another call, which it then is; or what is answered here and now, beside all turns.
Rewrite = Callable[[ObjectClass, Call], Coroutine[Any, Any, Any] | None]


class Node(NodeRuntime):
    """Owns shards, keeps the near future of their timers, and runs the turns of their objects."""

    homes: "Homes[Node] | None" = None  # when the program has several stores
    down_because: Unavailable | None = None
    has_left = True  # its store knows that it is gone; False: it stopped without saying so
    is_shut = False  # nobody wakes here any more
    is_doubted = False  # the lease has lapsed, so the objects here may be another node's
    _clock_watch: Handle | None
    _has_news = False  # the group that just went to disk changed timers

    def __init__(
        self,
        *,
        name: str,
        registry: Registry,
        store: Store,
        clock: Clock,
        dice: Dice,
        limits: Limits,
        idle_ms: int,
        about: str = "",
        sleep_after_turn: bool = False,
        is_alone: bool = False,
        is_client: bool = False,
        cluster: str = "",
        lease: Lease | None = None,
        address: str = "",
        links: Links | None = None,
        ticks: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(
            name=name,
            registry=registry,
            store=store,
            clock=clock,
            dice=dice,
            limits=limits,
            meter=Meter(ticks or (lambda: clock.now() * 1_000_000)),
            on_down=lambda error: self.outage.begin(error),
            about=about,
            address=address,
            is_alone=is_alone,
            is_client=is_client,
        )
        self.spread, self.notices, self._clock_watch = None, None, None  # the first two by the features of these names
        # Least recently used first. Not a plain dict: taking from its front leaves holes to step over.
        self.awake: OrderedDict[ObjectId, Activation] = OrderedDict()
        self.outlasted: dict[Activation, tuple[Call | Timer, int]] = {}  # that wait for code of whose turn, since when
        self.barred: set[ObjectId] = set()  # that wake here no more, until the store is back
        self.seqs: dict[int, int] = {}  # how many places each shard has given away in this epoch
        self.queue, self.slots = TimerQueue(limits.near_timers), Slots(limits)
        self.slow_start = SlowStart(self.slots, limits, clock, on_wider=lambda: self.dispatcher.poke())
        self.overload, self.deadlines = self._new_overload(), Deadlines(clock)
        self.loader, self.committer = Loader(store, self.store_failed), self._new_committer()
        self.timer_runs = TimerRuns(self)
        self.timer_runs.register(Alarms(limits.alarm_deadline_ms))
        quiet: list[TimerHandler] = [Forwards(prefix, limits.call_deadline_ms) for prefix in (PREFIX, FORWARDED)]
        for handler in (*quiet, Forgets(limits.alarm_deadline_ms)):
            self.timer_runs.register(handler, quiet=True)
        # What features do to any object, by dotted name ("schedules.pause"): turns like any other call.
        self.operations: dict[str, Callable[..., Awaitable[Any]]] = {REDRIVE: redrive, DROP: drop, FORGET: forget}
        self.quiet_operations: set[str] = {REDRIVE, DROP, FORGET}  # of these, those that do not wake it
        self.rewrites: dict[str, Rewrite] = {}
        self.features, self.erasers = dict[str, Any](), list[Callable[[Turn], Awaitable[None]]]()  # each feature's own
        self.sideline = Sideline(clock, self.keep)
        self.start_notes = StartNotes(self, self.queue, self.committer, self.sideline, self.note_failed)
        self.farewells, self.hurried = list[Callable[[Collection[int]], None]](), list[Callable[[ObjectId], None]]()
        self.returns: list[Callable[[], None]] = []
        self.last_words: list[Callable[[], Awaitable[None]]] = []  # to be said before it stops, while it can be asked
        self.hibernation = Hibernation(self, self.awake, idle_ms=idle_ms, at_once=sleep_after_turn)
        self.dispatcher, self.upkeep, self.ownership = Dispatcher(self), Upkeep(self), Ownership(self)
        self.membership: Membership = Membership(self, cluster=cluster, lease=lease)
        self.lock_watch, self.routes = LockWatch(self), Routes(self, links)
        self.events: Events = Events(name, clock, lambda: self.all_homes)
        self.tidings = Tidings(self, self.membership, self.routes, self.keep)
        self.arrivals = Arrivals(self, self.queue, self.events, self.ownership, self.dispatcher, self.tidings)
        self.inserter = Inserter(store, clock, dice, arrivals=self.arrivals, on_down=self.store_failed)
        self.inserter.meter = self.meter
        self.outage, self._kept = Outage(self), set[asyncio.Task[Any]]()
        self._refused, self.clock_steps = Counter[ObjectId](), Counter[str]()  # in a row; "ahead" or "back"

    def _new_committer(self) -> Committer:
        group_max = self.limits.group_commits
        made = Committer(
            self.store, self.name, group_max=group_max, on_down=self.store_failed, on_group=self._group_done
        )
        made.meter = self.meter
        return made

    def _new_overload(self) -> Overload:
        return Overload(
            self.clock,
            self.limits,
            is_working=lambda: bool(self.queue.running or self.slots.taken),
            backlog=lambda: self.committer.backlog,
            on_over=lambda: self.dispatcher.poke(),
        )

    # life

    @property
    def is_dead(self) -> bool:
        return self.state == "stopped"

    async def until_store(self, deadline_at: int) -> None:
        await self.outage.over(deadline_at)

    def refusal(self) -> Unavailable:
        return self.outage.refusal()

    async def start(self) -> None:
        """Open the store, become a member or own everything, and begin to fire."""
        self.loop, failed = asyncio.get_running_loop(), cast("BaseException | None", None)
        self._clock_watch = self.clock.watch(self._clock_stepped)  # what is measured while it starts counts too
        try:
            if self.is_client:
                await self.store.open(now=self.clock.now(), readonly=True)  # refuses what nobody has set up
            await self.store.open(now=self.clock.now())
            self.store.watch(self._on_hints)
            if self.is_clustered:
                await self.membership.start()
            else:
                await self.start_notes.take_over()
                await self.take_over()
        except BaseException as error:
            failed = error
        if failed is not None:
            try:
                await self._give_up()
                raise failed
            finally:
                failed = None  # it holds this frame
        self.go_up()
        self.lock_watch.start()
        if not self.is_client:
            self.upkeep.start()

    async def _give_up(self) -> None:
        """It could not start."""
        if self.membership.lease_until:  # it was among the others already
            with suppress(Unavailable):
                await self.store.release(self.name, self.epochs)
                await self.store.leave(self.name)
        await self.store.close()
        if self._clock_watch is not None:
            self._clock_watch.cancel()

    def go_up(self) -> None:
        """The store is there, and what is ours in it is known."""
        self.state = "up"
        self.down_because = None
        self.outage.end()
        if not self.is_client:
            self.dispatcher.start()
        if self.is_clustered:
            self.membership.go_on()

    async def stop(self) -> None:
        """Finish running turns within the deadline, hand over or hand back the rest, release ownership."""
        if self.state in ("stopped", "new"):
            self.state = "stopped"
            return
        was_down = self.state == "down"
        self.state = "stopping"
        self.dispatcher.stop()
        self.upkeep.stop()
        self.outage.stop()
        if not self.is_client:
            await leave(self, was_down=was_down)
        for activation in list(self.awake.values()):  # else it looks like their doing
            activation.fail(NotRunning("the node is stopping; try again", code="node.stopping"))
        self._end()
        self.awake.clear()
        self.state = "stopped"
        self.start_notes.drop()
        await self.store.close()

    def kill(self) -> None:
        """Stop as `kill -9` would: nothing more is written, nobody is told. For the test kit."""
        self.state = "stopped"
        self.dispatcher.stop()
        self.upkeep.stop()
        self.outage.stop()
        self._end()
        for activation in list(self.awake.values()):
            activation.fail(NotRunning("the node was killed", code="node.killed"))
        self.awake.clear()

    def _end(self) -> None:
        if self._clock_watch is not None:  # not before: turns that still finish set timers
            self._clock_watch.cancel()
        self.membership.stop()
        self.lock_watch.stop()
        self.hibernation.stop()
        self.timer_runs.stop()
        self.start_notes.stop()
        self.events.stop()
        self.deadlines.stop()
        self.inserter.stop()
        self.committer.kill()
        for task in self._kept:
            task.cancel()

    def take_leave(self, shards: Collection[int]) -> None:
        """Whoever waits beside the turns of these shards must not keep them here."""
        for tell in self.farewells:
            tell(shards)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task that nobody waits for, until it is done or the node ends."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def _on_hints(self, hints: Sequence[Hint]) -> None:
        """Another process added timers; or, with no hints, nodes or shards changed."""
        if self.state != "up":
            return
        if hints:
            self.arrivals.hear(hints)
        else:
            self.membership.look()

    async def look(self, identity: str) -> None:
        """Another process wrote to that store what concerns its nodes here: hear of it now."""
        for home in self.all_homes:
            if home.state == "up" and home.store.needs_looks and home.store.identity == identity:
                await home.reading(home.store.look())

    def _clock_stepped(self, by_ms: int) -> None:
        """Ahead is like an outage that long; back fires nothing again, because what fired is gone from disk."""
        way = "ahead" if by_ms > 0 else "back"
        self.clock_steps[way] += 1
        log.warning("the clock was set %s by %d ms", way, abs(by_ms), extra={"code": "clock.step"})
        self.deadlines.on_clock_step(by_ms)
        self.timer_runs.deadlines.on_clock_step(by_ms)
        if self.state == "up":
            self.dispatcher.clock_was_set()

    async def take_over(self) -> None:
        """Own everything: there is no other node, whatever the store remembers of one."""
        for row in await self.store.nodes():
            if row.node != self.name:
                await self.store.leave(row.node)  # it died without saying so
        now = self.clock.now()
        await self.store.join(NodeRow(self.name, self.address, now, now + self.membership.lease.ms, self.about))
        await self.ownership.claim_all()

    def owns(self, shard: int, *, nested: bool) -> bool:
        """Calls of that shard are answered here; while it is leaving only those that a running turn waits for."""
        return shard in self.epochs and (nested or shard not in self.ownership.leaving)

    def is_reader(self, target: ObjectId, method: str) -> bool:
        return self.registry.knows(target.cls) and method in self.registry.by_name(target.cls).readers

    # calls

    def stub(self, cls: type[T], key: Any, *, deadline: Any, request_key: Any) -> T:
        """Something that looks like the object and sends calls to it; what is asked for is looked at here."""
        known = self.registry.of_class(cls)
        return cast("T", make_stub(self, known, key, deadline, request_key))

    async def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None = None,
        request_key: str | None = None,
        is_carried: bool = False,
    ) -> Any:
        """Call a method of an object and wait for its answer, which is durable when it comes.

        `is_carried`: they have been through `carried`, by somebody who could do that beside the loop.
        """
        check_loop(self.loop)
        if self.homes is not None and (home := self.homes.of(target)) is not self:
            return await home.send(
                target, method, args, kwargs, deadline_ms=deadline_ms, request_key=request_key, is_carried=is_carried
            )
        known = self.registry.any(target.cls) if method in self.quiet_operations else self.registry.by_name(target.cls)
        if method not in known.methods and method not in self.operations and method not in self.rewrites:
            known.check_method(method)
        if self.check_call is not None and method in known.methods:
            self.check_call(known, method, args, kwargs)
        deadline_at = self.clock.now() + (deadline_ms or self.limits.call_deadline_ms)
        is_endless = known.is_gated and deadline_ms is None
        caller = CURRENT.get()
        if caller is not None and caller.is_over and not caller.is_standing:
            caller = None  # a task that the turn left behind
        chain: tuple[ObjectId, ...] = (target,)
        if caller is not None:
            chain = (*caller.path, target)
            deadline_at = min(deadline_at, self._here(caller))
            is_endless = is_endless and caller.is_standing
            if method not in known.readers and caller.path.count(target) > (CIRCLES_MAX if known.is_gated else 0):
                raise Reentrancy(
                    f"{' → '.join(map(str, chain[-8:]))}: {target} is waiting for this very call, which would never end"
                )
            # What this turn knows may rest on turns before it that could still be undone.
            await caller.leave()
        if (self.state != "up" or self.is_doubted) and (self.state != "stopping" or caller is None):
            await self.outage.over(deadline_at)
        if (args or kwargs) and not is_carried:
            args, kwargs = self.copy_call(target, method, args, kwargs)
        call = Call(
            method,
            args,
            kwargs,
            deadline_at=deadline_at,
            request_key=request_key,
            chain=chain,
        )
        call.is_endless = is_endless
        way = self.routes.call(target, call) if self.is_clustered else self.deliver(target, call)
        span = None if self.tracer is None else begin(self, self.tracer, "call", target, method)
        try:
            answer = await self.within_deadline(call, way)
        except ObjectElsewhere:
            answer = _ELSEWHERE
        except BaseException as error:
            if span is not None:
                span.end(error)
            raise
        if span is not None:
            span.end()
        if answer is _ELSEWHERE:
            return await self._send_on(call, None if is_endless else deadline_at)
        return answer

    async def _send_on(self, call: Call, deadline_at: int | None) -> Any:
        """The answer of an object whose slot went to another server before the call was begun."""
        target, left_ms = call.chain[-1], None if deadline_at is None else max(1, deadline_at - self.clock.now())
        return await self.home(target).send(
            *(target, call.method, call.args, call.kwargs),
            deadline_ms=left_ms,
            request_key=call.request_key,
            is_carried=True,
        )

    async def send_beside(self, target: ObjectId, method: str, args: tuple[Any, ...]) -> Any:
        """Call an object, also while this node stops and takes no more calls: the last ones are those of its own sideline."""
        if self.state != "stopping" or shard_of(target) not in self.epochs:
            return await self.send(target, method, args, {})
        deadline_at = self.clock.now() + self.limits.call_deadline_ms
        call = Call(method, args, {}, deadline_at=deadline_at, request_key=None, chain=(target,))
        return await self.within_deadline(call, self.deliver(target, call))

    def home(self, id: ObjectId) -> "Node":
        """The node of this process that stands for the store in which the object lives."""
        return self if self.homes is None else self.homes.of(id)

    @property
    def all_homes(self) -> "list[Node]":
        """The nodes of this process, one for each store of the program."""
        return [self] if self.homes is None else self.homes.all

    async def add_timer(self, timer: Timer, guard: Guard | None = None) -> Obstacle | None:
        """Bring a timer of any object to disk, under a name that nobody else can have, or unless something is in the way."""
        home = self.home(timer.id)
        if home.spread is not None:
            return await home.spread.add(self, timer, guard)
        return await home.inserter.add(timer, guard, until=home.clock.now() + self.limits.call_deadline_ms)

    async def add_timers(self, timers: Sequence[Timer], guards: Mapping[int, Guard] = NO_GUARDS) -> list[Obstacle]:
        """Bring them to disk, all or none in each store; what is in the way, [] when it was done."""
        if self.homes is not None:
            return await add_apart(self, timers, guards)
        return await self.inserter.add_all(timers, guards, until=self.clock.now() + self.limits.call_deadline_ms)

    def route_timers(self, sender: ObjectId, timers: list[Timer]) -> list[Timer]:
        """Timers that a turn of the sender adds, as they go into its commit: to other stores they take a detour."""
        return timers if self.homes is None else route_timers(self, sender, timers)

    def _here(self, caller: Turn) -> int:
        """The deadline of a turn by this node's clock: that of another store may be another's."""
        there = caller.activation.node
        return caller.deadline_at if there is self else caller.deadline_at - there.clock.now() + self.clock.now()

    async def within_deadline(self, call: Call, way: Awaitable[Any]) -> Any:
        """The answer, or `DeadlineExceeded` when it is late."""
        self.deadlines.add(call)
        try:
            return await way
        except asyncio.CancelledError:
            if not call.is_expired or call.answer is not None:
                raise
            call.absorb()  # a reader runs in its caller's task
            if call.task is not None and call.task.cancelling() > call.before:
                raise  # the turn that made the call has run out of time as well, or was cancelled
            raise call.too_late() from None
        finally:
            if call.task is None or call.answer is None:
                self.on_call_end(call)  # else its caller has gone, and the turn goes on within its deadline

    def lift_deadline(self, call: Call) -> None:
        """It has begun, and nothing but its end ends it."""
        if call in self.deadlines:
            self.deadlines.remove(call)
            call.deadline_at = self.clock.now() + FOREVER_MS
            self.deadlines.add(call)

    def on_call_end(self, call: Call) -> None:
        """Nothing of the call is left to be stopped at its deadline."""
        self.deadlines.remove(call)
        if call.is_expired and not hasattr(call, "is_cancelled"):
            self.routes.contacts.on_expired(call)

    def deliver(self, target: ObjectId, call: Call) -> Coroutine[Any, Any, Any]:
        """The answer of an object that lives here."""
        if call.method in self.rewrites:
            answer = self.rewrites[call.method](self.registry.by_name(target.cls), call)
            if answer is not None:
                return answer
        way = self.activation(target).call(call)
        return way if not self.events.is_heard else self.events.watch(target, call, way)

    def activation(self, id: ObjectId, shard: int | None = None) -> Activation:
        """The live copy of the object, made when there is none; who knows its shard saves computing it."""
        awake = self.awake.get(id)
        if awake is not None:
            return awake
        if not self.lets_wake(id):
            raise self.outage.refusal()
        shard = shard_of(id) if shard is None else shard
        epoch = self.epochs.get(shard)
        if epoch is None:
            raise Unavailable(f"{id}: shard {shard} is owned by another node; try again", code="shard.moved")
        awake = self.awake[id] = Activation(self, id, self.registry.any(id.cls), shard, epoch)
        if len(self.awake) > self.limits.awake_objects:
            self.hibernation.make_room()
        return awake

    def lets_wake(self, id: ObjectId) -> bool:
        """An object that sleeps may be woken here, now."""
        return self.state in ("up", "stopping") and not self.is_shut and id not in self.barred

    async def redrive(self, parked: Parked) -> None:
        """Make a parked timer due again at once, with a fresh count; `Conflict` when its name is taken by another."""
        await self.send(parked.timer.id, REDRIVE, (parked.timer.name, parked.number), {})

    def copy_call(
        self, target: ObjectId, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as the object gets them: copies, and not too large. In any thread."""
        return (
            self._copy(target, method, args) if args else args,
            self._copy(target, method, kwargs) if kwargs else kwargs,
        )

    def _copy(self, target: ObjectId, method: str, args: Any) -> Any:
        for value in args if type(args) is tuple else args.values():
            if not is_small(value):
                return copy_message(args, self.limits.arguments_bytes, f"arguments of {target}.{method}")
        return args

    # what activations say

    def next_seq(self, shard: int) -> int:
        """The next place in the order of insertion: rises within a shard over all its owners, and differs between shards."""
        count = self.seqs[shard] = self.seqs.get(shard, 0) + 1
        return (self.epochs.get(shard, 0) << 39) | (count << 8) | shard

    def crashes_of(self, timer: Timer) -> int:
        return self.timer_runs.crashes_of(timer)

    async def end_parked(self, activation: ObjectRuntime, parked: Parked) -> None:
        handler = self.timer_runs.handler_of(parked.timer.name)
        if handler is not None:
            await handler.on_dropped(running_turn(activation, "drop"), parked)

    async def end_timer(self, turn: Turn, timer: Timer) -> None:
        handler = self.timer_runs.handler_of(timer.name)
        if handler is not None:
            await handler.on_forgotten(turn, timer)

    def on_forgotten(self, id: ObjectId) -> None:
        self.queue.clear(id, FORGET_TIMER, 0)
        self.start_notes.forget(id)

    def taken_at(self, shard: int) -> int:
        return self.ownership.taken_at.get(shard, 0)

    def timers_changed(self, commit: Commit) -> None:
        """A commit is on disk: bring the near future up to date."""
        queue, id, clears, sets, sends = self.queue, commit.id, commit.clears, commit.sets, commit.sends
        if self._refused:
            self._refused.pop(id, None)
        for name, seq in clears:
            queue.clear(id, name, seq)
        # Who hears of it after the shard went, or was claimed anew, knows from the disk by then what became of them.
        if sets and self.epochs.get(commit.shard) == commit.epoch:
            for timer in sets:
                queue.set(timer)
        if sends:
            self.arrivals.on_sent(sends)
        if clears or sets or sends or self.dispatcher.is_starved:
            self._has_news = True
        if commit.unparks:
            self.meter.redriven.add(len(commit.unparks))
        if commit.entries:
            self.upkeep.wrote(commit.entries)
            self.meter.wrote(commit)
        if self.events.is_heard:
            self.events.on_commit(commit)

    def _group_done(self) -> None:
        """A group is on disk and everyone in it was told: what became due through it joins the next one."""
        if self._has_news:
            self._has_news = False
            self.dispatcher.look()

    def skip_timer(self, timer: Timer) -> None:
        """It was handed out, but a turn before it replaced or cleared it."""
        self.queue.finish(timer)
        self.dispatcher.poke()

    def note_failed(self, id: ObjectId, failure: Failure) -> None:
        """A start note was refused: the timer is still on disk, for whoever owns it now or reads it again."""
        if isinstance(failure, Fenced) and self.epochs.get(failure.shard) == failure.epoch:
            self.ownership.lose(failure.shard, failure)
        elif self.state == "up":
            self.dispatcher.read_again()
        self.outage.bar(id)

    def commit_failed(self, activation: Activation, failure: Failure) -> None:
        """This copy's belief is wrong from here on: drop it, to wake from what is on disk."""
        is_owner = self.state in ("up", "stopping") and self.epochs.get(activation.shard) == activation.epoch
        if is_owner and isinstance(failure, Fenced):
            self.ownership.lose(activation.shard, failure)
        elif self.state != "up":
            self.outage.bar(activation.id)
            self.drop(activation, failure)  # down: everything is forgotten; stopping: its timers are handed back
        else:
            self.drop(activation, failure)
            self.queue.forget([activation.id])
            # The store refused this one commit. It would refuse it again: a due timer behind it must not spin.
            self._refused[activation.id] += 1
            delay = platform_delay_ms(self._refused[activation.id], self.dice.random())
            self.clock.call_at(self.clock.now() + delay, self.dispatcher.read_again)

    def drop(self, activation: Activation, failure: Failure) -> None:
        """Forget this copy of the object, and tell whoever waits for it why."""
        if self.awake.get(activation.id) is activation:
            del self.awake[activation.id]
        activation.fail(failure)
        self.timer_runs.go_on()
