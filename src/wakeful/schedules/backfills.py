"""Layer 4. Which occurrences does a backfill run?"""

from collections.abc import Iterator

from msgspec.structs import replace

from wakeful.policy.timeline import Timeline
from wakeful.schedules.records import Record
from wakeful.values.clock import Clock
from wakeful.values.errors import LimitExceeded

BACKFILL_MAX = 10_000  # runs of one backfill; more is a migration, and should be one
BACKFILL_COUNTED_MAX = 10 * BACKFILL_MAX  # counted to say how many it would be: some tenths of a second
BREATH = 200  # occurrences that are worked out at once: about two milliseconds


def backfill_times(name: str, record: Record, first: int, last: int) -> list[int]:
    """The occurrences in `first <= t < last`, under the versions then in force."""
    found = list(occurrences(record, first, last))
    check_backfill(name, found)
    return found


def occurrences(record: Record, first: int, last: int) -> Iterator[int]:
    """Those occurrences one after the other, at most one more than are counted."""
    versions = [replace(record.versions[0], since=min(first - 1, record.versions[0].since)), *record.versions[1:]]
    timeline = Timeline(versions, start_at=record.options.start_at, end_at=record.options.end_at)
    at = timeline.next_ms(first - 1)
    for _ in range(BACKFILL_COUNTED_MAX + 1):
        if at is None or at >= last:
            return
        yield at
        at = timeline.next_ms(at)


async def sliced_times(name: str, record: Record, first: int, last: int, clock: Clock) -> list[int]:
    """Those occurrences as a list, with room for others between: thousands take longer than their timers should wait."""
    found: list[int] = []
    for at in occurrences(record, first, last):
        found.append(at)
        if len(found) % BREATH == 0:
            await clock.sleep(0)
    check_backfill(name, found)
    return found


def check_backfill(name: str, found: list[int]) -> None:
    """`LimitExceeded` when that is more than one backfill may run."""
    if len(found) > BACKFILL_MAX:
        more = "more than " if len(found) > BACKFILL_COUNTED_MAX else ""
        raise LimitExceeded(
            f"backfill of {name!r}: that would be {more}{min(len(found), BACKFILL_COUNTED_MAX)} runs, "
            f"the limit is {BACKFILL_MAX}; take a shorter range",
            code="limit.backfill",
        )
