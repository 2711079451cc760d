"""Layer 5. `ctx` and `ctx.storage`: what does an object of Cloudflare's know, keep, and ask of its runtime?"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.dates import Date
from wakeful.compat.workers.events import Hosted, ObjectEvents, current_event
from wakeful.compat.workers.failures import JsException, JsTypeError, reset_error
from wakeful.compat.workers.ids import DurableObjectId
from wakeful.compat.workers.sockets import Sockets, WebSocket, WebSocketRequestResponsePair
from wakeful.compat.workers.sync_storage import KvStorage, SqlStorage, list_options, take_refusal
from wakeful.compat.workers.values import Map, Promise, Settled, dress, key_of, option_of, plain, result_of, start_task
from wakeful.runtime.events_turn import StandingTurn
from wakeful.runtime.gates import Gated
from wakeful.runtime.storage import Storage as Rows
from wakeful.runtime.turn import RefusedWrite, Turn
from wakeful.values.errors import NoAlarmHandler
from wakeful.values.timers import ALARM
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime


# `ctx.storage`: Cloudflare's storage and alarm methods on Wakeful's turns.
#
# All events of an object, and what outlives them, write into the one turn that it has while it is awake.

LATEST_MS = 9_223_372_036_854  # what nanoseconds in 64 bits can hold, which is what the runtime there keeps


class EventRows(Rows):
    """The rows as the events of an object see them, whoever asks."""

    __slots__ = ("_standing",)

    def __init__(self, state: ObjectEvents) -> None:
        super().__init__(state._activation)
        self._standing = state.turn

    def _turn(self) -> Turn:
        self._standing.check_open()
        return self._standing

    _writing_turn = _turn


class Storage:
    """The rows and the alarm of one object, by the names that Cloudflare's have."""

    def __init__(self, state: ObjectEvents) -> None:
        self._state = state
        self._activation = state._activation
        self._rows = EventRows(state)
        self._open: list[Transaction] = []

    # rows

    def get(self, key: Any, options: Any = None, **named: Any) -> Awaitable[Any]:
        """The value of a key, None when there is none; of several keys a map of those that exist."""
        return self._reading(lambda: self._get(key, option_of(options, named, "get()")))

    def put(self, key: Any, value: Any = None, options: Any = None, **named: Any) -> Awaitable[None]:
        """Store a value under a key, or all the entries of a mapping."""
        if isinstance(key, Mapping):
            if value is not None and not isinstance(value, Mapping):
                return Settled(error=JsTypeError("put() takes a key and its value, or one mapping of entries"))
            return self._writing(lambda: self._put(key, option_of(value, named, "put()")))
        return self._writing(lambda: self._put({key_of(key, "put()"): value}, option_of(options, named, "put()")))

    def delete(self, key: Any, options: Any = None, **named: Any) -> Awaitable[Any]:
        """Remove a key: whether it was there; or several: how many were."""
        return self._writing(lambda: self._delete(key, option_of(options, named, "delete()")))

    def list(self, options: Any = None, **named: Any) -> Awaitable[Map]:
        """The entries in the order of their keys: `prefix`, `start`, `startAfter`, `end`, `reverse`, `limit`."""
        return self._reading(lambda: self._list(option_of(options, named, "list()")))

    def deleteAll(self, options: Any = None, **named: Any) -> Awaitable[None]:  # noqa: N802
        """Remove every key; the alarm too where the compatibility date says so."""
        return self._writing(lambda: self._delete_all(option_of(options, named, "deleteAll()")))

    def sync(self) -> Awaitable[None]:
        """Wait until everything written so far is on disk."""
        return Promise(self._sync)

    def transaction(self, closure: Callable[["Transaction"], Any]) -> Awaitable[Any]:
        """Run the closure: if it raises or says `txn.rollback()`, nothing that it wrote has happened."""
        return self._state.doing(lambda: self._transaction(closure))

    def transactionSync(self, closure: Callable[[], Any]) -> Any:  # noqa: N802
        """The same for a closure that does not wait for anything."""
        with self._state.inside("transactionSync()") as turn:
            txn = Transaction(self, turn)
            try:
                result = closure()
            except BaseException:
                txn.end(keeps=False)
                raise
            txn.end(keeps=True)
            return result

    # the alarm

    def getAlarm(self, options: Any = None, **named: Any) -> Awaitable[int | None]:  # noqa: N802
        """The time that is set, in milliseconds; None when none is, or while its handler runs."""
        return self._reading(lambda: self._get_alarm(option_of(options, named, "getAlarm()")))

    def setAlarm(self, time: Any = None, options: Any = None, **named: Any) -> Awaitable[None]:  # noqa: N802
        """Run `alarm` then, instead of whenever it was set for before."""
        return self._writing(lambda: self._set_alarm(time, option_of(options, named, "setAlarm()")))

    def deleteAlarm(self, options: Any = None, **named: Any) -> Awaitable[None]:  # noqa: N802
        """No alarm any more; inside the handler no retry of it either."""
        return self._writing(lambda: self._delete_alarm(option_of(options, named, "deleteAlarm()")))

    # without waiting

    @property
    def sql(self) -> SqlStorage:
        """The object's own database."""
        return SqlStorage(self._activation, self._state.inside)

    @property
    def kv(self) -> KvStorage:
        """The rows, for code that does not wait."""
        return KvStorage(self._activation, self._rows, self._state.inside)

    # points in time

    def getCurrentBookmark(self) -> Awaitable[str]:  # noqa: N802
        """What the object is now, to be gone back to; bookmarks compare in the order of time."""
        return Promise(self._bookmark)

    def getBookmarkForTime(self, time: Any) -> Awaitable[str]:  # noqa: N802
        """What it was then."""
        return self._reading(
            lambda: self._bookmarks.bookmark(self._activation, to_datetime(alarm_time(time, "getBookmarkForTime()")))
        )

    def onNextSessionRestoreBookmark(self, bookmark: Any) -> Awaitable[str]:  # noqa: N802
        """When this event ends, or is aborted, it is as it was then, and is made anew; the answer undoes that."""
        return Promise(lambda: self._restore(bookmark))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"storage.{name} is not here; docs/cloudflare.md says what is, and what to use instead")

    # how each is done inside a turn

    async def _get(self, key: Any, options: dict[str, Any]) -> Any:
        if _is_many(key):
            found = await self._rows.get_many([key_of(one, "get()") for one in key])
            return Map({name: dress(value) for name, value in found.items()})
        return dress(await self._rows.get(key_of(key, "get()")))

    def _put(self, entries: Mapping[Any, Any], options: dict[str, Any]) -> Awaitable[Any]:
        made = {key_of(key, "put()"): plain(value) for key, value in entries.items()}
        return self._settle_write(self._rows.put_many(made))

    def _delete(self, key: Any, options: dict[str, Any]) -> Awaitable[Any]:
        if _is_many(key):
            return self._settle_write(self._rows.delete_many([key_of(one, "delete()") for one in key]))
        return self._settle_write(self._rows.delete(key_of(key, "delete()")))

    async def _list(self, options: dict[str, Any]) -> Map:
        rows = await self._rows.list(**list_options(options))
        return Map({name: dress(value) for name, value in rows.items()})

    def _delete_all(self, options: dict[str, Any]) -> Awaitable[Any]:
        if self._open:
            raise JsException("deleteAll() can't be part of a transaction")
        return self._settle_write(self._rows.delete_all(keep_alarm=not self._state.hosted.deletes_alarm))

    @property
    def _bookmarks(self) -> Any:
        return self._activation.node.features["history"]

    async def _bookmark(self) -> str:
        await self._sync()
        mark: str = await self._state.within(lambda: self._bookmarks.bookmark(self._activation, None))
        return mark

    async def _restore(self, bookmark: Any) -> str:
        await self._sync()  # what the event wrote so far is what its undoing brings back
        is_timer = ALARM in self._turn().beside.ringing  # which would be due again
        mark: str = await self._state.within(
            lambda: self._bookmarks.restore(self._activation, bookmark, timers=not is_timer)
        )
        current_event().wants_back = True
        return mark

    async def _sync(self) -> None:
        self._state.check()
        await self._turn().leave()

    async def _transaction(self, closure: Callable[["Transaction"], Any]) -> Any:
        turn = self._turn()
        async with turn.gate.enter() as section:
            await turn.flush_whole(within=True)
            self._state.check()
            txn = Transaction(self, turn)
            try:
                try:
                    result = await result_of(closure(txn))
                finally:
                    await section.close()
                self._state.check()
            except BaseException:
                txn.end(keeps=False)
                raise
            txn.end(keeps=True)
            return result

    async def _get_alarm(self, options: dict[str, Any]) -> int | None:
        turn = self._turn()
        timer = turn.timers[ALARM] if ALARM in turn.timers else self._activation.timers.get(ALARM)
        running = turn.beside.ringing.get(ALARM)
        if timer is None or (running and (running.seq, running.attempt) == (timer.seq, timer.attempt)):
            return None
        return timer.nominal_at

    def _set_alarm(self, time: Any, options: dict[str, Any]) -> Awaitable[Any]:
        at = alarm_time(time)
        try:
            return self._settle_write(self._rows.set_alarm(at))
        except NoAlarmHandler:
            raise JsTypeError("setAlarm(): the class has no alarm() to run") from None

    def _delete_alarm(self, options: dict[str, Any]) -> Awaitable[Any]:
        return self._settle_write(self._rows.delete_alarm())

    # where it is done

    def _turn(self) -> StandingTurn:
        return self._state.turn

    def _reading(self, read: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        return self._state.reading(read)

    def _writing(self, write: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        return self._state.writing(write)

    def _settle_write(self, done: Awaitable[Any]) -> Awaitable[Any]:
        """A write that Wakeful refused is an error for whoever awaits it, and for nobody else."""
        return Settled(error=take_refusal(done)) if isinstance(done, RefusedWrite) else done


class Transaction(Storage):
    """What a transaction's closure is given: the same methods, until it ends, and `rollback`."""

    def __init__(self, storage: Storage, turn: Turn) -> None:
        super().__init__(storage._state)
        self._open = storage._open
        self._saved_in: Turn | None = turn  # None once it is over
        self._ended = ""
        turn.save()
        self._open.append(self)

    def rollback(self) -> None:
        """Nothing that it wrote has happened."""
        if self._ended == "committed":
            raise JsException("rollback(): the transaction was committed already")
        if self._saved_in is not None and self._open[-1] is not self:
            raise JsException("rollback(): a transaction inside this one is still running")
        self.end(keeps=False)

    def end(self, *, keeps: bool) -> None:
        turn, self._saved_in = self._saved_in, None
        if turn is None:
            return
        self._open.remove(self)
        self._ended = "committed" if keeps else "rolled back"
        if keeps:
            turn.release()
        elif not turn.is_over:
            turn.restore()

    def _turn(self) -> StandingTurn:
        if self._ended:
            raise JsException(f"the transaction was {self._ended}; what belongs to it must happen inside its closure")
        return super()._turn()

    def _reading(self, read: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        self._turn()
        return super()._reading(read)

    def _writing(self, write: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        try:
            self._turn()
        except JsException as error:
            return Settled(error=error)
        return super()._writing(write)


def _is_many(key: Any) -> bool:
    return isinstance(key, Iterable) and not isinstance(key, str | bytes | bytearray)


def alarm_time(time: Any, what: str = "setAlarm()") -> int:
    """The instant, in whole milliseconds, that somebody means: for an alarm, or a point in time."""
    if isinstance(time, datetime):
        time = time.timestamp() * 1000
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise JsTypeError(f"{what} takes milliseconds or a datetime, not {type(time).__name__}")
    if not math.isfinite(time):
        raise JsTypeError(f"{what}: {time} is no time")
    if time > LATEST_MS:
        raise JsTypeError(f"{what}: {time} is too far ahead; the latest is {LATEST_MS}")
    if int(time) <= 0:
        raise JsTypeError(f"{what}: {time} is not after 1970-01-01")
    return int(time)


async def _wait_for(work: Awaitable[Any]) -> Any:
    return await work


SOCKET_EVENT_MS_MAX = 604_800_000  # a week, as there
BLOCK_S = 30.0  # what blockConcurrencyWhile may take, as there


class State(ObjectEvents):
    """Handed to the constructor: `id`, `storage`, `blockConcurrencyWhile`, `waitUntil`, `abort` and the sockets."""

    def __init__(self, activation: "ObjectRuntime", hosted: Hosted, id: DurableObjectId, turn: StandingTurn) -> None:
        super().__init__(activation, hosted, turn)
        self.id = id
        self.storage = Storage(self)
        self.sockets = Sockets(self)
        self.props: dict[str, Any] = {}
        self.exports: Any = hosted.env._exports

    def blockConcurrencyWhile(self, callback: Callable[[], Any]) -> Awaitable[Any]:  # noqa: N802  the name there
        """Run the callback with no other event in between; if it raises, the object is reset."""
        return self.doing(lambda: self._block(callback))

    def waitUntil(self, work: Any) -> None:  # noqa: N802  the name there
        """Let the work go on after the answer, and keep the object awake for it; its failure is nobody's."""
        if not isinstance(work, Awaitable):
            return
        activation = self._activation
        activation.hold_awake()

        async def waiting() -> None:
            try:
                await Gated(self.gate, _wait_for(work))
            finally:
                activation.let_sleep()

        self.hosted.beside.add(activation, start_task(waiting(), activation.node.keep, f"waitUntil of {activation.id}"))

    def abort(self, reason: Any = None, options: Any = None, **named: Any) -> None:
        """Reset the object: its memory and what it has not stored are gone, and whoever waits is told the reason."""
        given = option_of(options, named, "abort()")
        text = "the object reset itself with abort()" if reason is None else str(reason)
        raise self.reset(reset_error(text), retries=bool(given.get("retryAlarm", True)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ctx.{name} is not here; docs/cloudflare.md says what is, and what to use instead")

    # sockets

    def acceptWebSocket(self, socket: Any, tags: Iterable[str] | None = None) -> None:  # noqa: N802  the name there
        """Take one end of a pair, with tags to find it by; it outlives the object's sleep."""
        self.sockets.accept(socket, tags)

    def getWebSockets(self, tag: str | None = None) -> list[WebSocket]:  # noqa: N802  the name there
        """The sockets that are there, or those with the tag."""
        return self.sockets.all(tag)

    def getTags(self, socket: WebSocket) -> list[str]:  # noqa: N802  the name there
        return self.sockets.tags(socket)

    def setWebSocketAutoResponse(self, pair: WebSocketRequestResponsePair | None = None) -> None:  # noqa: N802
        """Have that text answered without waking the object; None ends it."""
        if pair is not None and not isinstance(pair, WebSocketRequestResponsePair):
            raise JsTypeError("setWebSocketAutoResponse() takes a WebSocketRequestResponsePair")
        self.sockets.auto = pair
        self.doing(lambda: self.sockets.set_auto(pair))

    def getWebSocketAutoResponse(self) -> WebSocketRequestResponsePair | None:  # noqa: N802  the name there
        return self.sockets.auto

    def getWebSocketAutoResponseTimestamp(self, socket: WebSocket) -> Date | None:  # noqa: N802  the name there
        """When the client had the automatic answer last, as this event found it; None if it never did."""
        found = self.sockets.answered_at(socket)
        return None if found is None else Date.new(found)

    def setHibernatableWebSocketEventTimeout(self, ms: int | None = None) -> None:  # noqa: N802  the name there
        """Let a handler of a socket run for so long and no longer; 0 or None ends that."""
        if ms is not None and (isinstance(ms, bool) or not isinstance(ms, int)):
            raise JsTypeError("setHibernatableWebSocketEventTimeout() takes whole milliseconds")
        if ms is not None and not 0 <= ms <= SOCKET_EVENT_MS_MAX:
            raise JsException(f"setHibernatableWebSocketEventTimeout() takes 0 to {SOCKET_EVENT_MS_MAX} milliseconds")
        self.sockets.set_limit(ms or None)

    def getHibernatableWebSocketEventTimeout(self) -> int | None:  # noqa: N802  the name there
        limit_s = self.sockets.limit_s
        return None if limit_s is None else round(limit_s * 1000)

    async def _block(self, callback: Callable[[], Any]) -> Any:
        if not callable(callback):
            raise JsTypeError("blockConcurrencyWhile() takes a function")
        turn = self.turn
        self.check()
        async with self.gate.enter() as section:
            await turn.flush_whole(within=True)
            self.check()
            turn.save()
            try:
                try:
                    async with asyncio.timeout(BLOCK_S) as limit:
                        result = await result_of(callback())
                finally:
                    await section.close()
                self.check()
            except BaseException as error:
                if turn.is_over:
                    raise
                turn.restore()
                if not isinstance(error, Exception):
                    raise
                words = f"blockConcurrencyWhile() took longer than {BLOCK_S:.0f} s; the object was reset"
                raise self.reset(reset_error(words) if limit.expired() else error) from None
            turn.release()
            return result
