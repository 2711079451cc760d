"""Layer 5, pure. How do lengths of time, sizes and counts look to people?"""

_UNITS = (("ms", 1, 1_000), ("s", 1_000, 90_000), ("min", 60_000, 5_400_000), ("h", 3_600_000, 172_800_000))


def length(ms: float) -> str:
    """A length of time in the two digits that matter."""
    for unit, size, up_to in _UNITS:
        if ms < up_to:
            value = ms / size
            return f"{value:.1f} {unit}" if unit == "s" and value < 10 else f"{value:.0f} {unit}"
    return f"{ms / 86_400_000:.0f} days"


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 timer`, `2,000 timers`."""
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"
