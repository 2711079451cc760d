"""Layer 3. The one alarm of an object: what its handler is told, and what becomes of a run that fails."""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta

from wakeful.policy.retry import alarm_delay_ms
from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.timer_handler import Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn
from wakeful.values.errors import NoAlarmHandler
from wakeful.values.timers import ALARM, Timer, check_answer, run_id
from wakeful.values.times import instant_ms, to_datetime


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

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def set(self, when: int | float | datetime | timedelta) -> Awaitable[None]:
        """Fire then, instead of whenever it was set for before; the past means now."""
        return self._ctx.storage.set_alarm(when)

    async def set_at_latest(self, when: int | float | datetime | timedelta) -> datetime:
        """Fire then, unless it is set for a time before that already; the time that it is set for now.

        For many events that share the alarm: each says when it must ring at the latest.
        """
        at = to_datetime(instant_ms(when, runtime_of(self._ctx).node.clock.now()))
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
    """The handler of the timers named `alarm`."""

    prefix = ALARM

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    async def fire(self, activation: ObjectRuntime, turn: Turn, timer: Timer) -> bool:
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

    async def failed(self, activation: ObjectRuntime, turn: Turn, failure: Failed) -> RunLater | Park:
        timer = failure.timer
        delay = None if failure.error is None else alarm_delay_ms(timer.attempt + 1, failure.roll)
        if delay is None:
            return Park(timer)
        return RunLater(timer.later(due_at=failure.now + delay, attempt=timer.attempt + 1))
