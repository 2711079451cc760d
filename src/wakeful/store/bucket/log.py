"""Layer 2. The log of a session: how does a group of writes become one object, and how does somebody else end it?

Slots are filled in order, one at a time, each by a create: what is at slot n was acknowledged before anything is at n + 1.
Whoever takes over creates a seal in the next free slot; it comes before whatever the former owner still tries to write
there, or after it and then stands behind it. The first seal is the end, whatever came later.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wakeful.store.bucket.keys import log_key
from wakeful.store.bucket.storage import Patient, newest
from wakeful.values.errors import StoreDown, StoreError, Undecodable

_WRITES, _SEAL = b"WKL1w", b"WKL1s"  # the first bytes of a record, with the version of its form
WINDOW = 16  # slots that are sealed, or read, at once
_SPEED = 1  # of zlib: most of what there is to gain, at 10 µs a turn less than the default

Statement = tuple[str, Sequence[Any]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[str], list[tuple[int, list[Any]]]]).decode


class SealedLog(StoreDown):
    """Somebody ended this session: the slot that was to be written holds a seal."""

    default_code = "store.sealed"


class MissingSlot(Exception):
    """A slot before the end is not there: a newer snapshot has it, or somebody removed it."""


def pack(statements: Sequence[Statement]) -> bytes:
    """The writes as a record's bytes."""
    texts: dict[str, int] = {}
    rows = [(texts.setdefault(sql, len(texts)), list(parameters)) for sql, parameters in statements]
    return _WRITES + zlib.compress(_encode((list(texts), rows)), _SPEED)


def unpack(data: bytes, key: str) -> list[Statement]:
    if data[: len(_WRITES)] != _WRITES:
        raise StoreError(f"{key} is no record that this Wakeful knows; upgrade Wakeful", code="store.newer")
    try:
        texts, rows = _decode(zlib.decompress(data[len(_WRITES) :]))
    except (zlib.error, msgspec.DecodeError) as error:
        raise Undecodable(
            f"{key} is damaged ({error}); restore it from a backup or an older version of the object"
        ) from None
    return [(texts[number], parameters) for number, parameters in rows]


def is_seal(data: bytes) -> bool:
    return data.startswith(_SEAL)


class SessionLog:
    """What this session has written, slot by slot."""

    def __init__(self, storage: Patient, session: int, token: str) -> None:
        self._storage = storage
        self.session = session
        self._token = token.encode()
        self.slot = 0  # the last that is written
        self.bytes = 0

    def append(self, statements: Sequence[Statement]) -> None:
        """Durable in the next slot on return; `SealedLog` when the session was ended, `OutcomeUnknown` when nobody can say."""
        data = pack(statements)
        key = log_key(self.session, self.slot + 1)
        if not self._storage.create(key, data):
            raise SealedLog(
                f"another process has taken over {self._storage.storage.place} (session {self.session} is sealed): nothing "
                "of this was written"
            )
        self.slot += 1
        self.bytes += len(data)


def seal(storage: Patient, session: int, after: int, by: str) -> int:
    """End the session's log, of which the slots up to `after` are known; where its seal is.

    A window is tried at once: between a look at what is there and a seal, a live owner fills slots. `MissingSlot` when
    something is written behind the first that is free.
    """
    data = _SEAL + by.encode()
    while True:
        after = newest(lambda slot: _is_record(storage.get(log_key(session, slot))), after)
        slots = range(after + 1, after + 1 + WINDOW)
        found = storage.each(lambda slot: _seal_slot(storage, log_key(session, slot), data), slots)
        if True in found:
            first = found.index(True)
            if False in found[first:]:  # nobody fills a slot before the one below it is there
                raise MissingSlot(log_key(session, slots[first]))
            return slots[first]
        after = slots[-1]


def _is_record(data: bytes | None) -> bool:
    return data is not None and not is_seal(data)


def _seal_slot(storage: Patient, key: str, data: bytes) -> bool:
    """Whether a seal is there now."""
    if storage.create(key, data):
        return True
    there = storage.get(key)
    return there is not None and is_seal(there)


def read(storage: Patient, session: int, after: int, end: int | None) -> Iterator[tuple[int, list[Statement]]]:
    """What the session wrote after that slot, up to its seal. `MissingSlot` when there is a gap.

    Without an `end` up to the seal, or what is there by now.
    """
    while end is None or after + 1 < end:
        last = after + WINDOW if end is None else min(end - 1, after + WINDOW)
        slots = range(after + 1, last + 1)
        keys = [log_key(session, slot) for slot in slots]
        for slot, key, data in zip(slots, keys, storage.each(storage.get, keys), strict=True):
            if data is None or is_seal(data):
                if end is None:
                    return
                raise MissingSlot(key)
            yield slot, unpack(data, key)
        after = last
