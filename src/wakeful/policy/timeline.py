"""Layer 1, pure. Which instants does a schedule name, over all the versions it has had?"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct

from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec


class Version(Struct, frozen=True, array_like=True):
    """One spec of a schedule and when it was in force: after `since`, up to and including `until`."""

    number: int
    asked: str  # the spec as it was given
    spec: str  # as it is kept: anchored, zoned, seeded
    since: int
    until: int | None = None


class PausedSpan(Struct, frozen=True, array_like=True):
    """When a schedule was paused: after `since`, before `until`."""

    since: int
    until: int | None
    note: str = ""

    def holds(self, at: int) -> bool:
        return self.since < at and (self.until is None or at < self.until)


# Kept by number and by size: a spec may have a million characters, and eight thousand such would be all the memory.
_SHORT = 1_000


def spec_of(text: str) -> Spec:
    """The spec of a kept text; parsed once while it is in use."""
    return _short_spec(text) if len(text) <= _SHORT else _long_spec(text)


def kept_text(spec: Spec) -> str:
    """The text to keep of a spec; who asks for its spec gets this very one, and nothing is read for it."""
    text = spec.text
    _made[text] = spec
    spec_of(text)
    _made.pop(text, None)
    return text


def forget_specs() -> None:
    """Read every text anew."""
    _short_spec.cache_clear()
    _long_spec.cache_clear()


_made: dict[str, Spec] = {}  # those whose text is being kept


def _made_or_parsed(text: str) -> Spec:
    return _made.get(text) or parse_spec(text)


_short_spec = lru_cache(maxsize=8_192)(_made_or_parsed)
_long_spec = lru_cache(maxsize=16)(_made_or_parsed)


class Timeline:
    """The occurrences of a schedule: those of each version while it was in force, within its bounds."""

    __slots__ = ("_end", "_extra", "_pauses", "_start", "_versions")

    def __init__(
        self,
        versions: Sequence[Version],
        *,
        pauses: Sequence[PausedSpan] = (),
        start_at: int | None = None,
        end_at: int | None = None,
        extra: int | None = None,
    ) -> None:
        self._versions = versions
        self._pauses = pauses
        self._start = start_at  # inclusive
        self._end = end_at  # exclusive
        self._extra = extra  # an occurrence that the handler asked for with `Next`

    def next_ms(self, after: int) -> int | None:
        """The first occurrence strictly after."""
        found = self._first(after, _next_of)
        if self._extra is not None and self._extra > after and (found is None or self._extra < found):
            return self._extra
        return found

    def resume_ms(self, after: int) -> int | None:
        """Where the search of `next_ms(after)`, just asked, stood when it had to stop; None when it came to its end."""
        return self._first(after, _resume_of)

    def _first(self, after: int, ask: Callable[[Spec, int], int | None]) -> int | None:
        """What the first version that is in force then, or later, answers, within the bounds."""
        if self._start is not None:
            after = max(after, self._start - 1)
        for version in self._versions:
            if version.until is not None and version.until <= after:
                continue
            found = ask(spec_of(version.spec), max(after, version.since))
            if found is not None and (version.until is None or found <= version.until):
                return found if self._end is None or found < self._end else None
        return None

    def previous_ms(self, before: int) -> int | None:
        """The last occurrence strictly before."""
        found = self._previous(before)
        if self._extra is not None and self._extra < before and (found is None or self._extra > found):
            return self._extra
        return found

    def _previous(self, before: int) -> int | None:
        if self._end is not None:
            before = min(before, self._end)
        for version in reversed(self._versions):
            if version.since >= before:
                continue
            limit = before if version.until is None else min(before, version.until + 1)
            found = spec_of(version.spec).previous_ms(limit)
            if found is not None and found > version.since:
                return found if self._start is None or found >= self._start else None
        return None

    def next_event(self, after: int) -> int | None:
        """The next occurrence, or the next one that the clocks jump over if that comes first: both need a verdict. Or
        where a search that had to stop stood: it goes on from there.
        """
        found = self.next_ms(after)
        if (stood := self.resume_ms(after)) is not None and (found is None or stood < found):
            return stood
        for version in self._versions:
            if "gap=skip" in version.spec and (version.until is None or version.until > after):
                gaps = self._gaps(version, after, found if found is not None else after + _GAP_SEARCH_MS)
                if gaps:
                    return gaps[0]
        return found

    def gaps(self, after: int, to: int) -> list[int]:
        """The occurrences in `after < t <= to` that the clocks jumped over, paused or not: they would not have come."""
        return [at for version in self._versions if "gap=skip" in version.spec for at in self._gaps(version, after, to)]

    def _gaps(self, version: Version, after: int, to: int) -> list[int]:
        """Of one version, in `after < t <= to`, within the bounds."""
        first = max(after, version.since) + 1
        last = to if version.until is None else min(to, version.until)
        if self._start is not None:
            first = max(first, self._start)
        if self._end is not None:
            last = min(last, self._end - 1)
        if first > last:
            return []
        spec = spec_of(version.spec)
        # The jump may lead to a time that the spec names as well (2:00 and 3:00): then that instant has its occurrence.
        return [at for at in spec.gaps_ms(first, last + 1) if spec.next_ms(at - 1) != at]

    def is_paused(self, at: int) -> bool:
        return any(pause.holds(at) for pause in self._pauses)

    def pause_of(self, at: int) -> PausedSpan | None:
        """The pause that holds this instant."""
        return next((pause for pause in self._pauses if pause.holds(at)), None)


# A spec that never occurs again but still names a time in a gap is looked at this far ahead.
_GAP_SEARCH_MS = 366 * 86_400_000


def _next_of(spec: Spec, after: int) -> int | None:
    return spec.next_ms(after)


def _resume_of(spec: Spec, after: int) -> int | None:
    return spec.resume_ms(after)
