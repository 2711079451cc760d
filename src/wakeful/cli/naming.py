"""Layer 5. What is a timer called for people: a schedule's next occurrence, one that runs beside it, or its own name?"""

from typing import TYPE_CHECKING

from wakeful.values.ids import RESERVED

if TYPE_CHECKING:
    from wakeful.values.timers import Timer


def own_classes(names: list[str]) -> list[str]:
    """The classes of the program itself."""
    return [name for name in names if not name.startswith(RESERVED)]


def schedule_named(timer: str) -> str | None:
    """The schedule that a timer of this name belongs to; None when it is no schedule's."""
    from wakeful.schedules.records import LANE, PREFIX, schedule_of

    return schedule_of(timer)[0] if timer.partition(":")[0] in (PREFIX, LANE) and ":" in timer else None


def kind_of(timer: "Timer") -> str | None:
    """What a schedule's timer stands for: `schedule`, `trigger`, `backfill`, `redrive` or `parallel`."""
    from wakeful.schedules.records import LANE, PREFIX, decode_lane
    from wakeful.values.errors import Undecodable

    prefix = timer.name.partition(":")[0]
    if prefix == PREFIX:
        return "schedule"
    try:
        return decode_lane(timer.payload).kind if prefix == LANE else None
    except (Undecodable, ValueError):
        return "run"


def timer_words(timer: "Timer") -> str:
    """The timer, short: `schedule nightly`, `backfill of nightly 3/40`, `alarm`."""
    from wakeful.schedules.records import decode_lane

    name, kind = schedule_named(timer.name), kind_of(timer)
    if name is None or kind is None:
        return name_words(timer.name)
    if kind == "backfill":
        lane = decode_lane(timer.payload)
        return f"backfill of {name} {lane.index + 1}/{lane.total}"
    word = {"schedule": "schedule", "trigger": "fired", "redrive": "run of", "parallel": "run of"}.get(kind, "run of")
    return f"{word} {name}"


def name_words(timer: str) -> str:
    """The same where only the name is known."""
    from wakeful.jobs.ids import KEYED, PREFIX, method_of

    name = schedule_named(timer)
    if timer.startswith(KEYED):
        return f"job {timer.removeprefix(KEYED)!r}"
    if timer.startswith(f"{PREFIX}:"):
        return f"job {method_of(timer)}"
    if name is None:
        return timer
    return f"schedule {name}" if timer.startswith("schedule:") else f"run of {name}"
