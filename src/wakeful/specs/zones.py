"""Layer 1, pure. At which instants do the clocks of a zone show a local time, or those that a rule names?"""

from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, Protocol, cast, get_args
from zoneinfo import ZoneInfo, available_timezones

from wakeful.values.errors import BadOption, BadSpec
from wakeful.values.times import LATEST_MS

Gap = Literal["shift", "skip"]
Fold = Literal["first", "second", "both"]

DAY_S = 86_400
# The instants that are asked of a zone: the years 1 to 9999 less a few days at both ends, where `datetime` overflows.
EARLIEST_S = -62_135_596_800 + 4 * DAY_S
LATEST_S = 253_402_300_800 - 4 * DAY_S

Span = tuple[int, int, int, int, int]
"""From this second UTC up to that one (exclusive), local time is so many seconds ahead; and so many before and after."""

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
# A zone is looked at in pieces of 48.5 days, and in a piece every three days: the two changes of an offset nearest to
# each other in the whole database, of all zones and years, are 95 hours apart (Freetown, September 1939).
_PIECE_BITS = 22
_STEP_S = 3 * DAY_S
# 544 years of pieces; a walk over millennia starts afresh rather than grow.
_PIECES_MAX = 4_096


def zone_of(name: str) -> ZoneInfo:
    """The zone of that IANA name; an unknown one is an error that names the nearest."""
    if not isinstance(name, str):
        raise BadSpec(f"zone {name!r}: give an IANA name such as 'Europe/Paris'", code="spec.zone")
    return _zone(name)


def check_gap(value: object) -> Gap:
    """The value, when it is a gap policy."""
    return cast("Gap", _one_of(value, "gap", get_args(Gap)))


def check_fold(value: object) -> Fold:
    """The value, when it is a fold policy."""
    return cast("Fold", _one_of(value, "fold", get_args(Fold)))


def instants_of(local: datetime, zone: ZoneInfo, gap: Gap, fold: Fold) -> tuple[int, ...]:
    """The instants (milliseconds UTC) at which clocks in the zone show that naive local time.

    In a gap: none (`skip`) or the first instant after it (`shift`). In a fold: the first, the second or both.
    """
    since = local.replace(tzinfo=None) - _EPOCH
    wall = since // _SECOND
    ms = since.microseconds // 1000
    spans = spans_of(zone)
    # A day to each side holds every offset that could apply, and never more than one change.
    _, end, early, _, after = spans.at(wall - DAY_S)
    late = spans.at(wall + DAY_S)[2]
    if early == late:
        return ((wall - early) * 1000 + ms,)
    while after == early:
        _, end, _, _, after = spans.at(end)
    first, second = wall - early, wall - late
    if first < end:
        if second < end or fold == "first":
            return (first * 1000 + ms,)
        return (second * 1000 + ms,) if fold == "second" else (first * 1000 + ms, second * 1000 + ms)
    if second >= end:
        return (second * 1000 + ms,)
    return (end * 1000,) if gap == "shift" else ()


@lru_cache(maxsize=1024)
def spans_of(zone: ZoneInfo) -> "Spans":
    """The one `Spans` of a zone."""
    return Spans(zone)


class Spans:
    """The offsets of one zone as spans of seconds, found when first asked for and kept."""

    __slots__ = ("_pieces", "_zone")

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._pieces: dict[int, list[Span]] = {}

    def at(self, second: int) -> Span:
        """The span that holds the second; two that touch may have the same offset."""
        piece = self._pieces.get(second >> _PIECE_BITS)
        if piece is None:
            piece = self._find_spans(second >> _PIECE_BITS)
        for span in piece:  # one, and two or three where the offset changes
            if second < span[1]:
                return span
        raise AssertionError("a piece ends where the next begins")

    def _find_spans(self, number: int) -> list[Span]:
        start, stop = number << _PIECE_BITS, (number + 1) << _PIECE_BITS
        if (fixed := self._zone.utcoffset(None)) is not None:  # UTC and the like: the same at all times
            same = fixed // _SECOND
            return self._keep(number, [(start, stop, same, same, same)])
        # A span goes on past the piece's ends to a change that is near them: local times around a change are read from
        # both of its sides, wherever the piece happens to end.
        offsets = [self._offset(start - _STEP_S), self._offset(start)]
        changes = [start if offsets[0] == offsets[1] else self._change(start - _STEP_S, start, offsets[0])]
        known = start
        while known < stop - 1:
            ahead = min(known + _STEP_S, stop - 1)
            if self._offset(ahead) != offsets[-1]:
                ahead = self._change(known, ahead, offsets[-1])
                changes.append(ahead)
                offsets.append(self._offset(ahead))
            known = ahead
        beyond = self._offset(stop + _STEP_S)
        changes.append(stop if beyond == offsets[-1] else self._change(stop - 1, stop + _STEP_S, offsets[-1]))
        offsets.append(beyond)
        spans = [
            (changes[i], changes[i + 1], offsets[i + 1], offsets[i], offsets[i + 2]) for i in range(len(changes) - 1)
        ]
        return self._keep(number, spans)

    def _keep(self, number: int, spans: list[Span]) -> list[Span]:
        if len(self._pieces) >= _PIECES_MAX:
            self._pieces.clear()
        self._pieces[number] = spans
        return spans

    def _change(self, low: int, high: int, offset: int) -> int:
        """The first second after `low` with another offset, given that `high` has one."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, second: int) -> int:
        second = min(max(second, EARLIEST_S), LATEST_S)
        shown = self._zone.fromutc((_EPOCH + timedelta(seconds=second)).replace(tzinfo=self._zone))
        return (shown.replace(tzinfo=None) - _EPOCH) // _SECOND - second


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    # "right/…" counts leap seconds and "localtime" is whatever this host says: neither means the same everywhere.
    if name.startswith(("posix/", "right/")) or name in ("localtime", "posixrules", "Factory"):
        raise BadSpec(f"zone {name!r} is not an IANA name; use one such as 'Europe/Paris'", code="spec.zone")
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise BadSpec(f"zone {name[:100]!r} is not known; {_nearest(name)}", code="spec.zone") from None


def _nearest(name: str) -> str:
    known = {known.lower(): known for known in sorted(available_timezones())}
    plain = name[:100].strip().lower().replace(" ", "_")
    if plain in known:
        return f"did you mean {known[plain]!r}?"
    # People type the city alone ("paris"), so the last part of each name counts too.
    names = [full for low, full in known.items() if low.rpartition("/")[2] == plain]
    names += [known[low] for low in get_close_matches(plain, known, n=3, cutoff=0.6)]
    if not names:
        cities = {low.rpartition("/")[2]: full for low, full in known.items()}
        names = [cities[city] for city in get_close_matches(plain.rpartition("/")[2], cities, n=3, cutoff=0.7)]
    if not names:
        return "use an IANA name such as 'Europe/Paris' or 'UTC'"
    return f"did you mean {' or '.join(repr(one) for one in dict.fromkeys(names[:3]))}?"


def _one_of(value: object, what: str, allowed: tuple[str, ...]) -> object:
    if value not in allowed:
        names = ", ".join(repr(one) for one in allowed)
        raise BadOption(f"{what} {value!r} is not one of {names}", code=f"option.{what}")
    return value


# When do they show what a rule on local time names?

_ANSWER_LATEST_S = LATEST_MS // 1000


class Walls(Protocol):
    """A rule on local time, in seconds as if local time were UTC: it knows nothing of zones."""

    def next(self, wall: int) -> int | None:
        """The first local second at or after that one which the rule names."""

    def previous(self, wall: int) -> int | None:
        """The last local second at or before that one which the rule names."""


def next_instant(walls: Walls, spans: Spans, second: int, gap: Gap, fold: Fold) -> int | None:
    """The first second UTC at or after that one at which the clocks show what the rule names."""
    second = max(second, EARLIEST_S)
    while second <= _ANSWER_LATEST_S:
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
            return found if found <= _ANSWER_LATEST_S else None
        # Nothing is named from `low` up to `wall`, so nothing comes until a day before it (offsets differ by a day at
        # most), unless the clocks are about to go back and show local times before `low` again.
        is_safe = later >= offset or end - second >= 2 * DAY_S
        second = max(end, wall - 2 * DAY_S) if is_safe else end
    return None


def previous_instant(walls: Walls, spans: Spans, second: int, gap: Gap, fold: Fold) -> int | None:
    """The last second UTC at or before that one at which the clocks show what the rule names."""
    second = min(second, _ANSWER_LATEST_S)
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
    instants = []
    second = max(first, EARLIEST_S)
    while second < min(last, _ANSWER_LATEST_S):
        start, end, offset, earlier, _ = spans.at(second)
        if second == start and earlier < offset:
            wall = walls.next(start + earlier)
            if wall is not None and wall < start + offset:
                instants.append(start)
        second = end
    return instants
