"""Layer 2. How does all that the log has come to get into the bucket, so that the log can be shortened?

A snapshot is the local file in chunks, under the digests of what they hold: what has not changed since the last one of
the session is not sent again. Its manifest is created last and numbered without gaps, so that the newest one is found by
asking, not by a list that may be late. Whatever a manifest covers may go, whoever removes it, and however late.
"""

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import msgspec

from wakeful.store.bucket.keys import chunk_key, session_of, slot_of, snapshot_key
from wakeful.store.bucket.log import is_seal
from wakeful.store.bucket.position import Position, position_of
from wakeful.store.bucket.storage import Patient, newest
from wakeful.values.errors import StoreDown, StoreError, Undecodable

CHUNK_BYTES = 1_048_576  # of the file, before it is compressed
AT_ONCE = 8  # chunks in memory
_STUB = b"{}"  # what is left of a manifest that a newer one of its session has replaced


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot consists of, and up to where it goes."""

    session: int
    slot: int
    birth: str
    size: int
    chunks: tuple[str, ...]  # digests, in the order of the file


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A manifest, and where it stands."""

    count: int
    manifest: Manifest


class MissingChunk(Exception):
    """A chunk of a manifest is not there: a newer snapshot has replaced it, or somebody removed it."""


def newest_snapshot(storage: Patient, until: int) -> StoredSnapshot | None:
    """The newest of the sessions up to that one."""
    for session in range(until, 0, -1):
        count = 0
        while count := newest(lambda k, session=session: storage.get(snapshot_key(session, k)) is not None, count):  # type: ignore[misc]
            key = snapshot_key(session, count)
            data = storage.get(key)
            if data == _STUB:
                continue  # a newer one has come between the two questions
            if data is None:
                break  # a newer session has removed all of them, and is found by who looks whether there is one
            try:
                return StoredSnapshot(count, msgspec.json.decode(data or b"", type=Manifest))
            except msgspec.DecodeError as error:
                raise Undecodable(
                    f"{key} is damaged ({error}); restore it from an older version of the object"
                ) from None
    return None


def download(storage: Patient, snapshot: StoredSnapshot, path: str) -> None:
    """The snapshot as a file. `MissingChunk` when it was replaced meanwhile."""
    manifest = snapshot.manifest
    with open(path, "wb") as file:
        for at in range(0, len(manifest.chunks), AT_ONCE):
            some = manifest.chunks[at : at + AT_ONCE]
            found = storage.each(lambda digest: storage.get(chunk_key(manifest.session, digest)), some)
            for digest, data in zip(some, found, strict=True):
                if data is None:
                    raise MissingChunk(digest)
                file.write(_unpack(digest, data))
        file.truncate(manifest.size)


def _unpack(digest: str, data: bytes) -> bytes:
    try:
        plain = zlib.decompress(data)
    except zlib.error:
        plain = b""
    if _digest(plain) != digest:
        raise Undecodable(f"chunk {digest} is damaged; restore it from an older version of the object")
    return plain


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=20).hexdigest()


class Snapshots:
    """The snapshots that this session makes."""

    def __init__(self, storage: Patient, session: int, is_closing: Callable[[], bool] = lambda: False) -> None:
        self._storage = storage
        self._session = session
        self._is_closing = is_closing
        self.count = 0
        self.slot = -1  # up to which the last one goes
        self.bytes = 0  # that are stored of the last one
        self._sizes: dict[str, int] = {}  # of the chunks of the last one
        self._before: set[str] = set()  # chunks of the one before it: somebody may be reading that still

    def make(self, path: str) -> int:
        """Send what the local file holds now, and remove what that covers; up to which slot it goes. In a thread: it takes as long as the file is large."""
        copy = f"{path}-snapshot"
        _remove(copy)
        try:
            _copy(path, copy)
            position = position_of(copy, is_checked=False)
            if position is None or position.session != self._session:
                raise StoreError(f"{path} is no copy of session {self._session}")
            self._send(copy, position)
        finally:
            _remove(copy)
        self._trim()
        return self.slot

    def _send(self, copy: str, position: Position) -> None:
        sizes: dict[str, int] = {}
        digests: list[str] = []
        with open(copy, "rb") as file:
            while some := [data for _ in range(AT_ONCE) if (data := file.read(CHUNK_BYTES))]:
                if self._is_closing():
                    raise StoreDown("the bucket store is closed")
                names = [_digest(data) for data in some]
                new = {name: data for name, data in zip(names, some, strict=True) if name not in self._sizes | sizes}
                sizes.update(zip(new, self._storage.each(self._put, list(new.items())), strict=True))
                sizes.update((name, self._sizes[name]) for name in names if name in self._sizes)
                digests += names
            size = file.tell()
        manifest = Manifest(position.session, position.slot, position.birth, size, tuple(digests))
        if not self._storage.create(snapshot_key(self._session, self.count + 1), msgspec.json.encode(manifest)):
            raise StoreError(f"snapshot {self.count + 1} of session {self._session} is somebody else's")
        self._before, self._sizes = set(self._sizes), sizes
        self.count, self.slot, self.bytes = self.count + 1, position.slot, sum(sizes.values())

    def _put(self, chunk: tuple[str, bytes]) -> int:
        digest, data = chunk
        packed = zlib.compress(data, 1)
        self._storage.put(chunk_key(self._session, digest), packed)
        return len(packed)

    def _trim(self) -> None:
        """Remove what the last manifest covers. Of each session its owner's document and its seal stay for ever: what was
        on its way when the session ended still meets them, however long it took.
        """
        storage, session = self._storage, self._session
        kept = self._before | set(self._sizes)
        if self.count > 1:
            storage.put(snapshot_key(session, self.count - 1), _STUB)
        going = [key for key in storage.keys(f"chunk/{session:08d}/") if key.rpartition("/")[2] not in kept]
        going += [key for key in storage.keys(f"log/{session:08d}/") if slot_of(key) <= self.slot]
        storage.delete(going)
        if self.count == 1:
            self._trim_sessions()

    def _trim_sessions(self) -> None:
        """Of those before this one, which it has read to their ends."""
        storage = self._storage
        going = [key for folder in ("chunk/", "snap/", "beat/") for key in storage.keys(folder)]
        logs: dict[int, list[str]] = {}
        for key in storage.keys("log/"):
            logs.setdefault(session_of(key), []).append(key)
        for keys in logs.values():
            going += _after_seal(storage, keys)
        storage.delete([key for key in going if session_of(key) < self._session])


def _after_seal(storage: Patient, keys: list[str]) -> list[str]:
    """The keys of a session's log but for its seal: the first of those at the end."""
    first = len(keys)
    while len(keys) > 1 and first and is_seal(storage.get(keys[first - 1]) or b""):
        first -= 1
    return keys[:first] + keys[first + 1 :] if first < len(keys) else []


def _copy(path: str, copy: str) -> None:
    """All that is committed at one moment, while writes go on."""
    source, target = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True), sqlite3.connect(copy)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    finally:
        target.close()
        source.close()


def _remove(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            Path(name).unlink()
