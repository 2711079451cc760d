"""Layer 5. Where do the chunks of a stream come from: a queue, an iterator, the functions of a Worker's code?

A chunk is made when somebody asks for it. What makes chunks runs in a task of its own, in the context in which the stream
was made: whoever reads it may be another object, another Worker, or the server.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from wakeful.compat.workers.failures import JsException, JsRangeError, JsTypeError
from wakeful.compat.workers.values import result_of

log = logging.getLogger("wakeful.workers")

QUEUE_BYTES_MAX = 16 * 1_048_576  # that code may leave in a stream which nobody reads
END: Any = object()  # behind the last chunk
_tasks: set[asyncio.Task[Any]] = set()  # else nobody would hold them


class Chunk(bytes):
    """Bytes of a stream, as a `Uint8Array` is seen from Python."""

    @property
    def length(self) -> int:
        return len(self)

    byteLength = length  # noqa: N815  the name there

    def to_py(self, **_: Any) -> memoryview:
        return memoryview(self)

    def to_bytes(self) -> bytes:
        return bytes(self)

    to_memoryview = to_py


def bytes_of(chunk: Any) -> bytes:
    """A chunk of a body; text is UTF-8."""
    if isinstance(chunk, str):
        return chunk.encode(errors="replace")
    if isinstance(chunk, bytes | bytearray | memoryview):
        return bytes(chunk)
    raise JsTypeError(f"a chunk of a body is text or bytes, not {type(chunk).__name__}")


def start_in(context: Context, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begin it there, and hold it until it is done."""
    task = asyncio.get_running_loop().create_task(work, context=context)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


class Source:
    """Where chunks come from. One at a time is asked for."""

    async def pull(self) -> Any:
        """The next one, or END. A caller that stops waiting loses nothing: whoever asks next gets it."""
        raise NotImplementedError

    async def cancel(self, reason: Any) -> None:
        """Nobody wants more: whoever waits gets END."""

    def keep(self) -> None:
        """Whoever reads it from now on keeps all that it gets, until there is no more."""


class Pipe(Source):
    """Chunks in their order, between one who makes them and one who takes them."""

    def __init__(self) -> None:
        self.is_closed = False
        self.is_cancelled = False
        self.error: BaseException | None = None
        self._chunks: deque[Any] = deque()
        self._bytes = 0
        self._arrived: asyncio.Event = asyncio.Event()
        self._taken: asyncio.Event = asyncio.Event()
        self._taken.set()

    def __len__(self) -> int:
        return len(self._chunks)

    def push(self, chunk: Any) -> None:
        if self.is_closed or self.error is not None:
            raise JsTypeError("the stream is closed" if self.error is None else f"the stream broke: {self.error}")
        self._bytes += size_of(chunk)
        if self._bytes > QUEUE_BYTES_MAX:
            self.fail(JsRangeError(f"a stream that nobody reads may hold {QUEUE_BYTES_MAX} bytes"))
            assert self.error is not None
            raise self.error
        self._chunks.append(chunk)
        self._arrived.set()
        self._taken.clear()

    async def drain(self) -> None:
        """Returns when all has been taken; raises when it never will be."""
        await self._taken.wait()
        if self.is_cancelled:
            raise JsTypeError("the stream was cancelled by its reader")
        if self.error is not None:
            raise self.error

    async def wait_for_room(self) -> None:
        """Returns when all has been taken, or nobody will."""
        await self._taken.wait()

    def take_all(self) -> list[Any]:
        """What is there, at once."""
        found, self._bytes = list(self._chunks), 0
        self._chunks.clear()
        self._taken.set()
        return found

    def close(self) -> None:
        """Nothing comes behind what is there."""
        self.is_closed = True
        self._arrived.set()

    def fail(self, error: BaseException) -> None:
        """It breaks, whatever is there; one that is at its end has nothing to break."""
        if self.is_closed and not self._chunks:
            return
        if self.error is None and not self.is_cancelled:
            self.error = error
        self._empty()

    async def pull(self) -> Any:
        while not self._chunks:
            if self.error is not None:
                raise self.error
            if self.is_closed:
                return END
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        self._bytes -= size_of(chunk)
        if not self._chunks:
            self._taken.set()
        return chunk

    async def cancel(self, reason: Any) -> None:
        self.is_cancelled = self.is_closed = True
        self._empty()

    def _empty(self) -> None:
        self._chunks.clear()
        self._bytes = 0
        self._arrived.set()
        self._taken.set()


class Whole(Source):
    """All of it at once."""

    def __init__(self, data: bytes) -> None:
        self._data: Any = data or END

    async def pull(self) -> Any:
        data, self._data = self._data, END
        return data


class Trickle(Source):
    """What an iterator gives, which goes no further than it is asked: in one task from its first step to its last."""

    def __init__(self, given: AsyncIterable[Any] | Iterable[Any], convert: Callable[[Any], Any] | None = None) -> None:
        self._given = given
        self._convert = convert
        self._context = copy_context()
        self._pipe = Pipe()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._steps: AsyncIterator[Any] | None = None

    async def pull(self) -> Any:
        if not len(self._pipe) and not self._pipe.is_closed:
            self._wanted.set()
            if self._task is None:
                self._task = start_in(self._context, self._run())
        return await self._pipe.pull()

    async def cancel(self, reason: Any) -> None:
        await self._pipe.cancel(reason)
        if self._task is None:
            self._task = start_in(self._context, self._close())
        elif not self._task.done() and self._task is not asyncio.current_task():
            self._task.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            given = self._given
            self._steps = steps = given.__aiter__() if isinstance(given, AsyncIterable) else _steps_of(given)
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                try:
                    chunk = await anext(steps)
                except StopAsyncIteration:
                    self._pipe.close()
                    return
                self._pipe.push(chunk if self._convert is None else self._convert(chunk))
        except asyncio.CancelledError as error:
            self._pipe.fail(JsException("what made the stream was cancelled"))
            raise error
        except BaseException as error:
            self._pipe.fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            await self._close()

    async def _close(self) -> None:
        close = getattr(self._steps or self._given, "aclose", None)
        if close is not None:
            try:
                await close()
            except Exception:
                log.exception("the end of a stream raised", extra={"code": "workers.stream"})


async def _steps_of(given: Iterable[Any]) -> AsyncIterator[Any]:
    for chunk in given:
        yield await result_of(chunk)


class StreamController:
    """What `start` and `pull` of a stream are given: `enqueue`, `close`, `error`, `desiredSize`."""

    def __init__(self, pipe: Pipe, high_water: float) -> None:
        self._pipe = pipe
        self._high_water = high_water

    @property
    def desiredSize(self) -> float:  # noqa: N802  the names there
        return 0 if self._pipe.is_closed else self._high_water - len(self._pipe)

    def enqueue(self, chunk: Any = None) -> None:
        self._pipe.push(bytes(chunk) if isinstance(chunk, bytearray | memoryview) else chunk)

    def close(self) -> None:
        if self._pipe.is_closed:
            raise JsTypeError("close(): the stream is closed already")
        self._pipe.close()

    terminate = close

    def error(self, reason: Any = None) -> None:
        self._pipe.fail(error_of(reason))


class Steered(Source):
    """What `start` and `pull` of a Worker's code put into its controller."""

    def __init__(self, underlying: Any, high_water: float) -> None:
        self._pipe = Pipe()
        self._context = copy_context()
        self._pull = member(underlying, "pull")
        self._cancel = member(underlying, "cancel")
        self._controller = StreamController(self._pipe, high_water)
        self._task: asyncio.Task[Any] | None = None  # of `start` first, then of one `pull` after the other
        self._is_wanted = False
        start = member(underlying, "start")
        found: Any = None
        try:
            found = None if start is None else start(self._controller)
        except Exception as error:  # as there: whoever reads it hears of it
            self._pipe.fail(error)
        if asyncio.isfuture(found) or hasattr(found, "__await__"):
            self._task = start_in(self._context, self._call(lambda _: found))

    async def pull(self) -> Any:
        if not len(self._pipe) and not self._pipe.is_closed and self._pull is not None:
            self._is_wanted = True
            if self._task is None:
                self._task = start_in(self._context, self._call(self._pull))
        return await self._pipe.pull()

    async def cancel(self, reason: Any) -> None:
        is_over = self._pipe.is_closed or self._pipe.error is not None
        await self._pipe.cancel(reason)
        if self._cancel is not None and not is_over:
            await start_in(self._context, _await(result_of(self._cancel(reason))))

    async def _call(self, do: Callable[[StreamController], Any]) -> None:
        try:
            while True:
                if do is self._pull:
                    self._is_wanted = False
                await result_of(do(self._controller))
                if not self._is_wanted or len(self._pipe) or self._pipe.is_closed or self._pull is None:
                    return
                do = self._pull
        except asyncio.CancelledError:
            self._pipe.fail(JsException("what made the stream was cancelled"))
            raise
        except Exception as error:
            if not self._pipe.is_cancelled:  # else it was told so by its own enqueue()
                self._pipe.fail(error)
        finally:
            self._task = None


def dress_chunk(chunk: Any) -> Any:
    """A chunk as code reads it."""
    return Chunk(chunk) if isinstance(chunk, bytes | bytearray | memoryview) else chunk


def error_of(reason: Any) -> BaseException:
    """What a stream breaks with."""
    return reason if isinstance(reason, BaseException) else JsException("" if reason is None else str(reason))


def merge(given: Any, named: Mapping[str, Any]) -> Any:
    return dict(named) if given is None else given


def member(given: Any, name: str) -> Any:
    """What a mapping or an object has under that name."""
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def call(do: Any, *args: Any) -> Any:
    """With as many arguments as it takes; nothing when there is nothing to call."""
    return None if do is None else do(*args[: count_of(do, len(args))])


def count_of(do: Any, most: int) -> int:
    """How many of so many arguments it takes."""
    try:
        signature = inspect.signature(do)
    except (TypeError, ValueError):
        return most
    for count in range(most, -1, -1):
        with suppress(TypeError):
            signature.bind(*range(count))
            return count
    return most


def size_of(chunk: Any) -> int:
    return len(chunk) if isinstance(chunk, str | bytes) else 64


async def _await(value: Any) -> Any:
    return await value
