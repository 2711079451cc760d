"""How does a benchmark read its options?"""

import argparse
from collections.abc import Callable, Collection


def names(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """What reads `A,B`, each one of those that are known."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return found

    return read
