"""Layer 3. What do owners have in common whose timers ask little of their objects?"""

from typing import TYPE_CHECKING

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.timer_runs import Failed, RunLater
from wakeful.values.commits import Slot
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.registry import ObjectClass
    from wakeful.runtime.turn import Turn


class RowTimers:
    """The part of owners whose timers are nothing but rows: waking an object asks nothing of them."""

    def reads(self, timer: Timer) -> Slot | None:
        return None

    def wants_wake(self, known: "ObjectClass") -> bool:
        return False

    async def wake(self, activation: "Activation", turn: "Turn") -> None:
        """Nothing to do."""


class Errands(RowTimers):
    """The part of owners whose timers are Wakeful's own doing: tried without end; the ledger shows each failure."""

    async def failed(self, activation: "Activation", turn: "Turn", failure: Failed) -> RunLater:
        timer = failure.timer
        delay = platform_delay_ms(timer.attempt, failure.roll)
        return RunLater(timer.moved(due_at=failure.now + delay, attempt=timer.attempt + 1))
