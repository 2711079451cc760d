"""Layer 2, pure. What is where in the bucket?

slots/SLOT         the one log of the prefix: what was written SLOT-th, by whichever node; created once, never changed
snapshots/N        the N-th snapshot: which chunks it has, and up to which slot it goes; created once, never removed
chunks/HOME/DIGEST a part of a snapshot; HOME is the number of the snapshot that it was first made for, and who made it
"""

import re

MOVED = "moved"  # what a home begins with whose chunks no snapshot has, but a record of the log
SLOTS, SNAPSHOTS, CHUNKS = "slots/", "snapshots/", "chunks/"


def slot_key(slot: int) -> str:
    return f"{SLOTS}{slot:012d}"


def snapshot_key(number: int) -> str:
    return f"{SNAPSHOTS}{number:08d}"


def chunk_key(home: str, digest: str) -> str:
    return f"{CHUNKS}{home}/{digest}"


def home_of(number: int, token: str) -> str:
    """Where the chunks go that are new in that snapshot, whoever else makes one of that number."""
    return f"{number:08d}-{token}"


def moved_home(slot: int, token: str) -> str:
    """Where the chunks go of a store that is moved in with that slot."""
    return f"{MOVED}{slot:012d}-{token}"


_NUMBERED = re.compile(
    r"(slots/[0-9]{12}|snapshots/[0-9]{8}|chunks/(moved[0-9]{12}|[0-9]{8})-[0-9A-Za-z-]+/[0-9a-f]{40})"
)


def is_ours(key: str) -> bool:
    """Whether Wakeful would give something that name: what else lies about there is nobody's business.

    >>> is_ours(slot_key(12)), is_ours("slots/README"), is_ours(chunk_key(home_of(7, "ab"), "../../secret"))
    (True, False, False)
    """
    return _NUMBERED.fullmatch(key) is not None


def number_of(key: str) -> int:
    """The number that a key ends with, or that its chunk's home begins with.

    >>> number_of(slot_key(12)), number_of(snapshot_key(3)), number_of(chunk_key(home_of(7, "ab"), "cd"))
    (12, 3, 7)
    """
    return int(key.split("/")[1].partition("-")[0].removeprefix(MOVED))
