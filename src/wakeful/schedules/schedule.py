"""Layer 4. A schedule as people see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from wakeful.policy.plan import spec_of
from wakeful.schedules.records import Counters, Record
from wakeful.specs.spec import Spec
from wakeful.values.codec import decode
from wakeful.values.timers import Run
from wakeful.values.times import to_datetime

Standing = Literal["active", "paused", "waiting", "done", "retired"]


@dataclass(frozen=True, slots=True)
class SpecVersion:
    """One spec that a schedule had, and from when to when it was in force."""

    number: int
    text: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a schedule was at the moment of asking; it does not change when the schedule does.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Report(DurableObject):
    ...     async def send(self) -> None: ...
    >>> async with app.world(start="2026-03-28T12:00Z") as world:
    ...     schedule = await app.schedules(Report, "eu").add("every monday at 9am", Report.send, name="weekly")
    ...     print(schedule.name, schedule.state, schedule.next_at)
    weekly active 2026-03-30 09:00:00+00:00
    """

    name: str
    handler: str
    text: str  # the spec, as `str(spec)` has it
    state: Standing
    next_at: datetime | None
    tags: tuple[str, ...]
    metadata: Any
    versions: tuple[SpecVersion, ...]
    is_declared: bool
    depends_on: tuple[str, ...]
    waits_for: str | None  # the schedule whose run its due occurrence waits for
    note: str  # of the pause
    paused_until: datetime | None
    catch_up: str
    counters: Counters

    @property
    def spec(self) -> Spec:
        return spec_of(self.text)

    @property
    def version(self) -> int:
        return self.versions[-1].number

    @classmethod
    def of(cls, name: str, record: Record, now: int) -> "Schedule":
        """The record, for people."""
        pause = record.pause_at(now)
        options = record.options
        return cls(
            name=name,
            handler=options.handler,
            text=record.version.spec,
            state=standing_of(record, now),
            next_at=None if record.next_at is None else to_datetime(record.next_at),
            tags=options.tags,
            metadata=None if options.metadata is None else decode(options.metadata),
            versions=tuple(
                SpecVersion(v.number, v.spec, to_datetime(v.since), None if v.until is None else to_datetime(v.until))
                for v in record.versions
            ),
            is_declared=record.is_declared,
            depends_on=options.depends_on,
            waits_for=record.waits_for,
            note=pause.note if pause is not None else "",
            paused_until=to_datetime(pause.until) if pause is not None and pause.until is not None else None,
            catch_up=options.policy.catch_up,
            counters=record.counters,
        )


def standing_of(record: Record, now: int) -> Standing:
    """How it stands, for people."""
    if record.state == "active" and record.pause_at(now) is not None:
        return "paused"
    return record.state if record.waits_for is None else "waiting"


# Answers, named here because a class with a method `list` can't say `list[…]` in its signatures.
Found = list[Schedule]
Runs = list[Run]
Times = list[datetime]
Names = list[str]
