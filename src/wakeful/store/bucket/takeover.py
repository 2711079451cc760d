"""Layer 2. How does a prefix of the first form, with one owner and a log for each of its sessions, become one of today's?

It is ended as a new owner of it would have ended it: with the next owner's document, then a seal in the next free slot of
each session. What is there up to the seals becomes the first snapshot; then the old one goes, so that nobody goes on from
that. Owners' documents and seals stay: whoever stood still since then meets them.

owners/N, log/N/SLOT (the last is a seal), snap/N/K, chunk/N/DIGEST, beat/N
"""

import json
import sqlite3
import zlib

import msgspec

from wakeful.store.bucket.keys import snapshot_key
from wakeful.store.bucket.position import Position, make
from wakeful.store.bucket.recorder import replay
from wakeful.store.bucket.records import RECORD_BYTES, Statement, inflate
from wakeful.store.bucket.snapshots import Snapshots, unpack_chunk
from wakeful.store.bucket.storage import Patient, newest
from wakeful.store.sqlite.owner import make_private
from wakeful.values.errors import FileOwned, StoreError, Undecodable

LEASE_S = 15.0  # an owner whose beat has not changed for so long is no longer waited for
_LOOKS = 15  # in that time
_WRITES, _SEAL = b"WKL1w", b"WKL1s"
_WINDOW = 16  # slots that are sealed at once
_owner, _beat = "owners/{:08d}".format, "beat/{:08d}".format
_log, _snap = "log/{:08d}/{:010d}".format, "snap/{:08d}/{:08d}".format
_decode = msgspec.msgpack.Decoder(tuple[list[str], list[tuple[int, list[object]]]]).decode


class _OldManifest(msgspec.Struct):
    session: int
    slot: int
    size: int
    chunks: tuple[str, ...]


def is_old(storage: Patient) -> bool:
    return storage.get(_owner(1)) is not None


def take_over(storage: Patient, path: str, token: str) -> None:
    """Make the first snapshot of today's form, unless somebody else does; `FileOwned` while an earlier Wakeful runs on the prefix."""
    last = newest(lambda n: storage.get(_owner(n)) is not None)
    if not _wait_for(storage, last):
        return
    if not storage.create(
        _owner(last + 1), json.dumps({"token": token, "host": "", "pid": 0, "program": "", "since": 0}).encode()
    ):
        return  # somebody was quicker, and is waited for as this one would be
    session, manifest = _newest_snapshot(storage, last)
    ends = {
        number: _seal(storage, number, manifest.slot if manifest and number == session else 0, token)
        for number in range(session, last + 2)
    }
    if manifest is None:
        raise StoreError(
            f"{storage.storage.place}: the first snapshot is missing, which Wakeful did not remove; bring the older versions of "
            "the prefix back (versioning, soft delete), or restore a backup",
            code="store.gap",
        )
    birth: str = json.loads(storage.get(_owner(1)) or b"{}")["token"]
    _fill(storage, path, manifest, ends, birth)
    Snapshots(storage, token, 0).make(path)
    going = [key for folder in ("snap/", "chunk/", "beat/") for key in storage.keys(folder)]
    going += [key for key in storage.keys("log/") if _is_before_seal(key, ends)]
    storage.delete(going)


def _wait_for(storage: Patient, last: int) -> bool:
    """The last owner has ended, or was silent for a lease; False when somebody else has taken it over meanwhile."""
    first = storage.get(_beat(last))
    for _ in range(_LOOKS):
        if first is not None and first.endswith(b" end"):
            return True
        storage.wait(LEASE_S / _LOOKS)
        if storage.get(snapshot_key(1)) is not None:
            return False
        now = storage.get(_beat(last))
        if now != first and not (now or b"").endswith(b" end"):
            raise FileOwned(
                f"{storage.storage.place} is in use by an earlier Wakeful, which knows no other nodes: stop it, then start this one"
            )
        first = now
    return True


def _newest_snapshot(storage: Patient, last: int) -> tuple[int, _OldManifest | None]:
    for session in range(last, 0, -1):
        number = newest(lambda k, session=session: storage.get(_snap(session, k)) is not None)  # type: ignore[misc]
        data = storage.get(_snap(session, number)) if number else None
        if data is not None:
            return session, msgspec.json.decode(data, type=_OldManifest)
    return 1, None


def _seal(storage: Patient, session: int, after: int, by: str) -> int:
    """End that log, of which the slots up to `after` are known; where its first seal is."""
    while True:
        after = newest(lambda slot: _is_record(storage.get(_log(session, slot))), after)
        slots = range(after + 1, after + 1 + _WINDOW)
        sealed = storage.each(lambda slot: _seal_slot(storage, _log(session, slot), _SEAL + by.encode()), slots)
        if True in sealed:
            return slots[sealed.index(True)]
        after = slots[-1]


def _seal_slot(storage: Patient, key: str, data: bytes) -> bool:
    return storage.create_or_get(key, data).startswith(_SEAL)


def _is_record(data: bytes | None) -> bool:
    return data is not None and not data.startswith(_SEAL)


def _fill(storage: Patient, path: str, manifest: _OldManifest, ends: dict[int, int], birth: str) -> None:
    make_private(path)
    keys = [f"chunk/{manifest.session:08d}/{digest}" for digest in manifest.chunks]
    with open(path, "wb") as file:
        for digest, data in zip(manifest.chunks, storage.each(storage.get, keys), strict=True):
            if data is None:
                raise StoreError(f"{storage.storage.place}: chunk {digest} is missing", code="store.gap")
            file.write(unpack_chunk(digest, data))
        file.truncate(manifest.size)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        for session, end in ends.items():
            for slot in range(manifest.slot + 1 if session == manifest.session else 1, end):
                replay(db, _statements(storage, _log(session, slot)), _log(session, slot))
        db.execute("DROP TABLE bucket")
        make(db, Position(birth, 0))
        db.execute("COMMIT")
    finally:
        db.close()


def _statements(storage: Patient, key: str) -> list[Statement]:
    data = storage.get(key)
    if data is None:
        raise StoreError(f"{storage.storage.place}: {key} is missing, which Wakeful did not remove", code="store.gap")
    try:
        texts, rows = _decode(inflate(data.removeprefix(_WRITES), RECORD_BYTES))
    except (zlib.error, ValueError, msgspec.DecodeError) as error:
        raise Undecodable(f"{key} is damaged ({error}); restore it from an older version of the object") from None
    return [(texts[number], values) for number, values in rows]


def _is_before_seal(key: str, ends: dict[int, int]) -> bool:
    _, session, slot = key.split("/")
    return int(slot) < ends.get(int(session), 0)
