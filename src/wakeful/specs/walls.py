"""Layer 1, pure. At which instants do the clocks of a zone show the local times that a rule names?"""

from typing import Protocol

from wakeful.specs.zones import DAY_S, EARLIEST_S, Fold, Gap, Spans
from wakeful.values.times import LATEST_MS

LATEST_S = LATEST_MS // 1000


class Walls(Protocol):
    """A rule on local time, in seconds as if local time were UTC: it knows nothing of zones."""

    def next(self, wall: int) -> int | None:
        """The first local second at or after that one which the rule names."""

    def previous(self, wall: int) -> int | None:
        """The last local second at or before that one which the rule names."""


def next_instant(walls: Walls, spans: Spans, second: int, gap: Gap, fold: Fold) -> int | None:
    """The first second UTC at or after that one at which the clocks show what the rule names."""
    second = max(second, EARLIEST_S)
    while second <= LATEST_S:
        start, end, offset, earlier, later = spans.at(second)
        low = second + offset
        if gap == "shift" and earlier < offset and second == start:
            low = start + earlier  # what the clocks jumped over comes first
        elif fold == "first" and earlier > offset and low < start + earlier:
            low = start + earlier  # what they show again was there already
        wall = walls.next(low)
        if wall is None:
            if later >= offset or end - second >= 2 * DAY_S:
                return None
            second = end  # the clocks are about to go back, to local times before `low`
            continue
        if wall < (end + later if fold == "second" and later < offset else end + offset):
            found = max(wall - offset, second)
            return found if found <= LATEST_S else None
        # Nothing is named from `low` up to `wall`, so nothing comes until a day before it (offsets differ by a day at
        # most), unless the clocks are about to go back and show local times before `low` again.
        is_safe = later >= offset or end - second >= 2 * DAY_S
        second = max(end, wall - 2 * DAY_S) if is_safe else end
    return None


def previous_instant(walls: Walls, spans: Spans, second: int, gap: Gap, fold: Fold) -> int | None:
    """The last second UTC at or before that one at which the clocks show what the rule names."""
    second = min(second, LATEST_S)
    while second >= EARLIEST_S:
        start, end, offset, earlier, later = spans.at(second)
        high = second + offset
        if fold == "second" and later < offset and high >= end + later:
            high = end + later - 1  # what the clocks will show again counts then
        wall = walls.previous(high)
        if wall is None:
            if earlier <= offset or second - start >= 2 * DAY_S:
                return None
            second = start - 1  # the clocks just went back, from local times after `high`
            continue
        if gap == "shift" and earlier < offset and start + earlier <= wall < start + offset:
            return start
        if wall >= (start + earlier if fold == "first" and earlier > offset else start + offset):
            return wall - offset
        is_safe = earlier <= offset or second - start >= 2 * DAY_S
        second = min(start - 1, wall + 2 * DAY_S) if is_safe else start - 1
    return None


def jumps(walls: Walls, spans: Spans, first: int, last: int) -> list[int]:
    """The seconds UTC in `first <= s < last` at which the clocks jump over local times that the rule names."""
    found = []
    second = max(first, EARLIEST_S)
    while second < min(last, LATEST_S):
        start, end, offset, earlier, _ = spans.at(second)
        if second == start and earlier < offset:
            wall = walls.next(start + earlier)
            if wall is not None and wall < start + offset:
                found.append(start)
        second = end
    return found
