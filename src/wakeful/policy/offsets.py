"""Layer 1, pure. How far is the deployment's clock from this node's own, and is the answer to be trusted?

A measurement is one question to the store, with the node's own time before and after it: the store's answer
belongs to some instant in between, so it is known to half the round trip. The shortest round trip knows best.
"""

from collections.abc import Iterable
from typing import NamedTuple

# A clock that goes wrong by more than this is broken, and firing by it would do harm: real ones stay a hundred times
# below. And whatever the time between two measurements, a difference of more than the second is one that was set.
DRIFT_ALLOWED = 0.05
JUMP_MS = 250
# Milliseconds are cut off on both sides.
GRAIN_MS = 2


class Offset(NamedTuple):
    """The store's clock is so much ahead of the node's own, give or take `error_ms`."""

    ms: int
    error_ms: int


def best_offset(samples: Iterable[tuple[int, int, int]]) -> Offset:
    """The best of some measurements, each (own time before, the store's time, own time after)."""
    before, there, after = min(samples, key=lambda sample: sample[2] - sample[0])
    return Offset(there - (before + after) // 2, (after - before + 1) // 2 + GRAIN_MS)


def is_jump(before: Offset, found: Offset, elapsed_ms: int) -> bool:
    """Between two measurements, so far apart by the node's own clock, that clock was set, or goes wrong."""
    drift_ms = min(JUMP_MS, int(DRIFT_ALLOWED * max(0, elapsed_ms)))
    return abs(found.ms - before.ms) > drift_ms + found.error_ms + before.error_ms


def follow(believed_ms: int, found: Offset) -> int:
    """What to believe from now on: as before, when the measurement can't tell the difference."""
    return believed_ms if abs(found.ms - believed_ms) <= found.error_ms else found.ms
