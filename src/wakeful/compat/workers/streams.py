"""Layer 5. Bodies and values that come bit by bit: what are `ReadableStream`, `WritableStream` and `TransformStream` here?"""

import asyncio
import codecs
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from wakeful.compat.workers.failures import JsRangeError, JsTypeError, Unsupported
from wakeful.compat.workers.sources import (
    END,
    QUEUE_BYTES_MAX,
    Pipe,
    Source,
    Steered,
    StreamController,
    Trickle,
    bytes_of,
    call,
    dress_chunk,
    error_of,
    member,
    merge,
    size_of,
    start_in,
)
from wakeful.compat.workers.values import Record, option_of, result_of


class Fork(Source):
    """One of two that read the same stream, each at its own pace."""

    def __init__(self, stream: "ReadableStream") -> None:
        self._stream = stream
        self._pipe = Pipe()
        self._reading = asyncio.Lock()
        self._other: Fork = self

    @classmethod
    def two(cls, stream: "ReadableStream") -> tuple["Fork", "Fork"]:
        one, two = cls(stream), cls(stream)
        one._other, two._other, two._reading = two, one, one._reading
        return one, two

    async def pull(self) -> Any:
        async with self._reading:
            if not len(self._pipe) and not self._pipe.is_closed and self._pipe.error is None:
                try:
                    chunk = await self._stream._next()
                except Exception as error:
                    for fork in (self, self._other):
                        fork._pipe.fail(error)
                else:
                    for fork in (self, self._other):
                        if chunk is END:
                            fork._pipe.close()
                        elif not fork._pipe.is_closed and fork._pipe.error is None:
                            with suppress(JsRangeError):  # the other one reads too slowly: it breaks, this one goes on
                                fork._pipe.push(chunk)
        return await self._pipe.pull()

    async def cancel(self, reason: Any) -> None:
        await self._pipe.cancel(reason)
        if self._other._pipe.is_cancelled:
            await self._stream._cancel(reason)

    def keep(self) -> None:
        self._stream._source.keep()


class ReadableStream:
    """Chunks to be read: by `async for`, by `getReader().read()`, or by piping them on."""

    def __init__(self, underlying: Any = None, strategy: Any = None, **named: Any) -> None:
        self._is_locked = False
        self._is_disturbed = False
        self._is_over = False
        self._ended: list[Callable[[], None]] = []
        self._turns = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        if isinstance(underlying, Source):
            self._source: Source = underlying
        else:
            given = merge(underlying, named)
            is_bytes = member(given, "type") == "bytes"
            high_water = member(strategy, "highWaterMark")
            self._source = Steered(given, float((0 if is_bytes else 1) if high_water is None else high_water))

    @classmethod
    def new(cls, *given: Any, **named: Any) -> "ReadableStream":
        return cls(*given, **named)

    @staticmethod
    def from_(given: Any) -> "ReadableStream":
        """`ReadableStream.from(iterable)`."""
        if isinstance(given, ReadableStream):
            return given
        if not isinstance(given, AsyncIterable | Iterable):
            raise JsTypeError(f"ReadableStream.from() takes something to iterate over, not {type(given).__name__}")
        return ReadableStream(Trickle(given))

    locked = property(lambda self: self._is_locked)

    def getReader(self, options: Any = None, **named: Any) -> "StreamReader":  # noqa: N802  the names there
        if option_of(options, named, "getReader()").get("mode") is not None:
            raise Unsupported("getReader(): readers that bring their own buffer are not here; read() gives bytes")
        self._lock("getReader()")
        return StreamReader(self)

    def tee(self) -> "list[ReadableStream]":
        """Two of it; what one has read waits for the other."""
        self._lock("tee()")
        return [ReadableStream(fork) for fork in Fork.two(self)]

    def pipeThrough(self, transform: Any, options: Any = None, **named: Any) -> "ReadableStream":  # noqa: N802
        """What the transform makes of it."""
        readable: ReadableStream = member(transform, "readable")
        piped = self.pipeTo(member(transform, "writable"), options, **named)
        piped.add_done_callback(lambda done: done.cancelled() or done.exception())  # its readers hear of it
        return readable

    def pipeTo(self, writable: "WritableStream", options: Any = None, **named: Any) -> "asyncio.Task[None]":  # noqa: N802
        """Write all of it there; begun when this returns, awaited or not."""
        if not isinstance(writable, WritableStream):
            raise JsTypeError(f"pipeTo() takes a WritableStream, not {type(writable).__name__}")
        given = option_of(options, named, "pipeTo()")
        self._lock("pipeTo()")
        return start_in(copy_context(), self._pipe(writable.getWriter(), given))

    def cancel(self, reason: Any = None) -> "asyncio.Task[None]":
        """Nobody wants more of it."""
        if self._is_locked:
            raise JsTypeError("cancel(): the stream has a reader; let that cancel it")
        return start_in(copy_context(), self._cancel(reason))

    def values(self, options: Any = None, **named: Any) -> AsyncIterator[Any]:
        prevents = bool(option_of(options, named, "values()").get("preventCancel"))
        self._lock("values()")
        return self._iterate(prevents_cancel=prevents)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.values()

    def __del__(self) -> None:
        loop = self._loop
        if loop is not None and not self._is_over and not loop.is_closed():
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_abandon, self._source, self._ended)

    # what the others here use

    async def _next(self) -> Any:
        """The next chunk, or END; chunks are given out in the order in which they were asked for."""
        self._begin()
        async with self._turns:
            if self._is_over:
                return await self._source.pull()  # END, or the error once more
            try:
                chunk = await self._source.pull()
            except Exception:
                self._finish()
                raise
            if chunk is END:
                self._finish()
            return chunk

    async def _cancel(self, reason: Any = None) -> None:
        self._begin()
        self._finish()
        await self._source.cancel(reason)

    async def _collect(self) -> bytes:
        """All that is left of it, as bytes."""
        self._source.keep()
        parts = []
        while (chunk := await self._next()) is not END:
            parts.append(bytes_of(chunk))
        return b"".join(parts)

    def _hold(self) -> None:
        """From now on something rests on it: that it is dropped without a word is to be noticed."""
        self._loop = asyncio.get_running_loop()

    def _on_end(self, tell: Callable[[], None]) -> None:
        """Call that when it has ended, however it does."""
        if self._is_over:
            tell()
        else:
            self._ended.append(tell)

    def _lock(self, what: str) -> None:
        if self._is_locked:
            raise JsTypeError(f"{what}: the stream has a reader already")
        self._is_locked = True

    def _begin(self) -> None:
        self._is_disturbed = True
        if self._loop is None:
            self._loop = asyncio.get_running_loop()

    def _finish(self) -> None:
        self._is_over = True
        told, self._ended = self._ended, []
        for tell in told:
            tell()

    async def _iterate(self, *, prevents_cancel: bool) -> AsyncIterator[Any]:
        try:
            while (chunk := await self._next()) is not END:
                yield dress_chunk(chunk)
        finally:
            self._is_locked = False
            if not self._is_over and not prevents_cancel:
                await self._cancel("it was not read to its end")

    async def _pipe(self, writer: "StreamWriter", options: Mapping[str, Any]) -> None:
        try:
            while True:
                try:
                    chunk = await self._next()
                except Exception as error:
                    if not options.get("preventAbort"):
                        await writer.abort(error)
                    raise
                if chunk is END:
                    if not options.get("preventClose"):
                        await writer.close()
                    return
                try:
                    await writer.write(chunk)
                except Exception as error:
                    if not options.get("preventCancel"):
                        await self._cancel(error)
                    raise
        finally:
            self._is_locked = False
            writer.releaseLock()


setattr(ReadableStream, "from", staticmethod(ReadableStream.from_))


class StreamReader:
    """Reads a stream: `await reader.read()` has `done` and `value`."""

    def __init__(self, stream: ReadableStream) -> None:
        self._stream: ReadableStream | None = stream
        self._over: asyncio.Future[None] | None = None

    async def read(self) -> Record:
        chunk = await self._mine("read()")._next()
        return Record(done=True, value=None) if chunk is END else Record(done=False, value=dress_chunk(chunk))

    async def cancel(self, reason: Any = None) -> None:
        await self._mine("cancel()")._cancel(reason)

    def releaseLock(self) -> None:  # noqa: N802  the name there
        if self._stream is not None:
            self._stream._is_locked = False
            self._stream = None

    @property
    def closed(self) -> "asyncio.Future[None]":
        """Done when there is no more to read."""
        if self._over is None:
            over = self._over = asyncio.get_running_loop().create_future()
            self._mine("closed")._on_end(lambda: None if over.done() else over.set_result(None))
        return self._over

    def _mine(self, what: str) -> ReadableStream:
        if self._stream is None:
            raise JsTypeError(f"{what}: the reader has been released")
        return self._stream


class WritableStream:
    """Takes chunks: `getWriter()`, or `pipeTo` of another stream."""

    def __init__(self, sink: Any = None, strategy: Any = None, **named: Any) -> None:
        sink = merge(sink, named)
        self._write, self._close, self._abort = (member(sink, name) for name in ("write", "close", "abort"))
        self._is_locked = False
        self._is_closed = False
        self._error: BaseException | None = None
        self._bytes = 0  # that are not written yet
        self._turns = asyncio.Lock()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over.add_done_callback(lambda done: done.exception())
        start = member(sink, "start")
        if start is not None:
            self._later(self._run(start, self))

    @classmethod
    def new(cls, *given: Any, **named: Any) -> "WritableStream":
        return cls(*given, **named)

    locked = property(lambda self: self._is_locked)

    def getWriter(self) -> "StreamWriter":  # noqa: N802  the name there
        if self._is_locked:
            raise JsTypeError("getWriter(): the stream has a writer already")
        self._is_locked = True
        return StreamWriter(self)

    def close(self) -> "asyncio.Task[None]":
        return self._later(self._end())

    def abort(self, reason: Any = None) -> "asyncio.Task[None]":
        return self._later(self._break(error_of(reason)))

    def error(self, reason: Any = None) -> None:
        """As the controller that `write` is given: the stream breaks."""
        self._error = self._error or error_of(reason)

    def _put(self, chunk: Any) -> "asyncio.Task[None]":
        if self._is_closed:
            raise JsTypeError("write(): the stream is closed")
        self._bytes += size_of(chunk)
        if self._bytes > QUEUE_BYTES_MAX:
            self._bytes -= size_of(chunk)
            raise JsRangeError(f"write(): {QUEUE_BYTES_MAX} bytes wait already; await each write()")
        return self._later(self._run(self._write, chunk, self, size=size_of(chunk)))

    async def _run(self, do: Any, *args: Any, size: int = 0) -> None:
        try:
            async with self._turns:
                if self._error is not None:
                    raise self._error
                try:
                    await result_of(call(do, *args))
                except Exception as error:
                    self._error = error
                    raise
        finally:
            self._bytes -= size

    async def _end(self) -> None:
        if self._is_closed:
            raise JsTypeError("close(): the stream is closed already")
        self._is_closed = True
        try:
            await self._run(self._close)
        except Exception as error:
            self._settle(error)
            raise
        self._settle(None)

    async def _break(self, error: BaseException) -> None:
        if self._error is None and not self._over.done():
            self._is_closed, self._error = True, error
            await result_of(call(self._abort, error))
            self._settle(error)

    def _settle(self, error: BaseException | None) -> None:
        if not self._over.done():
            self._over.set_exception(error) if error is not None else self._over.set_result(None)

    def _later(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begun at the call, awaited or not; what fails unheard is heard by whoever writes next."""
        task = start_in(copy_context(), work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


class StreamWriter:
    """Writes into a stream: `write`, `close`, `abort`, `ready`, `closed`."""

    def __init__(self, stream: WritableStream) -> None:
        self._stream: WritableStream | None = stream

    def write(self, chunk: Any = None) -> "asyncio.Task[None]":
        return self._mine("write()")._put(bytes(chunk) if isinstance(chunk, bytearray | memoryview) else chunk)

    def close(self) -> "asyncio.Task[None]":
        return self._mine("close()").close()

    def abort(self, reason: Any = None) -> "asyncio.Task[None]":
        return self._mine("abort()").abort(reason)

    def releaseLock(self) -> None:  # noqa: N802  the name there
        if self._stream is not None:
            self._stream._is_locked = False
            self._stream = None

    @property
    def ready(self) -> "asyncio.Task[None]":
        """Done when what was written has been taken."""
        return self._mine("ready")._later(self._mine("ready")._run(None))

    @property
    def closed(self) -> "asyncio.Future[None]":
        return self._mine("closed")._over

    @property
    def desiredSize(self) -> int:  # noqa: N802  the name there
        return 0 if self._mine("desiredSize")._bytes else 1

    def _mine(self, what: str) -> WritableStream:
        if self._stream is None:
            raise JsTypeError(f"{what}: the writer has been released")
        return self._stream


class TransformStream:
    """What is written into `writable` comes out of `readable`, as it is or as `transform` makes it."""

    def __init__(self, transformer: Any = None, *_: Any, **named: Any) -> None:
        transformer = merge(transformer, named)
        self._pipe = Pipe()
        self._controller = StreamController(self._pipe, 1)
        self._transform, self._flush = member(transformer, "transform"), member(transformer, "flush")
        start = member(transformer, "start")
        if start is not None:
            start(self._controller)
        self.readable = ReadableStream(self._pipe)
        self.writable = WritableStream({"write": self._write, "close": self._close, "abort": self._pipe.fail})

    @classmethod
    def new(cls, *given: Any, **named: Any) -> Any:
        return cls(*given, **named)

    async def _write(self, chunk: Any, _: Any = None) -> None:
        if self._transform is None:
            self._pipe.push(chunk)
        else:
            try:
                await result_of(call(self._transform, chunk, self._controller))
            except Exception as error:
                self._pipe.fail(error)
                raise
        await self._pipe.drain()

    async def _close(self) -> None:
        try:
            await result_of(call(self._flush, self._controller))
        except Exception as error:
            self._pipe.fail(error)
            raise
        self._pipe.close()


class IdentityTransformStream(TransformStream):
    """What is written into `writable` comes out of `readable`."""

    def __init__(self) -> None:
        super().__init__()


class TextEncoderStream(TransformStream):
    """Text in, UTF-8 out."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__({"transform": lambda chunk, out: out.enqueue(str(chunk).encode(errors="replace"))})


class TextDecoderStream(TransformStream):
    """Bytes in, text out; a character may be cut anywhere."""

    def __init__(self, label: str = "utf-8", options: Any = None, **named: Any) -> None:
        self.encoding = label
        self.fatal = bool(option_of(options, named, "TextDecoderStream").get("fatal"))
        try:
            decoder = codecs.getincrementaldecoder(label)("strict" if self.fatal else "replace")
        except LookupError:
            raise JsRangeError(f"TextDecoderStream: there is no encoding {label!r}") from None

        def decode(data: bytes, out: StreamController, *, is_last: bool = False) -> None:
            try:
                text = decoder.decode(data, is_last)
            except UnicodeDecodeError as error:
                raise JsTypeError(f"TextDecoderStream: {error}") from None
            if text:
                out.enqueue(text)

        super().__init__(
            {
                "transform": lambda chunk, out: decode(bytes_of(chunk), out),
                "flush": lambda out: decode(b"", out, is_last=True),
            }
        )


def _abandon(source: Source, ended: list[Callable[[], None]]) -> None:
    """Somebody has dropped a stream that was not at its end."""
    for tell in ended:
        tell()
    start_in(copy_context(), source.cancel("nobody reads it any more"))
