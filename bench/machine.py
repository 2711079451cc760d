"""What can this machine do at all, right now: its disk, its interpreter, its event loop, its loopback?"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench import raw_postgres, raw_sqlite
from bench.measures import Measure, median, percentile, rate, timed
from bench.sizes import Sizes

FSYNCS = 2_000
SLEEPS = 2_000
TIMERS = 10_000
ROUND_TRIPS = 20_000
FRAME = b"x" * 64


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """The limits beside which the store at `url` is seen, under the names of the works they limit."""
    part = max(1, 16_000 // max(1, sizes.schedule_count))  # tiny forms do tiny amounts here too
    measures = [python(), *sleep(SLEEPS // part), await timers(TIMERS // part), *await loopback(ROUND_TRIPS // part)]
    if url.startswith("sqlite:"):
        folder = Path(url.removeprefix("sqlite:")).parent
        return [*measures, fsync(folder, FSYNCS // part), *await raw_sqlite.run(url, sizes)]
    if url.startswith("postgres"):
        return [*measures, *await raw_postgres.run(url, sizes)]
    return measures


def python() -> Measure:
    """A fixed piece of plain Python: when this varies between runs, so does everything else."""
    count = 300_000

    def loop() -> None:
        found: dict[int, str] = {}
        for number in range(count):
            found[number & 1023] = f"{number}"

    return timed("machine.python", count, loop, note="dict and f-string per step")


def sleep(count: int) -> list[Measure]:
    """How much longer than asked for a bare sleep takes: nothing that waits for an instant here can be less late."""
    late = []
    for _ in range(count):
        began = time.perf_counter()
        time.sleep(0.001)
        late.append((time.perf_counter() - began) * 1000 - 1)
    parts = {"p50": median(late), "p99": percentile(late, 0.99), "max": max(late)}
    return [Measure(f"machine.sleep.{part}", value, "ms", f"{count:,} × 1 ms") for part, value in parts.items()]


def fsync(folder: Path, count: int) -> Measure:
    """Write and fsync of one page, again and again, to one file."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        page = os.urandom(4_096)

        def loop() -> None:
            for _ in range(count):
                os.pwrite(file.fileno(), page, 0)
                os.fsync(file.fileno())

        return timed("machine.fsync", count, loop, note="4 KiB write + fsync")


async def timers(count: int) -> Measure:
    """`call_at` of so many at one instant: how many a second run, from the first one on.

    Not from the instant: uvloop keeps its time in whole milliseconds, so a few timers are all done before it.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    ran: list[float] = []

    def fire() -> None:
        ran.append(time.perf_counter())  # the loop's own time stands still within one pass
        if len(ran) == count:
            done.set()

    at = loop.time() + 0.2
    for _ in range(count):
        loop.call_at(at, fire)
    await done.wait()
    late = [when - ran[0] for when in ran]
    note = f"{count:,} due at once, p50 {percentile(late, 0.5) * 1000:.1f} ms late"
    return Measure("machine.timers", count / max(late), "/s", note)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]


class _Client(asyncio.Protocol):
    """Round trips in order: the oldest waiter gets the next frame."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._waiters: list[asyncio.Future[None]] = []
        self._bytes = 0

    def data_received(self, data: bytes) -> None:
        frames, self._bytes = divmod(self._bytes + len(data), len(FRAME))
        for waiter in self._waiters[:frames]:
            waiter.set_result(None)
        del self._waiters[:frames]

    async def trip(self, number: int) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._transport.write(FRAME)  # type: ignore[attr-defined]
        await waiter


async def loopback(count: int) -> list[Measure]:
    """Bare round trips of 64 bytes; both ends in this loop, so each costs both ends' time."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Echo, "127.0.0.1", 0)
    transport, client = await loop.create_connection(_Client, *server.sockets[0].getsockname())
    try:
        alone = await rate("machine.loopback.1", count // 4, 1, client.trip)
        many = await rate("machine.loopback.64", count, 64, client.trip)
    finally:
        transport.close()
        server.close()
        await asyncio.sleep(0)
    return [alone, many]
