"""Layer 5. How is a value kept that is too long for one row, and carried that is too long for one message?

In parts, as rows of its object under a version that no other value has. What is put over an older one, or was begun and
never put, has its parts deleted; so whoever reads meets a version whole, or finds that there is a newer one.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from wakeful.compat.workers.bindings.calls import SystemStub
from wakeful.compat.workers.failures import JsException
from wakeful.objects import DurableObject
from wakeful.runtime.registry import reader
from wakeful.values.errors import BadInput

PART_BYTES = 1 << 20  # in a row
MESSAGE_BYTES = 8 << 20  # of one value in one call: half of what may cross between nodes at once
UPLOAD_MS = 3_600_000  # what nobody has put until then was given up
SWEEP_ROWS = 500  # in one turn
_TRIES = 5  # to read what is being replaced

_VERSION = "n"
_UPLOAD = "u"
_PART = "p"


class LongValues(DurableObject):
    """The parts of values, under their versions."""

    async def begin_value(self) -> str:
        """A version for a value that comes in several calls of `add_parts`."""
        version = await self._next_version()
        now = self._ms()
        self.storage.put(_UPLOAD + version, [now, 0])
        await self._ring_at(now + UPLOAD_MS)
        return version

    async def add_parts(self, version: str, first: int, data: bytes) -> None:
        """Those from number `first` on."""
        upload = await self.storage.get(_UPLOAD + version)
        if upload is None:
            raise BadInput(f"{self.ctx.id}: no value {version!r} is being sent", code="workers.upload")
        begun, count = upload
        self.storage.put(_UPLOAD + version, [begun, max(count, first + _count(len(data)))])
        self._put_parts(version, first, data)

    @reader
    async def parts(self, version: str, first: int, count: int) -> bytes | None:
        """So many of them; None when the version is no more."""
        wanted = [_part(version, number) for number in range(first, first + min(count, MESSAGE_BYTES // PART_BYTES))]
        rows = await self.storage.get_many(wanted)
        return b"".join(rows.values()) if len(rows) == len(wanted) else None

    async def alarm(self) -> None:
        """Delete what is over, some at a time."""
        now = self._ms()
        dues = [await self._sweep_uploads(now), await self._sweep(now)]
        if due := min((one for one in dues if one is not None), default=None):
            await self._ring_at(due)

    async def _sweep(self, now: int) -> int | None:
        """Delete what else is over; when the next is."""
        return None

    async def _sweep_uploads(self, now: int) -> int | None:
        uploads = await self.storage.list(prefix=_UPLOAD, limit=SWEEP_ROWS)
        for name, (begun, count) in uploads.items():
            if begun + UPLOAD_MS > now:
                return int(begun + UPLOAD_MS)
            self._drop(name[len(_UPLOAD) :], count * PART_BYTES)
            self.storage.delete(name)
        return now if len(uploads) == SWEEP_ROWS else None

    # for the class that has the values

    async def _keep(self, data: bytes | None, version: str | None) -> str:
        """The version of a value that came with the call, or before it in parts."""
        if data is not None:
            version = await self._next_version()
            self._put_parts(version, 0, data)
        elif version is None or await self.storage.get(_UPLOAD + version) is None:
            raise BadInput(f"{self.ctx.id}: no value {version!r} was sent", code="workers.upload")
        else:
            self.storage.delete(_UPLOAD + version)
        return version

    def _drop(self, version: str, size: int) -> None:
        """Its value was replaced or deleted."""
        for number in range(_count(size)):
            self.storage.delete(_part(version, number))

    async def _load(self, version: str, size: int) -> bytes | None:
        """The value, if it goes into one message; None otherwise, or when it is no more."""
        wanted = [_part(version, number) for number in range(_count(size))]
        rows = await self.storage.get_many(wanted)
        return b"".join(rows.values()) if len(rows) == len(wanted) else None

    async def _next_version(self) -> str:
        number = await self.storage.get(_VERSION, 0) + 1
        self.storage.put(_VERSION, number)
        return f"{number:016x}"

    def _put_parts(self, version: str, first: int, data: bytes) -> None:
        for number in range(_count(len(data))):
            self.storage.put(_part(version, first + number), data[number * PART_BYTES : (number + 1) * PART_BYTES])

    async def _ring_at(self, due: int) -> None:
        """Have the alarm ring then, if it does not before."""
        wanted, known = datetime.fromtimestamp(due / 1000, UTC), await self.storage.get_alarm()
        if known is None or wanted < known:
            await self.storage.set_alarm(wanted)

    def _ms(self) -> int:
        return round(self.ctx.now().timestamp() * 1000)


def _part(version: str, number: int) -> str:
    return f"{_PART}{version}{number:08x}"


def _count(size: int) -> int:
    return -(-size // PART_BYTES)


# What does the other side do?


async def send_value(stub: SystemStub, data: bytes) -> tuple[bytes | None, str | None]:
    """What the call that puts it carries: the value itself, or the version under which it is there already."""
    if len(data) <= MESSAGE_BYTES:
        return data, None
    version = await stub.begin_value()
    for at in range(0, len(data), MESSAGE_BYTES):
        await stub.add_parts(version, at // PART_BYTES, data[at : at + MESSAGE_BYTES])
    return None, version


async def fetch_value(
    stub: SystemStub, look: Callable[[], Awaitable[Any]], place: Callable[[Any], tuple[str, int, int]]
) -> tuple[Any, bytes]:
    """What `look` gives of a value, and of its bytes those of the range that `place` says (version, from, to)."""
    for _ in range(_TRIES):
        head = await look()
        if head is None:
            return None, b""
        version, start, end = place(head)
        data = await _fetch_range(stub, version, start, end)
        if data is not None:
            return head, data
    raise JsException(f"{stub!r}: the value was replaced faster than it could be read")


async def _fetch_range(stub: SystemStub, version: str, start: int, end: int) -> bytes | None:
    got, first, last = [], start // PART_BYTES, _count(end)
    step = MESSAGE_BYTES // PART_BYTES
    for number in range(first, last, step):
        data = await stub.parts(version, number, min(step, last - number))
        if data is None:
            return None
        got.append(data)
    skipped = start - first * PART_BYTES
    return b"".join(got)[skipped : skipped + end - start]
