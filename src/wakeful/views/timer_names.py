"""Layer 5. What is a timer called for people: a schedule's next occurrence, one that runs beside it, or its own name?"""

from contextlib import suppress
from typing import TYPE_CHECKING

from wakeful.values.ids import RESERVED
from wakeful.values.timers import MACHINE_TIMERS, WORKFLOW_TIMERS

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
    if timer.name.startswith(("machine-do:", "machine-mail:")):
        return machine_words(f"{timer.name.partition(':')[0]}:{_first_word(timer.payload)}")
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
    if timer.partition(":")[0] in MACHINE_TIMERS:
        return machine_words(timer)
    if timer.partition(":")[0] in WORKFLOW_TIMERS:
        return _workflow_words(timer)
    if timer.startswith(KEYED):
        return f"job {timer.removeprefix(KEYED)!r}"
    if timer.startswith(f"{PREFIX}:"):
        return f"job {method_of(timer)}"
    if name is None:
        return timer
    return f"schedule {name}" if timer.startswith("schedule:") else f"run of {name}"


def parked_words(timer: "Timer") -> str:
    """One that waits for a person: what that person has to know of it to decide."""
    from wakeful.notices.deliveries import CLASS
    from wakeful.notices.notice import decode_notice

    if timer.name.startswith("machine-"):
        return timer_words(timer)
    if timer.id.cls == CLASS:
        with suppress(ValueError):  # it is damaged, or no delivery
            return f"delivery of: {decode_notice(timer.payload).words(messages=False)}"
    return name_words(timer.name)


def machine_words(timer: str) -> str:
    """A timer of a machine: `delay 24h in order.placed`, `invoked ship`, `action thank`."""
    prefix, _, rest = timer.partition(":")
    word = MACHINE_TIMERS[prefix]
    if rest.startswith("xstate.after."):
        length, _, state = rest.removeprefix("xstate.after.").partition(".")
        return f"{word} {length} in {state}"
    # Actions that wait, and letters, have numbers for names; in the ledger they have their own.
    is_number = rest != "" and set(rest) <= set("0123456789abcdef") and len(rest) > 7
    return word if is_number else f"{word} {rest}".rstrip()


def _workflow_words(timer: str) -> str:
    """A timer of a workflow: `workflow goes on`, `workflow's call take`; letters have numbers for names."""
    prefix, _, rest = timer.partition(":")
    is_number = rest != "" and set(rest) <= set("0123456789abcdef") and len(rest) > 7
    named = f" {rest}" if prefix != "workflow" and not is_number else ""
    return f"{WORKFLOW_TIMERS[prefix]}{named}" if rest else prefix


def _first_word(payload: bytes | None) -> str:
    """What the payload of a machine's action or letter begins with: its name."""
    from wakeful.values.codec import decode_loosely
    from wakeful.values.errors import Undecodable

    try:
        found = decode_loosely(payload or b"")
        while isinstance(found, list) and found:
            found = found[0]
    except Undecodable:
        return ""
    return found if isinstance(found, str) else ""
