"""Layer 2. How does all that the log has come to get into the bucket, so that the log can be shortened?

A snapshot is the local file in chunks, under the digests of what they hold: what has not changed since the last one is
not sent again, when the last one was this node's. Its manifest is created last and numbered without gaps, so that of two
nodes that make the N-th one does, and so that the newest one is found by asking, not by a list that may be late.

Removed is only what a manifest that has been there for `KEPT_S` covers, whoever does it and however late.
"""

import logging
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import msgspec

from wakeful.store.bucket.keys import (
    CHUNKS,
    MOVED,
    SLOTS,
    chunk_key,
    home_of,
    is_ours,
    number_of,
    slot_key,
    snapshot_key,
)
from wakeful.store.bucket.position import Position, position_of
from wakeful.store.bucket.records import CHUNK_BYTES, Manifest, check_manifest, inflate
from wakeful.store.bucket.storage import Patient, newest
from wakeful.values.errors import StoreDown, StoreError, Undecodable

log = logging.getLogger("wakeful.store")

AT_ONCE = 8  # chunks in memory
KEPT_S = 3_600  # by the storage's clock: who stood still for less finds what it knew
_STUB = b"{}"  # what is left of a manifest that nobody needs any more


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A manifest, and which one it is."""

    number: int
    manifest: Manifest


class MissingChunk(Exception):
    """A chunk of a manifest is not there: newer snapshots have replaced it, or somebody removed it."""


def newest_snapshot(storage: Patient, known: int = 0) -> StoredSnapshot | None:
    """The newest one; `known` is the number of one that is there."""
    number = newest(lambda n: storage.get(snapshot_key(n)) is not None, known)
    while number:
        manifest = read_manifest(storage, number)
        if manifest is not None:
            return StoredSnapshot(number, manifest)
        known, number = number, newest(lambda n: storage.get(snapshot_key(n)) is not None, number)
        if number == known:
            break  # the one that replaced it is missing
    return None


def read_manifest(storage: Patient, number: int) -> Manifest | None:
    """None of one that is not there, or of which only the number is left."""
    key = snapshot_key(number)
    data = storage.get(key)
    if data is None or data == _STUB:
        return None
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
        check_manifest(manifest)
    except (ValueError, msgspec.DecodeError) as error:
        raise Undecodable(f"{key} is damaged ({error}); restore it from an older version of the object") from None
    return manifest


def download(storage: Patient, manifest: Manifest, path: str) -> None:
    """The snapshot as a file. `MissingChunk` when it was removed meanwhile."""
    with open(path, "wb") as file:
        for at in range(0, len(manifest.chunks), AT_ONCE):
            some = manifest.chunks[at : at + AT_ONCE]
            found = storage.each(lambda chunk: storage.get(chunk_key(*chunk)), some)
            for (_, digest), data in zip(some, found, strict=True):
                if data is None:
                    raise MissingChunk(digest)
                file.write(unpack_chunk(digest, data))
        file.truncate(manifest.size)


def unpack_chunk(digest: str, data: bytes) -> bytes:
    try:
        plain = inflate(data, CHUNK_BYTES)
    except (zlib.error, ValueError):
        plain = b""
    if _digest(plain) != digest:
        raise Undecodable(f"chunk {digest} is damaged; restore it from an older version of the object")
    return plain


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=20).hexdigest()


class Snapshots:
    """The snapshots that this node makes."""

    def __init__(
        self, storage: Patient, token: str, known: int, is_closing: Callable[[], bool] = lambda: False
    ) -> None:
        self._storage = storage
        self._token = token
        self._is_closing = is_closing
        self.number = known  # of the newest one that this node knows
        self.bytes = 0  # that are stored of our last one
        self._own = 0  # which one that is
        self._sizes: dict[str, int] = {}  # of its chunks
        self._homes: dict[str, str] = {}

    def make(self, path: str) -> StoredSnapshot | None:
        """Send what the local file holds now, and remove what that allows; None when somebody else was quicker. In a thread: it takes as long as the file is large."""
        copy = f"{path}-snapshot"
        remove_copy(copy)
        try:
            copy_file(path, copy)
            position = position_of(copy, is_checked=False)
            if position is None:
                raise StoreError(f"{path} is no copy of a bucket")
            made = self._send(copy, position)
        finally:
            remove_copy(copy)
        if made is not None:
            self._trim(made)
        return made

    def send_chunks(self, copy: str, home: str) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Put the file's chunks there that are not there yet: its size, and where they are."""
        chunks: list[tuple[str, str]] = []
        sizes: dict[str, int] = {}
        with open(copy, "rb") as file:
            while some := [data for _ in range(AT_ONCE) if (data := file.read(CHUNK_BYTES))]:
                if self._is_closing():
                    raise StoreDown("the bucket store is closed")
                names = [_digest(data) for data in some]
                new = {name: data for name, data in zip(names, some, strict=True) if name not in self._sizes | sizes}
                put = self._storage.each(lambda chunk: self._put(home, *chunk), list(new.items()))
                sizes.update(zip(new, put, strict=True))
                sizes.update((name, self._sizes[name]) for name in names if name in self._sizes)
                chunks += [(self._homes.get(name, home), name) for name in names]
            size = file.tell()
        self._sizes, self._homes = sizes, {name: place for place, name in chunks}
        return size, tuple(chunks)

    def _send(self, copy: str, position: Position) -> StoredSnapshot | None:
        last = newest_snapshot(self._storage, self.number)
        if last is not None and last.manifest.birth != position.birth:
            return None  # somebody else made the prefix
        if last is not None and position.slot < last.manifest.slot:
            return None  # this node stood still: what it has may be below the floor by now
        if last is not None and last.number != self._own:
            self._sizes, self._homes = {}, {}  # what was ours alone may be removed by whoever made that one
            self.number = last.number
        floor = self._floor(last)
        size, chunks = self.send_chunks(copy, home_of(self.number + 1, self._token))
        manifest = Manifest(position.birth, position.slot, floor, size, chunks)
        if not self._storage.create(snapshot_key(self.number + 1), msgspec.json.encode(manifest)):
            self._own, self._sizes, self._homes = 0, {}, {}
            return None
        self.number += 1
        self._own, self.bytes = self.number, sum(self._sizes.values())
        return StoredSnapshot(self.number, manifest)

    def _floor(self, last: StoredSnapshot | None) -> int:
        """Up to where slots may go: what a snapshot covers that had been there for long when the last one was made."""
        if last is None:
            return 0
        until = (self._storage.write_time(snapshot_key(last.number)) or 0) - KEPT_S * 1_000
        for number in range(last.number, 0, -1):
            manifest = last.manifest if number == last.number else read_manifest(self._storage, number)
            if manifest is None:
                break
            at = self._storage.write_time(snapshot_key(number))
            if at is not None and at <= until:
                return max(manifest.slot, last.manifest.floor)
        return last.manifest.floor

    def _put(self, home: str, digest: str, data: bytes) -> int:
        packed = zlib.compress(data, 1)
        self._storage.put(chunk_key(home, digest), packed)
        return len(packed)

    def _trim(self, made: StoredSnapshot) -> None:
        """Remove what this manifest allows: slots up to its floor, manifests that end before it, chunks that none has.

        However late: slots and chunks of what is newer are not looked at, and no newer manifest that is not ours has
        chunks of older ones.
        """
        storage, floor, named = self._storage, made.manifest.floor, set(made.manifest.chunks)
        for number in range(made.number - 1, 0, -1):
            manifest = read_manifest(storage, number)
            if manifest is None:
                break
            if manifest.slot < floor:
                storage.put(snapshot_key(number), _STUB)
            else:
                named |= set(manifest.chunks)
        storage.delete(storage.keys(SLOTS, until=slot_key(floor)))
        kept = {chunk_key(*chunk) for chunk in named}
        there = storage.keys(CHUNKS, until=f"{CHUNKS}{made.number:08d}~")
        there += [key for key in storage.keys(f"{CHUNKS}{MOVED}") if is_ours(key) and number_of(key) <= floor]
        storage.delete([key for key in there if key not in kept])


def copy_file(path: str, copy: str) -> None:
    """All that is committed at one moment, while writes go on."""
    source, target = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True), sqlite3.connect(copy)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    finally:
        target.close()
        source.close()


def remove_copy(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            Path(name).unlink()
