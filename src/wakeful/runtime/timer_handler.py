"""Layer 3. What does a kind of timer (an alarm, a schedule, a job, a delay) say when one of its timers is due, or failed?"""

from typing import Any, NamedTuple, Protocol

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.registry import ObjectClass
from wakeful.runtime.turn import Turn
from wakeful.values.commits import Slot
from wakeful.values.timers import Occurrence, Parked, Timer


class TimerHandler(Protocol):
    """A feature's stake in the timers whose names begin with its prefix."""

    prefix: str
    deadline_ms: int

    async def fire(self, activation: ObjectRuntime, turn: Turn, timer: Timer) -> bool:
        """Do what the timer is for, inside its turn; a raise is a failed attempt. False: nothing ran, no ledger row.

        A handler whose timers stand for more than themselves says which occurrence this is in `turn.occurrence`.
        """
        ...

    async def failed(self, activation: ObjectRuntime, turn: Turn, failure: "Failed") -> "RunLater | Park | None":
        """What comes of a failed attempt, in a turn of its own, in which the handler may write; None: nothing. A sleeping object sleeps on."""
        ...

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        """A person lets go of a parked one: it never runs again, and here the handler ends what waits for it."""
        ...

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """Its object is forgotten, and the timer, pending or parked, goes with it: here the handler ends what waits for it."""
        ...

    def reads(self, timer: Timer) -> Slot | None:
        """The row that `fire` begins with reading, if there is one."""
        ...

    def wants_wake(self, known: ObjectClass) -> bool:
        """Objects of this class need `wake` before their first turn."""
        ...

    async def wake(self, activation: ObjectRuntime, turn: Turn) -> None:
        """The object has just woken: what the handler writes in this turn commits before anything else happens."""
        ...


class Failed(NamedTuple):
    """A failed attempt, as its handler is asked about it."""

    timer: Timer
    occurrence: Occurrence | None  # what `fire` had said it was, if it came that far
    note: Any  # what `fire` had left in `turn.note`
    error: BaseException | None  # None: the process died too often while it ran, so it can only be parked
    now: int
    roll: float


class Stale(Exception):
    """Raised by `fire`: what the handler keeps says that this setting of the timer has had its run, or was replaced.

    The second lock on the door: the queue hands out each setting once, and this holds if it ever did not.
    """


class RunLater(NamedTuple):
    """Try this timer later."""

    timer: Timer


class Park(NamedTuple):
    """Give up, and keep this timer where people can see it and redrive it."""

    timer: Timer
    also: str = ""  # what else went wrong


class RowTimers:
    """The part of handlers whose timers are nothing but rows: waking an object asks nothing of them, nor does an end."""

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        """Nothing to do."""

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """Nothing to do."""

    def reads(self, timer: Timer) -> Slot | None:
        return None

    def wants_wake(self, known: ObjectClass) -> bool:
        return False

    async def wake(self, activation: ObjectRuntime, turn: Turn) -> None:
        """Nothing to do."""


class Errands(RowTimers):
    """The part of handlers whose timers are Wakeful's own doing: tried without end; the ledger shows each failure."""

    async def failed(self, activation: ObjectRuntime, turn: Turn, failure: Failed) -> RunLater:
        timer = failure.timer
        delay = platform_delay_ms(timer.attempt, failure.roll)
        return RunLater(timer.later(due_at=failure.now + delay, attempt=timer.attempt + 1))
