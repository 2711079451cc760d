"""Layer 2, pure. What is where in the bucket?

owners/N          who owns the prefix from its N-th session on; created once, never changed, never removed
log/N/SLOT        what the N-th session wrote, in order; the last one is its seal, which is never removed
snap/N/K          the K-th snapshot of that session: which chunks it has, and up to which slot it goes
chunk/N/DIGEST    a part of a snapshot
beat/N            that the session lives, or has ended; replaced every few seconds, and only to know who to wait for
"""


def owner_key(number: int) -> str:
    return f"owners/{number:08d}"


def log_key(session: int, slot: int) -> str:
    return f"log/{session:08d}/{slot:010d}"


def snapshot_key(session: int, count: int) -> str:
    return f"snap/{session:08d}/{count:08d}"


def chunk_key(session: int, digest: str) -> str:
    return f"chunk/{session:08d}/{digest}"


def beat_key(session: int) -> str:
    return f"beat/{session:08d}"


def session_of(key: str) -> int:
    """The session that a key of it names.

    >>> session_of(log_key(7, 12)), slot_of(log_key(7, 12))
    (7, 12)
    """
    return int(key.split("/")[1])


def slot_of(key: str) -> int:
    return int(key.rpartition("/")[2])
