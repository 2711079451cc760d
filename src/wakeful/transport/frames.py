"""Layer 2. How do messages keep their edges on a stream of bytes?

Four bytes of length, then one MessagePack value. A frame that is too long or makes no sense is
`Malformed`: nothing after it can be trusted, so whoever reads one hangs up.
"""

import asyncio
import struct
from typing import Any, TypeVar

import msgspec

from wakeful.values.errors import LimitExceeded

T = TypeVar("T")

# Room for the largest value (2 MiB) several times over, and still nothing that could fill memory.
FRAME_BYTES_MAX = 16 * 1024 * 1024

_PREFIX = 4
_TLS = 0x1603  # how a handshake begins, in every version
_prefix = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


class Malformed(Exception):
    """The other side does not speak this protocol."""


async def read_frame(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """The next message; None when the other side has hung up between two, `Malformed` for anything else."""
    try:
        prefix = await reader.readexactly(_PREFIX)
        size = int.from_bytes(prefix, "big")
        if not 0 < size <= FRAME_BYTES_MAX:
            raise _no_frame(size, FRAME_BYTES_MAX)
        body = await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Malformed("the stream ended inside a frame") from None
        return None
    except ConnectionError:
        return None
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, ValueError) as error:
        raise Malformed(f"a frame that is no message: {error}") from None


async def write_frame(writer: asyncio.StreamWriter, message: Any) -> None:
    """Send one message whole; `LimitExceeded` when it is too long, and then nothing was sent."""
    body = _encoder.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise _too_long(len(body))
    # One write, so that two senders on one stream can't mix their frames.
    writer.write(len(body).to_bytes(_PREFIX, "big") + body)
    await writer.drain()


def put_frame(out: bytearray, message: Any) -> None:
    """Add one message to what is to be sent; `LimitExceeded` when it is too long, and then nothing was added."""
    start = len(out)
    body = start + _PREFIX
    out += b"\0\0\0\0"
    try:
        # Into the buffer itself: of the two copies that joining would make, none is made.
        _encoder.encode_into(message, out, body)
    except BaseException:
        del out[start:]
        raise
    size = len(out) - body
    if size > FRAME_BYTES_MAX:
        del out[start:]
        raise _too_long(size)
    _prefix.pack_into(out, start, size)


class Cutter:
    """Cuts a stream that comes in pieces into frames."""

    __slots__ = ("_at", "_data", "_wanted", "bytes_max")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._data: bytes | bytearray = b""
        self._at = 0
        self._wanted = _PREFIX  # how much must be there before it is worth looking

    def feed(self, data: bytes) -> None:
        """The next piece. Frames that are not taken yet stay."""
        if self._at >= len(self._data):
            self._data, self._at = data, 0
            return
        # A bytearray, because a frame of megabytes comes in hundreds of pieces.
        rest = self._data if isinstance(self._data, bytearray) else bytearray(self._data)
        del rest[: self._at]
        rest += data
        self._data, self._at = rest, 0

    def next(self) -> memoryview | None:
        """The body of the next frame, to be read before the next piece comes; None when it is not whole yet."""
        data, at = self._data, self._at
        there = len(data) - at
        if there < self._wanted:
            return None
        (size,) = _prefix.unpack_from(data, at)
        if not 0 < size <= self.bytes_max:
            raise _no_frame(size, self.bytes_max)
        if there < _PREFIX + size:
            self._wanted = _PREFIX + size
            return None
        self._wanted = _PREFIX
        self._at = at + _PREFIX + size
        return memoryview(data)[at + _PREFIX : self._at]


def _no_frame(size: int, bytes_max: int) -> Malformed:
    """For a first number that is no length; that of somebody who begins TLS is a well-known one."""
    if size >> 16 == _TLS:
        return Malformed(
            "it speaks TLS, and this side does not; give --tls-cert, --tls-key and --tls-ca to all, or to none"
        )
    return Malformed(f"a frame of {size} bytes; between 1 and {bytes_max} are allowed")


def _too_long(size: int) -> LimitExceeded:
    return LimitExceeded(
        f"a message of {size} bytes, {size - FRAME_BYTES_MAX} more than the limit of {FRAME_BYTES_MAX}",
        code="limit.frame",
    )
