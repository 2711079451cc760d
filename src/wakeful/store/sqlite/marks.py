"""Layer 2. Where does a process mark which timers it runs, so that the next one knows of which it died?

In places of a file beside the database, `PATH-begun`, each written with one call and never synced: what the kernel has
is there when the process is not. A machine that loses its power takes the marks with it, and no timer was to blame.
"""

import os
from contextlib import suppress
from zlib import crc32

from msgspec import DecodeError
from msgspec.msgpack import Decoder, Encoder

from wakeful.store.protocol import RunMark
from wakeful.store.sqlite.owner import PRIVATE

PLACES = 1_024  # as many as may run or be on their way to disk at once; a megabyte
PLACE_BYTES = 1_024  # a class, a key and a name of usual lengths; what is longer gets a note on disk instead
HEAD_BYTES = 8  # its length, and a sum over it: a place that was being written when the process died says nothing

_encode = Encoder().encode
_decode = Decoder(RunMark).decode


class MarkFile:
    """The places, open for as long as the process owns the database."""

    def __init__(self, path: str) -> None:
        self.places = PLACES
        self._descriptor = os.open(f"{path}-begun", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)

    def set(self, place: int, mark: RunMark) -> bool:
        """Write it over what was there; False: it is too long, or the disk is full."""
        data = _encode(mark)
        if len(data) > PLACE_BYTES - HEAD_BYTES:
            return False
        head = len(data).to_bytes(4, "big") + crc32(data).to_bytes(4, "big")
        try:
            return os.pwrite(self._descriptor, head + data, place * PLACE_BYTES) == HEAD_BYTES + len(data)
        except OSError:
            return False

    def wipe(self, place: int) -> None:
        """Leave nothing of it: it names an object that was forgotten."""
        with suppress(OSError):
            os.pwrite(self._descriptor, bytes(PLACE_BYTES), place * PLACE_BYTES)

    def all(self) -> list[RunMark]:
        """What the process that had the database before left in it."""
        marks = []
        written = os.pread(self._descriptor, PLACES * PLACE_BYTES, 0)
        for place in range(PLACES):
            data = written[place * PLACE_BYTES : (place + 1) * PLACE_BYTES]
            length = int.from_bytes(data[:4], "big")
            body = data[HEAD_BYTES : HEAD_BYTES + length]
            if length and len(body) == length and crc32(body) == int.from_bytes(data[4:HEAD_BYTES], "big"):
                with suppress(DecodeError):  # of another version
                    marks.append(_decode(body))
        return marks

    def clear(self) -> None:
        """Nothing runs, and nobody died of anything."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        os.close(self._descriptor)
