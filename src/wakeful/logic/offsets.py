"""Layer 1, pure. How far is the deployment's clock from this node's own, and is the answer to be trusted?

A measurement is one question to the store, with the node's own time before and after it: the store's answer
belongs to some instant in between, so it is known to half the round trip. The shortest round trip knows best.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

# A node's clock drifts by far less than this between two measurements. More is a clock that was set, or one that
# can't be trusted, and firing by it would do harm.
JUMP_MS = 250
# Milliseconds are cut off on both sides.
GRAIN_MS = 2

Judgement = Literal["keep", "follow", "jump"]


class Offset(NamedTuple):
    """The store's clock is so much ahead of the node's own, give or take `error_ms`."""

    ms: int
    error_ms: int


def measured(samples: Iterable[tuple[int, int, int]]) -> Offset:
    """The best of some measurements, each (own time before, the store's time, own time after)."""
    before, there, after = min(samples, key=lambda sample: sample[2] - sample[0])
    return Offset(there - (before + after) // 2, (after - before + 1) // 2 + GRAIN_MS)


def judge(believed_ms: int, found: Offset) -> Judgement:
    """Keep what is believed, follow the new measurement, or treat it as a clock that was set."""
    apart = abs(found.ms - believed_ms)
    if apart <= found.error_ms:
        return "keep"
    return "follow" if apart <= JUMP_MS + found.error_ms else "jump"
