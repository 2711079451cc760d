"""The clients of `bench/http.py`, in a process of their own: `python -m bench.http_callers PORT KIND COUNT SECONDS [TOKEN]`.

As little client as there can be, so that its share of a small machine is small: requests are made beforehand, answers
are only searched for their end. Prints what it saw as one line of JSON.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from typing import cast

from bench.measures import percentile

OBJECTS = 1_000


TOKEN = sys.argv[5].encode() if len(sys.argv) > 5 else b""
PAUSE_S = 0.01  # between an answer and the next request of the neighbour, who has other things to do as well


def request(path: str, body: bytes = b"[]", method: bytes = b"POST") -> bytes:
    head = b"%s %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n"
    return head % (method, path.encode(), len(body), b"authorization: Bearer %s\r\n" % TOKEN if TOKEN else b"") + body


class Client(asyncio.Protocol):
    """One connection that asks for the next thing as soon as it has the answer."""

    def __init__(self, number: int, stats: "Stats", requests: list[bytes], pause_s: float = 0.0) -> None:
        self._pause_s = pause_s
        self._number = number
        self._stats = stats
        self._requests = requests
        self._got = b""
        self._asked_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def _ask(self) -> None:
        if self._transport is not None and not self._stats.is_over:
            self._number += 1
            self._asked_at = time.perf_counter()
            self._transport.write(self._requests[self._number % len(self._requests)])

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._got[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : (head.find(b"\r\n", at) + 1 or len(head) + 1) - 1])
        if len(self._got) >= end + 4 + length:
            self._stats.seen(int(head[9:12]), time.perf_counter() - self._asked_at)
            self._got = b""
            if self._pause_s:
                asyncio.get_running_loop().call_later(self._pause_s, self._ask)
            else:
                self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stats.lost += 1


class Stats:
    """What came back."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.took_s: list[float] = []
        self.lost = 0
        self.is_over = False

    def seen(self, status: int, took_s: float) -> None:
        if not self.is_over:
            self.statuses[status] += 1
            self.took_s.append(took_s)

    def told(self, seconds: float) -> dict[str, object]:
        done = sum(self.statuses.values())
        some = self.took_s or [0.0]
        return {
            "rate": done / seconds,
            "p50_ms": percentile(some, 0.5) * 1000,
            "p99_ms": percentile(some, 0.99) * 1000,
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "lost": self.lost,
        }


async def callers(port: int, count: int, seconds: float) -> dict[str, object]:
    """So many connections, each calling a writing method of one of many objects."""
    return await _run(port, count, seconds, [request(f"/v1/objects/Bench/h{n}/add") for n in range(OBJECTS)])


async def inserter(port: int, count: int, seconds: float) -> dict[str, object]:
    """Callers that each have one object insert a row into its database, again and again."""
    return await _run(port, count, seconds, [request("/v1/objects/Shop/http/more")])


async def neighbour(port: int, count: int, seconds: float) -> dict[str, object]:
    """Callers that wait a little between their calls, and what each call took."""
    return await _run(port, count, seconds, [request(f"/v1/objects/Bench/n{n}/add") for n in range(20)], PAUSE_S)


async def flood(port: int, count: int, seconds: float) -> dict[str, object]:
    """Many connections that ask for all kinds of things as fast as they are answered."""
    kinds = [request(f"/v1/objects/Bench/f{n}/add") for n in range(200)]
    kinds += [request("/v1/objects?limit=100", b"", b"GET"), request("/v1/due?limit=50", b"", b"GET")] * 5
    kinds += [request("/v1/objects/Bench/f1", b"", b"GET"), request("/v1/search?q=f1", b"", b"GET")] * 5
    kinds += [request("/v1/nothing", b"{", b"POST"), request("/v1/objects/Bench/f1/add", b"{" * 50)] * 5
    return await _run(port, count, seconds, kinds)


async def slow(port: int, count: int, seconds: float) -> dict[str, object]:
    """Connections that send their requests byte by byte, and some that never read what they ask for."""
    writers = []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        del reader
        writers.append(writer)
        if number % 2:
            writer.write(request("/v1/objects?limit=1000", b"", b"GET") * 50)
    text = request("/v1/objects/Bench/slow/add", b"[" + b" " * 5_000 + b"]")
    until, place = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        for number, writer in enumerate(writers):
            if not number % 2 and not writer.is_closing():
                writer.write(text[place : place + 1])
        place += 1
        await asyncio.sleep(0.02)
    return {"closed": sum(writer.is_closing() for writer in writers), "of": len(writers)}


async def _run(port: int, count: int, seconds: float, requests: list[bytes], pause_s: float = 0.0) -> dict[str, object]:
    loop, stats = asyncio.get_running_loop(), Stats()
    for number in range(count):
        await loop.create_connection(lambda n=number: Client(n * 7, stats, requests, pause_s), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(0.5)  # objects wake
    stats.statuses.clear()
    stats.took_s.clear()
    began, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    stats.is_over = True
    told = stats.told(time.perf_counter() - began)
    if pause_s:
        told["took_ms"] = [took_s * 1000 for took_s in stats.took_s]
    return told | {"client_cpu_s": time.process_time() - used}


def main() -> None:
    port, kind, count, seconds = sys.argv[1:5]
    work = {"callers": callers, "flood": flood, "slow": slow, "neighbour": neighbour, "inserter": inserter}[kind]
    try:
        import uvloop

        told = uvloop.run(work(int(port), int(count), float(seconds)))
    except ImportError:
        told = asyncio.run(work(int(port), int(count), float(seconds)))
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
