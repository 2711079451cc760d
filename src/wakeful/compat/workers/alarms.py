"""Layer 5. How do alarms of hosted objects differ from Wakeful's own?

A handler that raises keeps what it wrote. If it set the alarm anew before it raised, that stands instead of a retry;
if it deleted it, there is none.
"""

from typing import TYPE_CHECKING, NamedTuple

from wakeful.compat.workers.host import Host
from wakeful.compat.workers.values import Record
from wakeful.runtime.alarms import Alarms
from wakeful.runtime.timer_runs import Failed, Park, RunLater
from wakeful.runtime.turn import Turn
from wakeful.values.runs import run_id
from wakeful.values.timers import ALARM, Occurrence, Timer

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation


class _Left(NamedTuple):
    """What a handler that raised has made of its alarm."""

    timer: Timer | None
    is_cleared: bool


class HostedAlarms(Alarms):
    """Alarms of a node that has hosted objects, maybe beside others."""

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> bool:
        host = activation.instance
        if not isinstance(host, Host):
            return await super().fire(activation, turn, timer)
        try:
            await host._ring(_info(timer))
        except Exception as error:
            if activation.instance is not host:  # it was reset, and not another that it called
                turn.note = _Left(None, not getattr(error, "retryAlarm", True))
            else:
                is_cleared = host._state is not None and host._state.has_cleared_alarm
                turn.note = _Left(turn.timers.get(ALARM), is_cleared)
            raise
        return True

    async def failed(self, activation: "Activation", turn: Turn, failure: Failed) -> RunLater | Park | None:  # type: ignore[override]
        left = failure.note
        if not isinstance(left, _Left):
            return await super().failed(activation, turn, failure)
        if left.timer is not None:
            return RunLater(left.timer)
        if left.is_cleared:
            timer = failure.timer
            turn.occurrence = Occurrence(timer.name, run_id(timer), timer.nominal_at)
            return None
        return await super().failed(activation, turn, failure)


def _info(timer: Timer) -> Record:
    """What the handler is told, as a mapping and by attributes."""
    return Record(retryCount=timer.attempt, isRetry=timer.attempt > 0, scheduledTime=timer.nominal_at)
