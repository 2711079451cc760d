"""Layer 3. The one alarm of an object: setting it, and running its handler."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from wakeful.logic.retry import alarm_delay_ms
from wakeful.runtime.errands import Rows
from wakeful.runtime.timer_runs import Again, Failed, Park
from wakeful.runtime.turn import Turn
from wakeful.values.errors import NoAlarmHandler
from wakeful.values.runs import run_id
from wakeful.values.timers import ALARM, Timer
from wakeful.values.times import instant_ms, to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """What the handler is told: which attempt this is, for which time, and an id for outside effects."""

    retry_count: int
    scheduled_at: datetime
    run_id: str

    @property
    def is_retry(self) -> bool:
        return self.retry_count > 0


class Alarms(Rows):
    """The owner of the timers named `alarm`."""

    prefix = ALARM

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    def set(self, activation: "Activation", turn: Turn, when: object) -> None:
        if activation.known.takes_info is None:
            raise NoAlarmHandler(f"{activation.id.cls} has no `async def alarm(self, info)`; add it before set_alarm")
        at = instant_ms(when, activation.node.clock.now())
        turn.set_timer(Timer(activation.id, ALARM, at, at, activation.node.next_seq(activation.shard)))

    def get(self, activation: "Activation", turn: Turn) -> datetime | None:
        timer = turn.timers[ALARM] if ALARM in turn.timers else activation.timers.get(ALARM)
        return None if timer is None else to_datetime(timer.nominal_at)

    def delete(self, activation: "Activation", turn: Turn) -> None:
        if turn.timers.get(ALARM) is not None or activation.timers.get(ALARM) is not None:
            turn.clear_timer(ALARM)

    # what the node asks of a timer's owner

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> bool:
        handler = activation.instance.alarm
        if activation.known.takes_info:
            await handler(AlarmInfo(timer.attempt, to_datetime(timer.nominal_at), run_id(timer)))
        else:
            await handler()
        return True

    async def failed(self, activation: "Activation", turn: Turn, failure: Failed) -> Again | Park:
        timer = failure.timer
        delay = None if failure.error is None else alarm_delay_ms(timer.attempt + 1, failure.roll)
        if delay is None:
            return Park(timer)
        return Again(timer.moved(due_at=failure.now + delay, attempt=timer.attempt + 1))
