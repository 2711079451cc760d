"""Layer 1, pure. In which order do timers of one instant fire that different processes added?"""

from zlib import crc32

EPOCH_MS = 1_577_836_800_000  # 2020-01-01
COUNT_BITS, TAG_BITS = 12, 9
INSERTED = 1 << 62  # what an owner gives is below
_COUNT = (1 << COUNT_BITS) - 1


class Order:
    """Places in the order of insertion that rise within a process and, to the millisecond, over all of them.

    Bit 62 puts them behind what an object set itself for the same instant.
    """

    def __init__(self, node: str) -> None:
        self._tag = (crc32(node.encode()) & ((1 << TAG_BITS) - 1)) << COUNT_BITS
        self._last = 0  # milliseconds and count, as one number

    def next(self, now: int) -> int:
        # One number: a count that overflows borrows from the next millisecond, and a clock set back is passed over.
        self._last = last = max(self._last + 1, (now - EPOCH_MS) << COUNT_BITS)
        return INSERTED | (last & ~_COUNT) << TAG_BITS | self._tag | last & _COUNT
