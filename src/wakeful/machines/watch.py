"""Layer 4. One who watches a machine: what is it now, when will it be so, and how is it sent events?

The same in the program (`app.watch`) and over HTTP (`client.watch`): where the news come from, and how an event gets there, is
given. News are read when somebody asks for them; several tasks may, and whoever gives up takes nothing away from the others.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from wakeful.machines.snapshot import Snapshot
from wakeful.machines.watchers import News
from wakeful.values.errors import BadOption, Conflict, DeadlineExceeded, NotRunning
from wakeful.values.times import Duration, duration_ms

AHEAD_MAX = 1_000  # news that others read while whoever iterates was busy; the oldest go first
ENDED = ("done", "error", "stopped")
CLOSED = "watch.closed"

Wanted = str | Mapping[str, Any] | Callable[[Snapshot], bool]
Source = Callable[[], AsyncGenerator[News]]
Deliver = Callable[[str | Mapping[str, Any], dict[str, Any]], Awaitable[Snapshot | None]]


class Watch:
    """Snapshots and emitted events as they come, by `async for`; the last snapshot; waiting for a state; sending.

    >>> from wakeful import App, Machine
    >>> app = App()
    >>> @app.object
    ... class Order(Machine):
    ...     chart = {"initial": "placed", "states": {"placed": {"on": {"PAY": "paid"}}, "paid": {"after": {"1h": "sent"}}, "sent": {}}}
    >>> async with app.world() as world, app.watch(Order, "1") as order:
    ...     await order.send("PAY")
    ...     print((await order.wait_for("sent", timeout="2h")).value)
    sent
    """

    def __init__(self, what: str, source: Source, deliver: Deliver) -> None:
        self._what = what
        self._source = source
        self._deliver = deliver
        self._news: AsyncGenerator[News] | None = None
        self._reading: asyncio.Task[News] | None = None
        self._ahead: deque[News] | None = None  # once somebody iterates
        self._waiting = 0  # who wait for what is being read
        self._told: Snapshot | None = None  # the last that was read
        self._is_closed = False
        self.snapshot: Snapshot | None = None
        """The last that is known here, by reading or as the answer to an event; None before the first."""

    async def __aenter__(self) -> "Watch":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> News:
        if self._ahead is None:
            self._ahead = deque(maxlen=AHEAD_MAX)
        try:
            while not self._ahead:
                await self._read()
        except NotRunning as error:
            if error.code != CLOSED:
                raise
            raise StopAsyncIteration from None
        return self._ahead.popleft()

    async def wait_for(self, wanted: Wanted, *, timeout: Duration | None = None) -> Snapshot:
        """The first snapshot that is so, the last known one included: a state (`"paid"`, `"form.address"`, a dict) or a test.

        `DeadlineExceeded` after `timeout`; `Conflict` once the machine has ended otherwise.
        """
        if not isinstance(wanted, str | Mapping) and not callable(wanted):
            raise BadOption(
                f"wait_for takes a state (text or dict) or a function of a snapshot, not {wanted!r}",
                code="watch.wanted",
            )
        until_s = None
        if timeout is not None:
            until_s = asyncio.get_running_loop().time() + duration_ms(timeout, what="timeout") / 1000
        before = self.snapshot
        known: News | None = before
        if before is None:
            known = await self._read(until_s)
        while True:
            if known == before and _is_over(wanted, known):
                known = await self._look(until_s)  # it may have begun anew since
            if _is_over(wanted, known):
                end = f"{self._what} has ended, and will not be {_words(wanted)}; {self._last_words()}"
                raise Conflict(end, code="watch.ended")
            if isinstance(known, Snapshot) and _is_so(wanted, known):
                return known
            if known is not None:
                known = await self._read(until_s)
            if known is None:
                late = f"{self._what} was not {_words(wanted)} within {timeout}; {self._last_words()}"
                raise DeadlineExceeded(late, code="watch.timeout")

    async def send(self, event: str | Mapping[str, Any], /, **data: Any) -> Snapshot | None:
        """Give it an event, as `Machine.send`; how it stands then, None where its class shows this caller nothing."""
        found = await self._deliver(event, data)
        if found is not None:
            self.snapshot = found
        return found

    async def aclose(self) -> None:
        """Watch no more; those who wait for news hear that there are none."""
        self._is_closed = True
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
        await self._drop()

    async def _look(self, until_s: float | None) -> News | None:
        """How it stands now, beside the news that all read; None when that is not there by then."""
        self._check_open()
        news = self._source()
        limit = asyncio.timeout_at(until_s)
        try:
            async with limit:
                piece = await anext(news)
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            await news.aclose()
        if isinstance(piece, Snapshot):
            self.snapshot = piece
        return piece

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotRunning(f"nobody watches {self._what} any more: this watch is closed", code=CLOSED)

    async def _read(self, until_s: float | None = None) -> News | None:
        """The next piece of news, the same for all who wait for it; None when it is not there by then."""
        self._check_open()
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._next())
        reading = self._reading
        left_s = None if until_s is None else max(0.0, until_s - asyncio.get_running_loop().time())
        self._waiting += 1
        try:
            await asyncio.wait({reading}, timeout=left_s)  # whoever has no more time leaves it to the next who asks
        except asyncio.CancelledError:
            if self._waiting == 1:
                reading.cancel()
            raise
        finally:
            self._waiting -= 1
        if not reading.done():
            return None
        if self._reading is reading:
            self._reading = None
        return await self._read(until_s) if reading.cancelled() else reading.result()

    async def _next(self) -> News:
        """Read it. A stream that was given up begins anew with how the machine stands, which may be known."""
        if self._news is None:
            self._news = self._source()
        try:
            piece = await anext(self._news)
            while isinstance(piece, Snapshot) and piece == self._told:
                piece = await anext(self._news)
        except BaseException:
            await self._drop()
            raise
        if isinstance(piece, Snapshot):
            self.snapshot = self._told = piece
        if self._ahead is not None:
            self._ahead.append(piece)
        return piece

    async def _drop(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            await news.aclose()

    def _last_words(self) -> str:
        return "nothing is known of it" if self.snapshot is None else f"it is {self.snapshot.value!r}"


def _is_so(wanted: Wanted, snapshot: Snapshot) -> bool:
    return snapshot.matches(wanted) if isinstance(wanted, str | Mapping) else bool(wanted(snapshot))


def _is_over(wanted: Wanted, known: News | None) -> bool:
    """It has ended otherwise."""
    return isinstance(known, Snapshot) and known.status in ENDED and not _is_so(wanted, known)


def _words(wanted: Wanted) -> str:
    return repr(wanted) if isinstance(wanted, str | Mapping) else "as was waited for"
