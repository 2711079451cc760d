"""Layer 2, pure. What stands in a slot of the log?

One record: the statements that a group of writes came to, in their order; or the migrations that the tables were given
there; or a whole snapshot that took the place of what was there before (a store that was moved in).
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from wakeful.store.bucket.keys import chunk_key, is_ours
from wakeful.values.errors import StoreError, Undecodable

_FORM = b"WKL2"  # the first bytes of a record, with the version of its form
_SPEED = 1  # of zlib: most of what there is to gain, at 10 µs a turn less than the default
CHUNK_BYTES = 1_048_576  # of the file, before it is compressed
RECORD_BYTES = 1_073_741_824  # of a record, before it is compressed: a megabyte of zeros unpacks to so much
_SLOT_MAX = 10**12 - 1

Statement = tuple[str, Sequence[Any]]


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot consists of, and up to where it goes."""

    birth: str  # of the prefix
    slot: int
    floor: int  # once this manifest is there, slots up to this one may be removed
    size: int
    chunks: tuple[tuple[str, str], ...]  # home and digest of each, in the order of the file


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What one node wrote at once. No two have the same bytes: of each writer they are counted."""

    writer: str
    count: int
    waited: int = 0  # how often somebody else was quicker before it got in
    texts: list[str] = []
    rows: list[tuple[int, list[Any]]] = []  # which text, and its parameters
    migrations: list[str] = []
    migrated_at: int = 0
    moved_in: Manifest | None = None

    @property
    def statements(self) -> Iterable[Statement]:
        return ((self.texts[number], parameters) for number, parameters in self.rows)


class _Sketch(msgspec.Struct, frozen=True, array_like=True):
    """A record whose rows are still to be read."""

    writer: str
    count: int
    waited: int = 0
    texts: list[str] = []
    rows: list[msgspec.Raw] = []
    migrations: list[str] = []
    migrated_at: int = 0
    moved_in: Manifest | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Sketch).decode
_decode_row = msgspec.msgpack.Decoder(tuple[int, list[Any]]).decode


def of_statements(writer: str, count: int, waited: int, statements: Sequence[Statement]) -> Record:
    texts: dict[str, int] = {}
    rows = [(texts.setdefault(sql, len(texts)), list(parameters)) for sql, parameters in statements]
    return Record(writer, count, waited, list(texts), rows)


def pack(record: Record) -> bytes:
    plain = _encode(record)
    if len(plain) > RECORD_BYTES:
        raise StoreError(
            f"what was to be written at once has {len(plain):,} bytes, and a record of the log at most {RECORD_BYTES:,}, since "
            "nobody would read it; write it in parts",
            code="store.record",
        )
    return _FORM + zlib.compress(plain, _SPEED)


def unpack(data: bytes, key: str) -> Record:
    if not data.startswith(_FORM):
        raise StoreError(f"{key} is no record that this Wakeful knows; upgrade Wakeful", code="store.newer")
    try:
        sketch = _decode(inflate(data[len(_FORM) :], RECORD_BYTES))
        # One by one: a hundred thousand rows at once would keep the interpreter from the event loop for a third of a second.
        rows = [_decode_row(row) for row in sketch.rows]
        if sketch.moved_in is not None:
            check_manifest(sketch.moved_in)
    except (zlib.error, ValueError, msgspec.DecodeError) as error:
        raise Undecodable(
            f"{key} is damaged ({error}); restore it from a backup or an older version of the object"
        ) from None
    return Record(**(msgspec.structs.asdict(sketch) | {"rows": rows}))


def inflate(data: bytes, most: int) -> bytes:
    """What was compressed, if it is no more than that: what anybody put there may become a thousand times as much.

    >>> inflate(zlib.compress(b"tea"), 3)
    b'tea'
    """
    unpacking = zlib.decompressobj()
    plain = unpacking.decompress(data, most + 1)
    if len(plain) > most:
        raise ValueError(f"it unpacks to more than {most:,} bytes")
    if not unpacking.eof:
        raise ValueError("it ends in the middle")
    return plain


def check_manifest(manifest: Manifest) -> None:
    """Pass one that Wakeful could have written; `ValueError` says what it says that can't be."""
    if not 0 <= manifest.floor <= manifest.slot <= _SLOT_MAX:
        raise ValueError(f"slot {manifest.slot} and floor {manifest.floor}")
    if not len(manifest.chunks) - 1 < manifest.size / CHUNK_BYTES <= len(manifest.chunks):
        raise ValueError(f"{manifest.size} bytes in {len(manifest.chunks)} chunks")
    strange = next((chunk for chunk in manifest.chunks if not is_ours(chunk_key(*chunk))), None)
    if strange is not None:
        raise ValueError(f"a chunk {'/'.join(strange)[:100]!r}")
