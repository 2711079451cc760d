"""How many round trips a second between two processes: over a link, and over what a link could have been made of?

`links.LOOP.WIRE.CALLERS`. Each asks from one process and answers from another, on one machine. The
store does not matter. What is not Wakeful's is written here in the plainest form that does the same:
numbered requests, a task for each at the far end, a future for each at the near end.
"""

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from bench.measures import Measure, rate
from bench.places import ROOT
from bench.sizes import Sizes
from wakeful.transport.frames import read_frame
from wakeful.transport.protocol import PeerCall, PeerReply
from wakeful.transport.tcp import SocketTransport

LOOPS = ("uvloop", "asyncio")
WIRES = ("tcp", "unix", "streams", "zmq")
CALLERS = (1, 64)
TIMEOUT_S = 120

Ask = Callable[[PeerCall], Awaitable[Any]]

_encoder = msgspec.msgpack.Encoder()
_calls: msgspec.msgpack.Decoder[PeerCall] = msgspec.msgpack.Decoder(PeerCall)
_replies: msgspec.msgpack.Decoder[PeerReply] = msgspec.msgpack.Decoder(PeerReply)


def run(url: str, sizes: Sizes) -> list[Measure]:
    """Every wire on every event loop that is installed."""
    measures = []
    for loop in LOOPS:
        for wire in WIRES:
            if _is_installed("uvloop" if loop == "uvloop" else "") and _is_installed("zmq" if wire == "zmq" else ""):
                measures += _between_processes(loop, wire, sizes.call_count)
    return measures


def _is_installed(module: str) -> bool:
    try:
        __import__(module or "asyncio")
    except ImportError:
        return False
    return True


def _between_processes(loop: str, wire: str, count: int) -> list[Measure]:
    command = [sys.executable, "-m", "bench.links", loop, wire]
    with tempfile.TemporaryDirectory() as folder:
        listen = f"unix:{folder}/b.sock" if wire == "unix" else "127.0.0.1:0"
        answering = subprocess.Popen(
            [*command, "--answer", listen], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert answering.stdout is not None
            address = answering.stdout.readline().strip()
            asking = subprocess.run(
                [*command, "--ask", address, "--count", str(count)],
                cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
            )  # fmt: skip
        finally:
            answering.communicate("")  # it ends when its input does
    return msgspec.json.decode(asking.stdout, type=list[Measure])


# the far end


class Echo:
    async def handle(self, call: PeerCall) -> bytes:
        return call.args


async def answer(wire: str, listen: str) -> None:
    """Answer until nobody holds this process's input any more."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    if wire == "streams":
        server = await asyncio.start_server(_answer_stream, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    elif wire == "zmq":
        address = _answer_zmq()
    else:
        address = await _transport("b", listen).serve(Echo())
    print(address, flush=True)
    await ended.wait()
    os._exit(0)


async def _answer_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    tasks: set[asyncio.Task[None]] = set()

    async def one(call: PeerCall) -> None:
        body = _encoder.encode(PeerReply(call.number, await Echo().handle(call)))
        writer.write(len(body).to_bytes(4, "big") + body)
        await writer.drain()

    while (call := await read_frame(reader, _calls)) is not None:
        task = asyncio.get_running_loop().create_task(one(call))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _answer_zmq() -> str:
    import zmq
    import zmq.asyncio

    router = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    async def one(peer: bytes, call: PeerCall) -> None:
        await router.send_multipart([peer, _encoder.encode(PeerReply(call.number, await Echo().handle(call)))])

    async def serve() -> None:
        tasks: set[asyncio.Task[None]] = set()
        while True:
            peer, body = await router.recv_multipart()
            task = asyncio.get_running_loop().create_task(one(peer, _calls.decode(body)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    _SERVING.append(asyncio.get_running_loop().create_task(serve()))
    return f"tcp://127.0.0.1:{port}"


_SERVING: list[asyncio.Task[None]] = []  # held here, or the loop would let them go


# the near end


async def ask(loop: str, wire: str, address: str, count: int) -> None:
    """Measure and print."""
    if wire == "streams":
        one = await _asking_stream(address)
    elif wire == "zmq":
        one = _asking_zmq(address)
    else:
        link = await _transport("a", "unix:").connect(address, expect_node="b")

        async def one(call: PeerCall) -> Any:
            return await link.ask(call, timeout_ms=30_000)

    async def call(_: int) -> None:
        await one(PeerCall("Thing", "key", "method", b"x" * 20, b"y" * 4, 30_000, None, [("Other", "key")], "", 1, "a"))

    await rate("warm", count // 10, 64, call)
    measures = [
        await rate(f"links.{loop}.{wire}.{callers}", count if callers > 1 else count // 5, callers, call)
        for callers in CALLERS
    ]
    sys.stdout.write(msgspec.json.encode(measures).decode())
    sys.stdout.flush()
    os._exit(0)


class _Numbered:
    """Futures by number, for the wires that are not links."""

    def __init__(self, send: Callable[[bytes], Any]) -> None:
        self._send = send
        self._number = 0
        self._asked: dict[int, asyncio.Future[PeerReply]] = {}

    async def ask(self, call: PeerCall) -> PeerReply:
        self._number = call.number = number = self._number + 1
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        sent = self._send(_encoder.encode(call))
        if sent is not None:
            await sent
        return await future

    def heard(self, reply: PeerReply) -> None:
        self._asked.pop(reply.number).set_result(reply)


async def _asking_stream(address: str) -> Ask:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    def send(body: bytes) -> Coroutine[Any, Any, None]:
        writer.write(len(body).to_bytes(4, "big") + body)
        return writer.drain()

    numbered = _Numbered(send)

    async def listen() -> None:
        while (reply := await read_frame(reader, _replies)) is not None:
            numbered.heard(reply)

    _SERVING.append(asyncio.get_running_loop().create_task(listen()))
    return numbered.ask


def _asking_zmq(address: str) -> Ask:
    import zmq
    import zmq.asyncio

    dealer = zmq.asyncio.Context.instance().socket(zmq.DEALER)
    dealer.connect(address)
    numbered = _Numbered(dealer.send)

    async def listen() -> None:
        while True:
            numbered.heard(_replies.decode(await dealer.recv()))

    _SERVING.append(asyncio.get_running_loop().create_task(listen()))
    return numbered.ask


def _transport(node: str, listen: str) -> SocketTransport:
    return SocketTransport(node=node, cluster="bench", listen=listen, secret="x" * 32, entropy=os.urandom)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.links", description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("wire", choices=WIRES)
    parser.add_argument("--answer", metavar="LISTEN")
    parser.add_argument("--ask", metavar="ADDRESS")
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    gc.freeze()
    work = (
        answer(options.wire, options.answer)
        if options.answer
        else ask(options.loop, options.wire, options.ask, options.count)
    )
    if options.loop == "uvloop":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


if __name__ == "__main__":
    main()
