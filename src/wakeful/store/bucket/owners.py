"""Layer 2. Who owns the prefix, since when, and is it still there?

One owner after the other, each with a document of its own: `owners/N` is created once, so of two who try to be the N-th
one is. Whether the last one lives is judged by its beat, and only to know whether to wait: what makes it safe to be
wrong about that is the seal at the end of its log.
"""

import json
import os
import platform
import sys
from typing import Any

from msgspec import Struct

from wakeful.store.bucket.keys import beat_key, owner_key, session_of
from wakeful.store.bucket.storage import Patient, newest
from wakeful.values.errors import FileOwned, StoreError

BEAT_S = 5.0
LEASE_S = 15.0  # a beat that has not changed for so long of our own clock is no longer waited for
_LOOKS = 15  # in that time
_RIVALS_MAX = 8  # so often somebody else may be quicker before this gives up


class PrefixOwner(Struct, frozen=True):
    """The N-th owner of the prefix, as it wrote of itself."""

    number: int
    token: str  # nobody else has it
    host: str = ""
    pid: int = 0
    program: str = ""
    since: int = 0

    @property
    def words(self) -> str:
        return f"process {self.pid} on {self.host} ({self.program})"


def newest_owner(storage: Patient, known: int = 0) -> PrefixOwner | None:
    """The last one; None of an empty prefix."""
    number = newest(lambda n: storage.get(owner_key(n)) is not None, known)
    return read_owner(storage, number) if number else None


def read_owner(storage: Patient, number: int) -> PrefixOwner:
    data = storage.get(owner_key(number))
    try:
        said: dict[str, Any] = json.loads(data or b"")
        return PrefixOwner(number, *(said[name] for name in ("token", "host", "pid", "program", "since")))
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{storage.storage.place}: {owner_key(number)} is not what Wakeful wrote; give a prefix of its own",
            code="store.foreign",
        ) from None


def take(
    storage: Patient,
    token: str,
    *,
    now: int,
    own: frozenset[str] = frozenset(),
    dead: int = 0,
    lease_s: float = LEASE_S,
) -> PrefixOwner:
    """Become the next owner; `FileOwned` names the one that lives. It is not waited for sessions of these tokens, or of
    that number: they are known to be over.
    """
    about = {
        "token": token, "host": platform.node(), "pid": os.getpid(), "program": sys.argv[0] or sys.executable, "since": now
    }  # fmt: skip
    data = json.dumps(about).encode()
    known = 0
    _check_whole(storage)
    for _ in range(_RIVALS_MAX):
        last = newest_owner(storage, known)
        if last is not None and last.token not in own and last.number != dead:
            _wait_for(storage, last, lease_s)
        number = last.number + 1 if last is not None else 1
        if storage.create(owner_key(number), data):
            return PrefixOwner(number, token, *(about[name] for name in ("host", "pid", "program", "since")))  # type: ignore[arg-type]
        known = number
    raise FileOwned(f"{storage.storage.place}: others take it over all the time; let one of them have it")


def _check_whole(storage: Patient) -> None:
    """Something else removes objects here, a rule of the bucket perhaps, when an owner's document is gone."""
    listed = storage.keys("owners/")
    last = session_of(listed[-1]) if listed else 0
    if newest(lambda n: storage.get(owner_key(n)) is not None) < last:
        raise StoreError(
            f"{storage.storage.place}: documents of owners before {listed[-1]} are missing, which Wakeful never removes; bring "
            "them back (versioning, soft delete), and let no lifecycle rule remove current objects of the prefix",
            code="store.gap",
        )


def _wait_for(storage: Patient, owner: PrefixOwner, lease_s: float) -> None:
    """Return when the owner has ended, or has been silent for a lease; `FileOwned` as soon as it is heard."""
    first = storage.get(beat_key(owner.number))
    for _ in range(_LOOKS):
        if is_end(first):
            return
        storage.wait(lease_s / _LOOKS)
        now = storage.get(beat_key(owner.number))
        if now != first and not is_end(now):
            raise FileOwned(
                f"{storage.storage.place} is owned by {owner.words}; a bucket's prefix has one process at a time: stop it, "
                "use `wakeful call` beside it, give another prefix, or use PostgreSQL for several nodes"
            )
        first = now


def beat(owner: PrefixOwner, count: int) -> bytes:
    return f"{owner.token} {count}".encode()


def end_of(owner: PrefixOwner) -> bytes:
    """What a session that ends cleanly leaves instead of its last beat."""
    return f"{owner.token} end".encode()


def is_end(data: bytes | None) -> bool:
    return data is not None and data.endswith(b" end")
