"""Layer 5. Where does the work of an object run, and what was begun in it that nobody waited for?"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.failures import JsException, Reset, as_js_error
from wakeful.compat.workers.ids import IdKey
from wakeful.compat.workers.values import Promise, Settled, Work, result_of, start_task
from wakeful.runtime.events_turn import StandingTurn
from wakeful.runtime.gates import Gated
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import BadInput, WakefulError
from wakeful.values.ids import ObjectId, shard_of

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.workers")


class WaitUntilTasks:
    """The tasks of `waitUntil`, which must not keep an object here when its shard goes elsewhere."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], ObjectId] = {}

    def add(self, activation: "ObjectRuntime", task: asyncio.Task[Any]) -> None:
        self._tasks[task] = activation.id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def send_away(self, shards: Collection[int]) -> None:
        for task in [task for task, id in self._tasks.items() if shard_of(id) in shards]:
            task.cancel()


class Hosted:
    """A class of the Worker's that is hosted here."""

    def __init__(
        self,
        cls: type,
        name: str,
        env: Any,
        beside: WaitUntilTasks,
        id_key: IdKey,
        learn_ids: Callable[[Any], Awaitable[None]],
        *,
        deletes_alarm: bool,
        uses: Callable[[str], bool],
        keeps_history: bool,
    ) -> None:
        self.cls = cls
        self.name = name  # under which its objects are stored
        self.env = env
        self.beside = beside
        self.id_key = id_key
        self.learn_ids = learn_ids  # from that node, before the first event where that comes early
        self.deletes_alarm = deletes_alarm  # whether deleteAll() does
        self.uses = uses  # whether its Worker speaks of `kv` and the like: what that needs is had before its code runs
        self.keeps_history = keeps_history  # whether its Worker speaks of bookmarks: who does not pays nothing for them
        self.has_alarm = callable(getattr(cls, "alarm", None))


class Event:
    """What one event, or the constructor, has begun and asked for."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Task[Any]] = []
        self.wants_back = False  # when it ends, the object is to be what it was


_EVENT: ContextVar[Event | None] = ContextVar("wakeful.workers.event", default=None)


def begin_event() -> Event:
    """An event begins in the context of the code that runs."""
    event = Event()
    _EVENT.set(event)
    return event


def current_event() -> Event:
    """That of the code that runs."""
    return _EVENT.get() or Event()


class ObjectEvents:
    """The events of one object that is awake: the turn that they all write into, and what was begun in them."""

    def __init__(self, activation: "ObjectRuntime", hosted: Hosted, turn: StandingTurn) -> None:
        self._activation = activation
        self.hosted = hosted
        self.turn = turn
        self.gate = turn.gate

    def doing(self, work: Work) -> Promise:
        """Work that has begun, whether anybody awaits it or not; its failure is heard by who does."""

        async def go() -> Any:
            return await Gated(self.gate, _as_coroutine(work))

        task = start_task(go(), self._activation.node.keep, f"work of {self._activation.id}")
        self.turn.works.add(task)
        task.add_done_callback(self.turn.works.discard)
        current_event().begun.append(task)
        return Promise(lambda: _share(task))

    async def finish(self) -> None:
        """Wait for what the event has begun and did not await."""
        begun = current_event().begun
        while begun:
            await asyncio.wait([begun.pop(0)])
        self.check()

    def check(self) -> None:
        """Raise why the object is no more, if it is."""
        if self.turn.is_over:
            raise self._why_over()

    def _why_over(self) -> BaseException:
        failure = self.turn.failure
        if failure is None or isinstance(failure, WakefulError):
            return JsException("the object was reset or has moved; what its old copy began is over")
        return failure

    @property
    def is_beside_section(self) -> bool:
        """What the code that runs writes now would be undone with what others write."""
        return bool(self.turn.saved) and self.gate.is_outside

    @contextmanager
    def looking(self) -> Iterator[StandingTurn]:
        """Around code that reads without waiting, whoever asks."""
        token = CURRENT.set(self.turn)
        try:
            yield self.turn
        finally:
            CURRENT.reset(token)

    @contextmanager
    def inside(self, what: str) -> Iterator[StandingTurn]:
        """Around code that reads or writes without waiting."""
        self.check()
        if self.is_beside_section:
            raise JsException(
                f"storage.{what} beside a transaction() or blockConcurrencyWhile() that is still running would become "
                "part of it; await it first"
            )
        token = CURRENT.set(self.turn)
        try:
            yield self.turn
        finally:
            CURRENT.reset(token)
            self.turn.touch()

    def reading(self, read: Work) -> Awaitable[Any]:
        """A read that is done when it is awaited; nothing else of the object goes on meanwhile."""

        async def go() -> Any:
            self.check()
            await self.gate.wait()
            with self.gate.reading():
                return await self.within(read)

        return Promise(go)

    def writing(self, write: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Done at the call, awaited or not; what is wrong with it is raised where it is awaited."""
        if self.is_beside_section and not self.turn.is_over:
            return start_task(self._write_later(write), self._activation.node.keep, f"storage of {self._activation.id}")
        try:
            self.check()
            done = write()
        except JsException as error:
            return Settled(error=error)
        finally:
            self.turn.touch()
        return done if isinstance(done, Settled) else Promise(lambda: self._count_of(done))

    async def _write_later(self, write: Callable[[], Awaitable[Any]]) -> Any:
        """Of code beside a section: what is undone with that must be its own."""
        await self.gate.wait()
        self.check()
        done = write()
        self.turn.touch()
        return await self._count_of(done)

    async def _count_of(self, done: Awaitable[Any]) -> Any:
        """What a write answers may have to be read."""
        with self.gate.reading():
            return await done

    async def within(self, work: Work) -> Any:
        """Do it as the code of an event."""
        token = CURRENT.set(self.turn)
        try:
            return await work()
        except BadInput as error:
            raise as_js_error(error) from None
        finally:
            CURRENT.reset(token)

    def reset(self, error: Exception, *, retries: bool = True) -> Reset:
        """The object is made anew before its next event; what unwinds the code that runs now."""
        error.durableObjectReset = True  # type: ignore[attr-defined]
        error.retryAlarm = retries  # type: ignore[attr-defined]
        if not current_event().wants_back:  # else when the event has unwound
            self.turn.beside.reset(error)
        return Reset(error)


async def _as_coroutine(work: Work) -> Any:
    return await result_of(work())


async def _share(task: asyncio.Task[Any]) -> Any:
    """Who stops waiting must not stop it for the others."""
    return await asyncio.shield(task)
