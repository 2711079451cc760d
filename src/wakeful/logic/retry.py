"""Layer 1, pure. When is a failed alarm tried again, and when is it given up?"""

ALARM_RETRIES_MAX = 6
ALARM_BACKOFF_MS = 2_000
JITTER = 0.25
# A process that died this often while one timer ran was most likely killed by it.
CRASHES_MAX = 3
# Failures that are ours are tried again without being counted, this much later at first and at most.
PLATFORM_BACKOFF_MS = 50
PLATFORM_BACKOFF_MAX_MS = 5_000


def alarm_delay_ms(failures: int, roll: float) -> int | None:
    """How long after the n-th failure (from 1) the next attempt comes: 2, 4, … 64 s plus up to 25 %; None: no more."""
    if failures > ALARM_RETRIES_MAX:
        return None
    return int(ALARM_BACKOFF_MS * 2 ** (failures - 1) * (1 + JITTER * roll))


def platform_delay_ms(tries: int, roll: float) -> int:
    """How long to wait before asking again for something of ours that is away, after that many tries."""
    return int(min(PLATFORM_BACKOFF_MAX_MS, PLATFORM_BACKOFF_MS * 2 ** min(tries, 16)) * (1 - JITTER * roll))
