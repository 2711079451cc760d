"""Layer 3. How does an object wake, which fall asleep, and when?"""

from collections import OrderedDict
from typing import Any, Generic, Protocol, TypeVar

from wakeful.runtime.context import Context
from wakeful.runtime.env import Env
from wakeful.runtime.erasure import resume
from wakeful.runtime.migration_run import MigratedObject, check_known, is_only_migrated, migrate, pending_migrations
from wakeful.runtime.state import NO_STATE
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.commits import FIRST_PAGE, FORGOTTEN_SLOT, MIGRATIONS_SLOT, STATE_SLOT, Loaded
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM
from wakeful.values.times import Handle


class Sleeper(Protocol):
    """The live copy of an object, as far as it may fall asleep."""

    id: ObjectId
    idle_at: int
    is_awake: bool

    @property
    def is_busy(self) -> bool: ...

    def put_to_sleep(self) -> None: ...


S = TypeVar("S", bound=Sleeper)


class Hibernation(Generic[S]):
    """Idle objects sleep after a while, the least recently used first when there are too many.

    `awake` is kept in order of last use, so its first idle member is always the next to go.
    """

    def __init__(self, env: Env, awake: OrderedDict[ObjectId, S], *, idle_ms: int, at_once: bool) -> None:
        self._env = env
        self._awake = awake
        self._idle_ms = idle_ms
        self._at_once = at_once
        self._alarm: Handle | None = None
        self._retired: set[ObjectId] = set()  # busy ones that sleep as soon as they can
        self._is_all_busy = False  # the last look found nobody who could sleep, and nobody has been idle since
        self.slept = 0

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def became_idle(self, activation: S) -> None:
        """Nothing is left to do for it: it goes to the end of the line."""
        awake = self._awake
        if awake.get(activation.id) is not activation:
            return
        if self._at_once or not activation.is_awake or (self._retired and activation.id in self._retired):
            self._sleep(activation)
            return
        is_full = len(awake) > self._env.limits.awake_objects
        if is_full and self._is_all_busy:
            self._sleep(activation)  # the only one that can: to look for others would cost all of them a look each
            return
        self._is_all_busy = False
        activation.idle_at = self._env.clock.now()
        awake.move_to_end(activation.id)
        if is_full:
            self.make_room()
        if self._alarm is None:
            self._alarm = self._env.clock.call_at(activation.idle_at + self._idle_ms, self._sweep)

    def make_room(self) -> None:
        """Too many are awake: let the least recently used sleep. Busy ones can't."""
        if self._is_all_busy:
            return
        most = len(self._awake) - self._env.limits.awake_objects
        idle = self._idle(most)
        self._is_all_busy = len(idle) < most
        for activation in idle:
            self._sleep(activation)

    def sleep_all(self) -> None:
        """Every idle object sleeps now."""
        for activation in self._idle(len(self._awake)):
            self._sleep(activation)

    def retire(self, cls: str) -> None:
        """Objects of that class wake anew: another one is in its place."""
        ours = [activation for activation in self._awake.values() if activation.id.cls == cls]
        self._retired.update(activation.id for activation in ours if activation.is_busy or not activation.is_awake)
        for activation in ours:
            if activation.id not in self._retired:
                self._sleep(activation)

    def _idle(self, most: int) -> list[S]:
        idle: list[S] = []
        for activation in self._awake.values():
            if not activation.is_busy and activation.is_awake:
                idle.append(activation)
                if len(idle) == most:
                    break
        return idle

    def _sweep(self) -> None:
        self._alarm = None
        before = self._env.clock.now() - self._idle_ms
        going = []
        for activation in self._awake.values():
            if activation.is_busy or not activation.is_awake:
                continue
            if activation.idle_at > before:
                self._alarm = self._env.clock.call_at(activation.idle_at + self._idle_ms, self._sweep)
                break
            going.append(activation)
        for activation in going:
            self._sleep(activation)

    def _sleep(self, activation: S) -> None:
        del self._awake[activation.id]
        self._retired.discard(activation.id)
        # Else the two would hold each other, and a sleeping object stay in memory until the next full collection.
        activation.put_to_sleep()
        self.slept += 1


class SleepingObject(MigratedObject, Protocol):
    """One that is about to wake, and what it has its node do for that."""

    @property
    def node(self) -> Any: ...

    @property
    def is_unsettled(self) -> bool: ...

    async def end(self, turn: Turn, by: str) -> None: ...

    def undo(self, turn: Turn | None) -> None: ...


async def wake(
    activation: SleepingObject, chain: tuple[ObjectId, ...], deadline_at: int, *, reads: bool = False
) -> Turn | None:
    """Asleep → awake: rows, migrations, constructor, on_wake; on a raise it stays asleep as if nobody had called.

    For somebody who only `reads` an object that is nowhere yet, what its migrations made is not kept: then the turn that
    has it comes back, and the reader runs in that.
    """
    loaded = await _load(activation, chain, deadline_at) if activation.instance is None else None
    pending = pending_migrations(activation, loaded) if loaded is not None and activation.known.migrations else ()
    if activation.known.is_plain and not pending:
        activation.instance = activation.known.cls(Context(activation))
        activation.is_awake = True
        return None
    turn = Turn(activation, chain, deadline_at)
    token = CURRENT.set(turn)
    try:
        if loaded is not None and pending:
            await migrate(activation, turn, loaded, pending)
        instance = activation.known.cls(Context(activation))
        if activation.known.wakes:
            await instance.on_wake()
        is_trial = reads and bool(pending) and is_only_migrated(activation, turn, loaded)
        if not is_trial:
            await activation.end(turn, "on_wake")
        activation.instance, activation.is_awake = instance, not is_trial  # nobody else reads beside that
    except BaseException:
        activation.undo(turn)
        activation.unnumbered = None
        raise
    finally:
        CURRENT.reset(token)
    turn.is_reader = is_trial
    return turn if is_trial else None


async def _load(activation: SleepingObject, chain: tuple[ObjectId, ...], deadline_at: int) -> Loaded:
    """What it needs from disk. Not for an object that is made anew: what undone turns wrote was never among its rows."""
    if activation.is_unsettled:
        await activation.settle()  # a failed attempt to wake may have left a retry on its way to disk
    node = activation.node
    node.meter.wakes.add()
    loaded: Loaded = await node.loader.load(activation.id, activation.rows.take_begun())
    if FORGOTTEN_SLOT in loaded.rows:
        await resume(activation, chain, deadline_at)
        loaded = await node.loader.load(activation.id)
    if MIGRATIONS_SLOT in loaded.rows or node.dispatcher.newer:
        check_known(activation, loaded, node.dispatcher)
    if loaded.has_history and activation.history is None:
        activation.history = node.features["history"].of(activation)  # to drop what there is of it
    activation.sql = None
    if FIRST_PAGE in loaded.rows:
        loaded = await node.features["sql"].load(activation, loaded)
    activation.rows.load(loaded)
    activation.timers = {ALARM: loaded.alarm}
    if activation.state is not NO_STATE:
        activation.state.load(loaded.rows.get(STATE_SLOT))
    wakers = node.timer_runs.wakers(activation.known)
    if wakers:
        turn = Turn(activation, chain, deadline_at)
        for handler in wakers:
            await handler.wake(activation, turn)
        await activation.end(turn, "on_wake")
    return loaded
