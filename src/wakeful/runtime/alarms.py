"""Layer 3. The one alarm of an object: setting it, and running its handler."""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from wakeful.policy.retry import alarm_delay_ms
from wakeful.runtime.timer_runs import Failed, Park, RowTimers, RunLater
from wakeful.runtime.tracer import carried
from wakeful.runtime.turn import Turn
from wakeful.values.errors import NoAlarmHandler
from wakeful.values.runs import check_answer, run_id
from wakeful.values.timers import ALARM, Timer
from wakeful.values.times import instant_ms, to_datetime
from wakeful.values.trace import marked

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.context import Context


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """What the handler is told: which attempt this is, for which time, and an id for outside effects.

    >>> from wakeful import AlarmInfo, App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Egg(DurableObject):
    ...     async def boil(self) -> None:
    ...         await self.storage.set_alarm(timedelta(minutes=6))
    ...     async def alarm(self, info: AlarmInfo) -> None:
    ...         print("retry", info.retry_count, "for", info.scheduled_at.time())
    >>> from datetime import timedelta
    >>> async with app.world(start="2026-03-28T07:00Z") as world:
    ...     await world.get(Egg, "soft").boil()
    ...     await world.advance(minutes=6)
    retry 0 for 07:06:00
    """

    retry_count: int
    scheduled_at: datetime
    run_id: str

    @property
    def is_retry(self) -> bool:
        return self.retry_count > 0


class AlarmSlot:
    """The alarm of one object, for a class of your own: `AlarmSlot(ctx)`. `async def alarm` runs when it is due.

    >>> from datetime import timedelta
    >>> from wakeful import AlarmSlot, App, Context
    >>> app = App()
    >>> @app.object
    ... class Egg:
    ...     def __init__(self, ctx: Context) -> None:
    ...         self.slot = AlarmSlot(ctx)
    ...     async def boil(self) -> None:
    ...         await self.slot.set(timedelta(minutes=6))
    ...     async def alarm(self) -> None:
    ...         print("done")
    >>> async with app.world() as world:
    ...     await world.get(Egg, "soft").boil()
    ...     await world.advance(minutes=6)
    done
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    def set(self, when: int | float | datetime | timedelta) -> Awaitable[None]:
        """Fire then, instead of whenever it was set for before; the past means now."""
        return self._ctx.storage.set_alarm(when)

    async def set_at_latest(self, when: int | float | datetime | timedelta) -> datetime:
        """Fire then, unless it is set for a time before that already; the time that it is set for now.

        For many events that share the alarm: each says when it must ring at the latest.
        """
        at = to_datetime(instant_ms(when, self._ctx._activation.node.clock.now()))
        current = await self.get()
        if current is not None and current <= at:
            return current
        await self.set(at)
        return at

    def get(self) -> Awaitable[datetime | None]:
        """The time that it is set for, None when it is not (or its handler is running)."""
        return self._ctx.storage.get_alarm()

    def clear(self) -> Awaitable[None]:
        """No alarm any more; fine when there was none."""
        return self._ctx.storage.delete_alarm()


class Alarms(RowTimers):
    """The owner of the timers named `alarm`."""

    prefix = ALARM

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    def set(self, activation: "Activation", turn: Turn, when: object) -> None:
        if activation.known.takes_info is None:
            raise NoAlarmHandler(f"{activation.id.cls} has no `async def alarm(self, info)`; add it before set_alarm")
        at = instant_ms(when, activation.node.clock.now())
        seq = activation.node.next_seq(activation.shard)
        turn.set_timer(Timer(activation.id, ALARM, at, at, seq, payload=marked(None, carried(turn, ALARM))))

    def get(self, activation: "Activation", turn: Turn) -> datetime | None:
        timer = turn.timers[ALARM] if ALARM in turn.timers else activation.timers.get(ALARM)
        return None if timer is None else to_datetime(timer.nominal_at)

    def delete(self, activation: "Activation", turn: Turn) -> None:
        if turn.timers.get(ALARM) is not None or activation.timers.get(ALARM) is not None:
            turn.clear_timer(ALARM)

    # what the node asks of a timer's owner

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> bool:
        takes_info = activation.known.takes_info
        if takes_info is None:  # it was set by a program that had one
            raise NoAlarmHandler(
                f"{activation.id.cls} has no `async def alarm(self, info)`; bring it back, then redrive"
            )
        handler = activation.instance.alarm
        if takes_info:
            turn.run_id = run_id(timer)
            answer = await handler(AlarmInfo(timer.attempt, to_datetime(timer.nominal_at), turn.run_id))
        else:
            answer = await handler()
        check_answer(answer, "alarm", f"{activation.id}.alarm")
        return True

    async def failed(self, activation: "Activation", turn: Turn, failure: Failed) -> RunLater | Park:
        timer = failure.timer
        delay = None if failure.error is None else alarm_delay_ms(timer.attempt + 1, failure.roll)
        if delay is None:
            return Park(timer)
        return RunLater(timer.moved(due_at=failure.now + delay, attempt=timer.attempt + 1))
