"""Layer 3. How does another process of this user talk to a running node?

A Unix socket in a folder that only the user can enter. The node's address lands in the store, which
is where others find it. One connection carries any number of requests at once; hanging up ends the waiting for
those that still run: a turn that has begun goes on to its end.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from wakeful.runtime.calls import check_request_key
from wakeful.runtime.node import Node
from wakeful.runtime.redrives import NUMBER_MAX, each_parked, survey
from wakeful.runtime.status import status_of
from wakeful.store.protocol import Query
from wakeful.transport import addresses
from wakeful.transport.frames import Malformed, read_frame, write_frame
from wakeful.transport.messages import (
    CallRequest,
    RedriveRequest,
    Reply,
    Request,
    StatusRequest,
    error_of,
    failed,
    good_reply,
)
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadOption, BadValue, Fenced, Unavailable, WakefulError
from wakeful.values.ids import ObjectId, check_class, check_key
from wakeful.values.timers import Parked

log = logging.getLogger("wakeful.control")

# Requests of one connection that run at once; more wait in the socket's own buffer.
REQUESTS_MAX = 256

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class ControlServer:
    """Takes calls and operators' wishes for one node, from processes of the same user."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    async def listen(self) -> None:
        """Open the socket and tell the node its address. A machine that can't have one gets a node without."""
        if not hasattr(socket, "AF_UNIX"):
            return
        try:
            sock, path = addresses.bind(self._node.name)
        except Unavailable as error:
            log.warning(
                "no control socket, so `wakeful call` can't reach this node: %s", error, extra={"code": error.code}
            )
            return
        self._path = path
        self._server = await asyncio.start_unix_server(self._serve, sock=sock)
        self._node.address = f"{addresses.SCHEME}{path}"  # unless other nodes reach it somewhere else

    async def close(self) -> None:
        """Stop listening, hang up on everyone, remove the socket."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        if server is not None:
            await server.wait_closed()
        path, self._path = self._path, None
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        self._node.address = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        running: set[asyncio.Task[None]] = set()
        room = asyncio.Semaphore(REQUESTS_MAX)
        try:
            while (request := await read_frame(reader, _requests)) is not None:
                await room.acquire()
                one = asyncio.get_running_loop().create_task(self._answer(request, writer))
                running.add(one)
                one.add_done_callback(running.discard)
                one.add_done_callback(lambda _: room.release())
        except Malformed as error:
            log.info("hung up on a client: %s", error, extra={"code": "control.malformed"})
        except asyncio.CancelledError:
            pass  # the server closes; swallowed, because the stream's own callback would report it
        finally:
            await _cancel_all(running)
            await _hang_up(writer)
            self._connections.discard(task)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        try:
            reply = good_reply(request.number, await self._do(request))
        except (Exception, Fenced) as error:
            reply = failed(request.number, error)
        try:
            await write_frame(writer, reply)
        except WakefulError as error:
            await write_frame(writer, failed(request.number, error))
        except ConnectionError:
            pass  # it has gone; whoever reads this connection notices too

    async def _do(self, request: Request) -> Any:
        if isinstance(request, CallRequest):
            return await self._call(request)
        if isinstance(request, RedriveRequest):
            return await self._redrive(request)
        return status_of(self._of(request.store))

    def _of(self, url: str) -> Node:
        """The node of this process for the store of that URL."""
        homes = self._node.all_homes
        if not url or len(homes) == 1:
            return self._node
        found = next((home for home in homes if home.store.url == url), None)
        if found is None:
            known = ", ".join(home.store.url for home in homes)
            raise BadOption(f"this process has no store {url}; give one of its own: {known}", code="store.other")
        return found

    async def _call(self, request: CallRequest) -> Any:
        target = ObjectId(check_class(request.cls), check_key(request.cls, request.key))
        if request.request_key is not None:
            check_request_key(request.request_key)
        if request.deadline_ms is not None and request.deadline_ms <= 0:
            raise BadOption(f"a deadline of {request.deadline_ms} ms; give a positive one", code="option.deadline")
        args, kwargs = decode(request.args), decode(request.kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict) or not all(isinstance(k, str) for k in kwargs):
            raise BadValue("arguments must be a tuple, and a dict with names as keys", code="value.arguments")
        return await self._node.send(
            target,
            request.method,
            args,
            kwargs,
            deadline_ms=request.deadline_ms,
            request_key=request.request_key,
        )

    async def _redrive(self, request: RedriveRequest) -> list[dict[str, Any]]:
        if not request.numbers and not request.all:
            raise BadOption("redrive what? Give numbers, or all", code="option.redrive")
        node, query = self._of(request.store), Query(cls=request.cls, key=request.key)

        def find(query: Query) -> Awaitable[list[Parked]]:
            return node.reading(node.store.find_parked(query))

        last = NUMBER_MAX if request.numbers else (await survey(find, query)).last
        results = []
        async for parked in each_parked(find, query, request.numbers, last):
            try:
                await node.redrive(parked)
                results.append(redriven(parked.number, parked, None))
            except WakefulError as error:
                results.append(redriven(parked.number, parked, str(error)))
        missing = set(request.numbers) - {row["number"] for row in results}
        return [redriven(number, None, "is not parked") for number in sorted(missing)] + results


def redriven(number: int, parked: Parked | None, problem: str | None) -> dict[str, Any]:
    id = None if parked is None else parked.timer.id
    return {
        "number": number,
        "class": None if id is None else id.cls,
        "key": None if id is None else id.key,
        "timer": None if parked is None else parked.timer.name,
        "ok": problem is None,
        "problem": problem,
    }


class ControlClient:
    """A connection to a node's control socket, used as `async with ControlClient(address) as client`."""

    def __init__(self, address: str, *, store: str = "") -> None:
        """`store` is the URL of the one that is meant, when the program has several."""
        self.address = address
        self._store = store
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._last = 0

    async def __aenter__(self) -> "ControlClient":
        path = addresses.path_of(self.address)
        if path is None:
            raise Unavailable(f"{self.address or 'an empty address'} is not a control socket", code="control.address")
        try:
            reader, self._writer = await asyncio.open_unix_connection(path)
        except OSError as error:
            raise Unavailable(f"nobody answers at {path}: {error.strerror or error}", code="control.gone") from None
        self._listener = asyncio.get_running_loop().create_task(self._listen(reader))
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._listener is not None:
            await _cancel_all({self._listener})
        if self._writer is not None:
            await _hang_up(self._writer)

    async def call(
        self,
        cls: str,
        key: str,
        method: str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        request_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Any:
        """The answer of a method of an object of that node."""
        data = await self.call_raw(cls, key, method, args, kwargs, request_key=request_key, deadline_ms=deadline_ms)
        return decode(data)

    async def call_raw(
        self,
        cls: str,
        key: str,
        method: str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        request_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> bytes:
        """The answer as bytes of the codec, for those who don't have the program's types."""
        arguments = encode(tuple(args)), encode(kwargs or {})
        return await self._ask(CallRequest(self._next(), cls, key, method, *arguments, request_key, deadline_ms))

    async def redrive(
        self, numbers: Sequence[int] = (), *, all: bool = False, cls: str | None = None, key: str | None = None
    ) -> list[dict[str, Any]]:
        """Set parked timers due again; one row per timer with what came of it."""
        answer = await self._ask(RedriveRequest(self._next(), list(numbers), all, cls, key, self._store))
        rows: list[dict[str, Any]] = decode(answer)
        return rows

    async def status(self) -> dict[str, Any]:
        """How the node is."""
        found: dict[str, Any] = decode(await self._ask(StatusRequest(self._next(), self._store)))
        return found

    def _next(self) -> int:
        self._last += 1
        return self._last

    async def _ask(self, request: Request) -> bytes:
        assert self._writer is not None, "use it as `async with ControlClient(…)`"
        if self._listener is None or self._listener.done():
            raise _hung_up()
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = future
        try:
            await write_frame(self._writer, request)
            reply = await future
        except ConnectionError:
            raise _hung_up() from None
        finally:
            self._waiting.pop(request.number, None)
        if reply.failure is not None:
            raise error_of(reply.failure)
        return reply.answer or b""

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while (reply := await read_frame(reader, _replies)) is not None:
                future = self._waiting.get(reply.number)
                if future is not None and not future.done():
                    future.set_result(reply)
        except Malformed as error:
            log.info("hung up on a server: %s", error, extra={"code": "control.malformed"})
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_hung_up())


def _hung_up() -> Unavailable:
    return Unavailable(
        "the node hung up; whether that was done is unknown: look, and repeat a call with its request key",
        code="control.lost",
    )


async def _cancel_all(tasks: set[asyncio.Task[None]]) -> None:
    """All of them, unwound."""
    waiting = set(tasks)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
