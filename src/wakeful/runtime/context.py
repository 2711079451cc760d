"""Layer 3. What does an object know about itself and the world around it?"""

import logging
from collections.abc import Awaitable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.storage import Storage
from wakeful.runtime.turn import CURRENT, running_turn
from wakeful.values.errors import BadOption, TurnOver
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Run
from wakeful.values.times import Duration, to_datetime

T = TypeVar("T")


class Context:
    """Handed to the constructor; the object's way to its storage, the clock and other objects.

    >>> from wakeful import App, Context
    >>> app = App()
    >>> @app.object
    ... class Plain:
    ...     def __init__(self, ctx: Context) -> None:
    ...         self.ctx = ctx
    ...     async def about(self) -> str:
    ...         return f"{self.ctx.id} at {self.ctx.now():%H:%M}"
    >>> async with app.world(start="2026-03-28T12:00Z") as world:
    ...     print(await world.get(Plain, "a").about())
    Plain/a at 12:00
    """

    __slots__ = ("_activation",)

    def __init__(self, activation: ObjectRuntime) -> None:
        self._activation = activation

    @property
    def storage(self) -> Storage:
        """The object's rows and its alarm."""
        return Storage(self._activation)  # one per use: an awake object holds as little as it can

    @property
    def id(self) -> ObjectId:
        return self._activation.id

    @property
    def key(self) -> str:
        return self._activation.id.key

    @property
    def cls(self) -> str:
        """The name that the class is registered under."""
        return self._activation.id.cls

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry the object's id."""
        return logging.LoggerAdapter(logging.getLogger("wakeful.object"), {"object": str(self.id)})

    @property
    def run(self) -> Run | None:
        """The due timer that this turn is; None in a call."""
        turn = CURRENT.get()
        return turn.run if turn is not None else None

    @property
    def job(self) -> Any:
        """The job (`wakeful.Job`) that this turn is; None in a call and in other timers' turns."""
        turn = CURRENT.get()
        if turn is None:
            return None
        if callable(turn.job):
            turn.job = turn.job()
        return turn.job

    @property
    def state(self) -> Any:
        """The typed value that the class declares as `state: …`; saved with the turn if it changed."""
        return self._activation.state.get(self._activation)

    @state.setter
    def state(self, value: Any) -> None:
        self._activation.state.set(self._activation, value)

    @property
    def raw_state(self) -> MutableMapping[str, Any]:
        """In a migration: the stored fields of the state by name, as a mapping that is changed in place.

        They are what is on disk, whatever the class says today; `state` itself is there when the migrations are done.
        """
        return self._activation.state.raw(self._activation)

    @property
    def sql(self) -> Any:
        """`ctx.sql(query, …)`: the object's own database; `DurableObject.sql` with its type."""
        return self._activation.node.features["sql"].of(self._activation)

    def now(self) -> datetime:
        """The deployment's time. Use this instead of `datetime.now()` and tests can move it."""
        return to_datetime(self._activation.node.clock.now())

    def get(self, cls: type[T], key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> T:
        """A stub for another object."""
        return self._activation.node.stub(cls, key, deadline=deadline, request_key=request_key)

    async def commit(self) -> None:
        """Make everything written so far durable now; a later raise undoes only what comes after."""
        turn = CURRENT.get()
        if turn is None or turn.activation is not self._activation:
            raise TurnOver(f"{self.id}: ctx.commit() is for code that runs in a turn of this very object")
        turn.check_writable()
        if turn.saved:
            raise BadOption(
                f"{self.id}: ctx.commit() inside storage.transaction(); commit after it", code="turn.nested"
            )
        await self._activation.commit_now()

    async def bookmark(self, at: datetime | None = None) -> str:
        """The point that the object's last commit made, or its last until then; for classes with `history`.

        What this turn has written so far is not in it. Bookmarks are texts in the order of time.
        """
        mark: str = await self._activation.node.features["history"].bookmark(self._activation, at)
        return mark

    async def restore(self, bookmark: str, *, timers: bool = True) -> str:
        """When this turn ends, the object is as it was at that point, and wakes anew; what the turn wrote is dropped.

        `timers=False` leaves alarm, schedules and delays as they are. The answer is the bookmark with which this is undone.
        """
        mark: str = await self._activation.node.features["history"].restore(self._activation, bookmark, timers=timers)
        return mark

    async def forget(self) -> None:
        """Have this object forgotten once the turn is on disk: rows, timers, jobs, sockets, ledger, name; it begins anew then.

        What the turn writes goes with it; what it sends to others is sent. See docs/howto/forget.md.
        """
        turn = running_turn(self._activation, "ctx.forget()")
        turn.check_writable()
        if not self._activation.is_awake:
            raise BadOption(
                f"{self._activation.id}: ctx.forget() while the object wakes, which it would do again; call it in a method",
                code="turn.waking",
            )
        turn.forget()

    def transaction(self) -> AbstractAsyncContextManager[Storage]:
        """A savepoint inside the turn: a raise undoes the writes, SQL and alarm changes made inside, and only those."""
        return self.storage.transaction()

    async def sockets(self, tag: str | None = None) -> list[Any]:
        """The clients that are connected to this object (`wakeful.Socket`), or those with the tag, oldest first."""
        activation = self._activation
        found: list[Any] = await activation.node.features["sockets"].sockets(activation, tag)
        return found

    async def broadcast(self, message: str | bytes, tag: str | None = None, except_for: Iterable[Any] = ()) -> int:
        """Send to all of them once the turn is on disk; to how many."""
        activation = self._activation
        count: int = await activation.node.features["sockets"].broadcast(activation, message, tag, except_for)
        return count

    async def auto_response(self, request: str | None, response: str | None) -> None:
        """Have that very text of a client answered with this one, without waking the object; None and None: not any more."""
        await self._activation.node.features["sockets"].auto_response(self._activation, request, response)

    def set_alarm(self, when: int | float | datetime | timedelta) -> Awaitable[None]:
        return self.storage.set_alarm(when)

    def get_alarm(self) -> Awaitable[datetime | None]:
        return self.storage.get_alarm()

    def delete_alarm(self) -> Awaitable[None]:
        return self.storage.delete_alarm()


def runtime_of(ctx: Context) -> ObjectRuntime:
    """What a feature works with that was given an object's context."""
    return ctx._activation
