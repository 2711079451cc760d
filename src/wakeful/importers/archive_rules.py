"""Layer 5. What of an object may travel in a file: the one rule of those who write it and of those who read it?

Whoever reads trusts nobody: what `wakeful export` would not write is in no file that it wrote.
"""

import msgspec

from wakeful.jobs.payload import readable_payload
from wakeful.machines.records import ROW as MACHINE
from wakeful.values.codec import decode_loosely
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.errors import BadValue, Undecodable
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.values.timers import Timer

# What Wakeful keeps beside an object's own rows and is the object's alone. The rest names other objects or connections.
CARRIED = ("state", "schedules", "machine", "machine.gone", "workers.name")
CARRIED_PREFIXES = ("schedule:", "run:")
TIMERS = ("alarm", "schedule", "run", "job", "machine", "machine-do")  # of its own; others are letters and errands


class Bar(msgspec.Struct, frozen=True):
    """Why something does not travel: the end of the error's code, what it is, and when it would."""

    code: str
    why: str
    until: str = ""


def check_own(id: ObjectId, what: str) -> None:
    """`BadValue` for an object of Wakeful's own: tokens, audit rows, keys, quotas come from nobody's file."""
    if id.cls.startswith(RESERVED):
        raise BadValue(
            f"{id} is of a class of Wakeful's own, which no {what}: tokens, quotas and functions on the app's clock are "
            "made in the deployment that they are for",
            code="import.reserved" if what.startswith("import") else "export.reserved",
        )


def bar_of_row(id: ObjectId, space: int, name: str, data: bytes) -> Bar | None:
    """What keeps the row from travelling."""
    if space == USER:
        return None
    if space != SYSTEM:
        return Bar("row", f"a row in space {space}, which there is not")
    if name.startswith("jobs."):
        return Bar("jobs", f"other jobs wait for jobs of {id}", "when they have run")
    if name not in CARRIED and not name.startswith(CARRIED_PREFIXES):
        return Bar("row", f"{id} has something that this version can't carry: {name!r}")
    if (space, name) == MACHINE:
        kept = _loosely(data)
        if not isinstance(kept, dict):
            return Bar("row", f"what {id} keeps of its machine can't be read")
        if kept.get("parent") is not None or kept.get("actors"):
            return Bar("actors", f"{id} is a machine that others belong to; they would lose each other")
    return None


def bar_of_timer(timer: Timer) -> Bar | None:
    """What keeps the timer from travelling: that it is about another object as well."""
    prefix = timer.name.partition(":")[0]
    if prefix not in TIMERS:
        return Bar(
            "timer", f"{timer.id} is in the middle of something with another object ({timer.name})", "when that is over"
        )
    if prefix == "job":
        kept = readable_payload(timer)
        if kept.waits or kept.batch is not None:
            why = f"{timer.id} has a job that waits for others or belongs to a batch"
            return Bar("jobs", why, "when they have run")
    return None


def _loosely(data: bytes) -> object:
    try:
        return decode_loosely(data)
    except (Undecodable, RecursionError):
        return None
