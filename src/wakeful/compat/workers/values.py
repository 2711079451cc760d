"""Layer 5. How do values look to code that expects JavaScript's behind them?

What is read comes as `Record`, `Array` and `Map`: dicts and lists that also answer `.to_py()` and, for records, to
attribute access. What is stored or sent is made plain again first.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from datetime import datetime
from typing import Any

from wakeful.compat.workers.failures import DataCloneError, JsTypeError
from wakeful.values.codec import encode
from wakeful.values.errors import BadValue


class Record(dict[str, Any]):
    """A JavaScript object: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} in {sorted(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def to_py(self, **_: Any) -> dict[str, Any]:
        """Plain dicts and lists all the way down."""
        found: dict[str, Any] = plain(self)
        return found

    def object_items(self) -> list[tuple[str, Any]]:
        return list(self.items())

    def object_keys(self) -> list[str]:
        return list(self)

    def object_values(self) -> list[Any]:
        return list(self.values())


class Map(Record):
    """What `get` of several keys and `list` give: in order, with JavaScript's `size`, `has` and `entries` too."""

    @property
    def size(self) -> int:
        return len(self)

    def has(self, key: str) -> bool:
        return key in self

    def entries(self) -> list[tuple[str, Any]]:
        return list(self.items())


class Array(list[Any]):
    """A JavaScript array."""

    @property
    def length(self) -> int:
        return len(self)

    def to_py(self, **_: Any) -> list[Any]:
        found: list[Any] = plain(self)
        return found


def dress(value: Any) -> Any:
    """A plain value as the object's code gets it."""
    kind = type(value)
    if kind is dict:
        return Record({key: dress(item) for key, item in value.items()})
    if kind is list:
        return Array(dress(item) for item in value)
    return value


def plain(value: Any) -> Any:
    """A value without what `dressed` put around it, at any depth; the same object where there was nothing."""
    try:
        return _plain(value)
    except RecursionError:
        raise DataCloneError("a value that contains itself, or is nested too deeply, is not data") from None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(_plain(item) for item in value)
    if isinstance(value, datetime) and type(value) is not datetime:
        return datetime.combine(value.date(), value.timetz())  # what `js.Date` has beside is nothing to store
    return bytes(value) if isinstance(value, memoryview | bytes) and type(value) is not bytes else value


def sendable(value: Any, what: str) -> Any:
    """A value that can be stored and sent, or `DataCloneError` that says which part can't."""
    made = plain(value)
    try:
        encode(made)
    except BadValue as error:
        raise DataCloneError(f"{what}: {error.message}") from None
    return made


def option_of(given: Any, named: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Options as JavaScript's code gives them, in one mapping, or as Python's, by keyword, where None is not given."""
    named = {name: value for name, value in named.items() if value is not None}
    if given is None:
        return named
    if not isinstance(given, Mapping):
        raise JsTypeError(f"{what}: options must be a mapping or keywords, not {type(given).__name__}")
    return {**given, **named}


def key_of(key: Any, what: str) -> str:
    """A storage key."""
    return text_of(key, f"{what}: a key")


def text_of(value: Any, what: str) -> str:
    """A text; numbers and truth values become the one that JavaScript makes of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    raise JsTypeError(f"{what} is text, not {type(value).__name__}")


# What stands for an answer that is not there yet, awaited or not?
#
# In JavaScript a call has begun when it returns, whether anyone awaits it or not. A Python coroutine has not. So calls
# give these instead: what they do to storage is done at the call, and what takes time begins then, or at the latest when
# the event ends.

log = logging.getLogger("wakeful.workers")

Work = Callable[[], Awaitable[Any]]


class Promise:
    """Work that is done once, by whoever awaits it first; `is_begun` says whether anyone did."""

    __slots__ = ("_ended", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ended: asyncio.Future[Any] | None = None

    @property
    def is_begun(self) -> bool:
        return self._ended is not None

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._ended is not None:
            return asyncio.shield(self._ended).__await__()  # who stops waiting must not stop it for the others
        self._ended = asyncio.get_running_loop().create_future()
        return self._do(self._ended).__await__()

    async def _do(self, ended: asyncio.Future[Any]) -> Any:
        try:
            value = await self._work()
        except BaseException as error:
            ended.set_exception(error)
            ended.exception()  # seen: whoever awaits this once hears of it once
            raise
        ended.set_result(value)
        return value


class Settled:
    """What is done already: awaiting it gives the value, or raises the error, which nobody has to hear."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self._value = value
        self._error = error

    def __await__(self) -> Generator[Any, None, Any]:
        if self._error is not None:
            raise self._error
        return self._value
        yield  # type: ignore[unreachable]  # pragma: no cover  (makes this a generator)


def start_task(
    work: Coroutine[Any, Any, Any], keep: Callable[[asyncio.Task[Any]], None], what: str
) -> asyncio.Task[Any]:
    """Begin it now; if nobody awaits it, its failure is a line in the log and nothing else."""
    task = asyncio.get_running_loop().create_task(work)
    keep(task)
    task.add_done_callback(lambda done: note_failure(done, what))
    return task


def note_failure(task: asyncio.Task[Any], what: str) -> None:
    """What nobody awaited may fail."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.debug("%s failed: %s: %s", what, type(error).__name__, error, extra={"code": "workers.unawaited"})


async def result_of(value: Any) -> Any:
    """The value, awaited if it can be: handlers may be `def` or `async def`."""
    return await value if isinstance(value, Awaitable) else value
