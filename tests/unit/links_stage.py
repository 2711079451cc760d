"""Two nodes and a link between them, over every wire there is."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.yardstick import PATIENCE_S
from wakeful.testing.network import Network
from wakeful.testing.timewarp import Timewarp
from wakeful.transport.protocol import Link, NotStarted, PeerCall, Transport
from wakeful.transport.tcp import SocketTransport
from wakeful.values.errors import Fenced, LimitExceeded, Unavailable

SECRET = "a secret for tests only"
WIRES = ("tcp", "unix", "memory")


class Sample:
    """A handler that can do everything a handler may."""

    def __init__(self) -> None:
        self.calls: list[PeerCall] = []
        self.running = 0
        self.running_max = 0
        self.cancelled = 0
        self.gate = asyncio.Event()

    async def handle(self, call: PeerCall) -> bytes:
        self.calls.append(call)
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            return await getattr(self, call.method)(call)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def echo(self, call: PeerCall) -> bytes:
        return call.args

    async def wait(self, call: PeerCall) -> bytes:
        await self.gate.wait()
        return call.args

    async def fail(self, call: PeerCall) -> bytes:
        raise ZeroDivisionError("by nothing")

    async def limit(self, call: PeerCall) -> bytes:
        raise LimitExceeded("too many", code="limit.sample")

    async def fenced(self, call: PeerCall) -> bytes:
        raise Fenced(3, 4)

    async def elsewhere(self, call: PeerCall) -> bytes:
        raise NotStarted(Unavailable("not mine", code="shard.moved"))

    async def big(self, call: PeerCall) -> bytes:
        return bytes(17 * 1024 * 1024)

    async def give_up(self, call: PeerCall) -> bytes:
        raise asyncio.CancelledError


def a_call(method: str = "echo", args: bytes = b"", **options: Any) -> PeerCall:
    return PeerCall("Thing", "a", method, args, b"", options.pop("deadline_ms", 30_000), **options)


def real(node: str = "a", listen: str = "127.0.0.1:0", **options: Any) -> SocketTransport:
    options = {"cluster": "c", "secret": SECRET, "entropy": os.urandom} | options
    return SocketTransport(node=node, listen=listen, **options)


@asynccontextmanager
async def linked(wire: str, **options: Any) -> AsyncIterator[tuple[Link, Sample, Transport]]:
    """A link from node a to node b, what b does, and b's transport."""
    a: Transport
    b: Transport
    if wire == "memory":
        network = Network(**options)
        a, b = network.transport("a"), network.transport("b")
    else:
        listen = "127.0.0.1:0" if wire == "tcp" else "unix:"
        a, b = (real(node, listen, **options) for node in "ab")
    handler = Sample()
    address = await b.serve(handler)
    try:
        yield await a.connect(address, expect_node="b"), handler, b
    finally:
        await a.close()
        await b.close()


@asynccontextmanager
async def virtual() -> AsyncIterator[Timewarp]:
    """Time on this loop passes only by jumping."""
    warp = Timewarp(0)
    warp.install()
    try:
        yield warp
    finally:
        warp.remove()


async def until(condition: Callable[[], bool]) -> None:
    """Wait, a little in real time, until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - it holds through work elsewhere, which tells nobody
            await asyncio.sleep(0.005)
