"""What costs most, in the measured stretch alone and not in its preparation?"""

import cProfile
import pstats
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_profile: cProfile.Profile | None = None


def start() -> None:
    """From here on measured stretches are profiled, which makes them two to three times slower."""
    global _profile
    _profile = cProfile.Profile()


@contextmanager
def stretch() -> Iterator[None]:
    """What runs in it, in this thread, is what the profile shows."""
    if _profile is None:
        yield
        return
    _profile.enable()
    try:
        yield
    finally:
        _profile.disable()


def show(lines: int) -> None:
    if _profile is not None:
        pstats.Stats(_profile, stream=sys.stdout).sort_stats("tottime").print_stats(lines)
