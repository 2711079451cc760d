"""Layer 2. How do messages keep their edges on a stream of bytes?

Four bytes of length, then one MessagePack value. A frame that is too long or makes no sense is
`Malformed`: nothing after it can be trusted, so whoever reads one hangs up.
"""

import asyncio
from typing import Any, TypeVar

import msgspec

from wakeful.values.errors import LimitExceeded

T = TypeVar("T")

# Room for the largest value (2 MiB) several times over, and still nothing that could fill memory.
FRAME_BYTES_MAX = 16 * 1024 * 1024

_PREFIX = 4
_encoder = msgspec.msgpack.Encoder()


class Malformed(Exception):
    """The other side does not speak this protocol."""


async def read_frame(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """The next message; None when the other side has hung up between two, `Malformed` for anything else."""
    try:
        prefix = await reader.readexactly(_PREFIX)
        size = int.from_bytes(prefix, "big")
        if not 0 < size <= FRAME_BYTES_MAX:
            raise Malformed(f"a frame of {size} bytes; between 1 and {FRAME_BYTES_MAX} are allowed")
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
        raise LimitExceeded(
            f"a message of {len(body)} bytes, {len(body) - FRAME_BYTES_MAX} more than the limit of {FRAME_BYTES_MAX}",
            code="limit.frame",
        )
    # One write, so that two senders on one stream can't mix their frames.
    writer.write(len(body).to_bytes(_PREFIX, "big") + body)
    await writer.drain()
