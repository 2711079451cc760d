"""Layer 1, pure. How do a million schedules that name the same instant not all run in the same second?"""

import json
import re
from hashlib import blake2b

from wakeful.specs.combine import deeper
from wakeful.specs.spec import CatchUp, Spec
from wakeful.specs.words import length_text, length_words
from wakeful.values.errors import BadSpec
from wakeful.values.times import LATEST_MS, Duration, duration_ms

WINDOW_MAX_MS = 366 * 86_400_000
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")


def spread(spec: object, window: Duration) -> "Spread":
    """The spec with every occurrence moved by the same part of the window, which each schedule has its own of.

    The part follows from the schedule's identity alone, so it is the same after a restart and on every node; until the
    spec is bound to a schedule it is 0.

    >>> from wakeful import every, spread
    >>> spread(every.hour, "10m").describe()
    'every hour, spread over 10 minutes'
    """
    from wakeful.specs.text import to_spec  # it knows all kinds, this one among them

    ms = duration_ms(window, what="spread")
    if not 0 < ms <= WINDOW_MAX_MS:
        raise BadSpec(f"spread {window!r}: give a window from 1ms to 366 days", code="spec.spread")
    return Spread(to_spec(spec), ms, None)


class Spread(Spec):
    """A spec moved by an offset in [0, window) that a seed decides. Make it with `spread(…)`."""

    __slots__ = ("depth", "offset_ms", "seed", "spec", "window_ms")

    def __init__(self, spec: Spec, window_ms: int, seed: str | None) -> None:
        self.spec = spec
        self.window_ms = window_ms
        self.seed = seed
        self.offset_ms = 0 if seed is None else _offset(seed, window_ms)
        self.depth = deeper(spec)

    @property
    def catch_up(self) -> CatchUp:
        return self.spec.catch_up

    @property
    def is_once(self) -> bool:
        return self.spec.is_once

    @property
    def text(self) -> str:
        plain = f"({self.spec.text}) spread {length_text(self.window_ms)}"
        if self.seed is None:
            return plain
        return f"{plain} seed {self.seed if _PLAIN.fullmatch(self.seed) else json.dumps(self.seed)}"

    def describe(self) -> str:
        said = f"{self.spec.describe()}, spread over {length_words(self.window_ms)}"
        return said if self.seed is None else f"{said} (this one {length_words(self.offset_ms)} later)"

    def next_ms(self, after: int) -> int | None:
        found = self.spec.next_ms(after - self.offset_ms)
        return None if found is None or found + self.offset_ms > LATEST_MS else found + self.offset_ms

    @property
    def counted(self) -> tuple[Spec, ...]:
        return self.spec.counted

    def resume_ms(self, after: int) -> int | None:
        found = self.spec.resume_ms(after - self.offset_ms)
        return None if found is None else found + self.offset_ms

    def previous_ms(self, before: int) -> int | None:
        found = self.spec.previous_ms(before - self.offset_ms)
        return None if found is None else found + self.offset_ms

    def gaps_ms(self, first: int, last: int) -> list[int]:
        return [at + self.offset_ms for at in self.spec.gaps_ms(first - self.offset_ms, last - self.offset_ms)]

    def bound(self, *, added_at: int, seed: str, zone: str) -> Spec:
        spec = self.spec.bound(added_at=added_at, seed=seed, zone=zone)
        return Spread(spec, self.window_ms, seed if self.seed is None else self.seed)


def _offset(seed: str, window_ms: int) -> int:
    digest = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * window_ms >> 64
