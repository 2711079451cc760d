"""Layer 3. Which objects fall asleep, and when?"""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from wakeful.runtime.env import Env
from wakeful.values.ids import ObjectId
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
