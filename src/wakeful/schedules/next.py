"""Layer 4. What can a handler answer, and what is `on_missed` told?"""

from dataclasses import dataclass
from datetime import datetime

from wakeful.values.errors import BadOption
from wakeful.values.runs import HandlerAnswer
from wakeful.values.times import Duration, duration_ms, from_datetime


@dataclass(frozen=True, slots=True)
class Next(HandlerAnswer):
    """Returned by a handler: the next occurrence is then, whatever the spec says; after it the spec goes on.

    It comes a second after the run at the soonest, also when it is asked for sooner or in the past.

    >>> from wakeful import App, DurableObject, Next, Run, every
    >>> app = App()
    >>> @app.object
    ... class Feed(DurableObject):
    ...     @every.hour
    ...     async def poll(self, run: Run) -> Next | None:
    ...         print(run.nominal_at.time())
    ...         return Next(after="5m") if run.nominal_at.hour == 12 and run.nominal_at.minute == 0 else None
    ...     async def begin(self) -> None: ...
    >>> async with app.world(start="2026-03-28T11:30Z") as world:
    ...     await world.get(Feed, "news").begin()
    ...     await world.advance(hours=2)
    12:00:00
    12:05:00
    13:00:00
    """

    at: datetime | None = None
    after: Duration | None = None

    def __post_init__(self) -> None:
        if (self.at is None) == (self.after is None):
            raise BadOption("Next takes either at=… or after=…", code="schedule.next")
        if self.at is not None:
            from_datetime(self.at)
        else:
            duration_ms(self.after or 0, what="Next(after=…)")

    def at_ms(self, now: int) -> int:
        return from_datetime(self.at) if self.at is not None else now + duration_ms(self.after or 0)


@dataclass(frozen=True, slots=True)
class Missed:
    """Occurrences that fell due while nobody could run them, and that won't run."""

    count: int
    first_at: datetime
    last_at: datetime
