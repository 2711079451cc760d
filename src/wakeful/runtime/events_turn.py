"""Layer 3. What have the events of an object written that run beside each other, and how does that come to disk?"""

import asyncio
from contextlib import suppress
from contextvars import Context as Variables
from contextvars import ContextVar
from typing import Any, Protocol

from wakeful.runtime.calls import FOREVER_MS
from wakeful.runtime.gates import InputGate
from wakeful.runtime.turn import Turn
from wakeful.values.commits import Slot
from wakeful.values.errors import TurnOver
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

# The objects that led to the event whose code runs.
CHAIN: ContextVar[tuple[ObjectId, ...] | None] = ContextVar("wakeful_event_chain", default=None)


class StandingEvents(Protocol):
    """The events of the object, as their turn sees them (see beside.py)."""

    preparing: asyncio.Lock
    ringing: dict[str, Timer]

    @property
    def activation(self) -> Any: ...

    def became_idle(self) -> None: ...

    def reset(self, error: BaseException) -> None: ...

    async def go_back(self, turn: "StandingTurn", error: BaseException) -> None: ...


class StandingTurn(Turn):
    """What the events of an awake object have written and is not on its way to disk yet; it goes on when that is."""

    __slots__ = ("_is_asked", "_line", "beside", "failure", "gate", "goer", "is_going_back", "seen", "works")

    is_standing = True

    def __init__(self, beside: StandingEvents) -> None:
        activation = beside.activation
        super().__init__(activation, (activation.id,), activation.node.clock.now() + FOREVER_MS)
        self.beside = beside
        self.gate = InputGate(self.touch)
        self.failure: BaseException | None = None  # why it is over
        self.seen: dict[Slot, bytes] = {}  # to be written with whatever is written next
        self.is_going_back = False  # its next commit is what the object was
        self.goer: asyncio.Task[Any] | None = None  # whose event wanted that, and has ended well
        self.works: set[asyncio.Task[Any]] = set()  # sections and the like that its events have begun
        self._is_asked = False
        self._line = asyncio.Lock()  # of those who leave: in the order in which they came

    @property
    def path(self) -> tuple[ObjectId, ...]:
        return CHAIN.get() or self.chain

    @property
    def is_pending(self) -> bool:
        """Something is to be committed when the event loop comes round."""
        return self._is_asked

    def check_open(self) -> None:
        if self.is_over:
            raise self.failure or TurnOver(f"{self.activation.id}: it sleeps or has moved; call it again")

    def touch(self) -> None:
        """Something was written: commit it when the code that runs now lets others go on."""
        if not self._is_asked and not self.is_over:
            self._is_asked = True
            asyncio.get_running_loop().call_soon(self._on_asked, context=Variables())

    def _on_asked(self) -> None:
        if self.activation.history is not None and not self.is_over:
            task = asyncio.get_running_loop().create_task(self._flush_quietly(), context=Variables())
            self.activation.node.keep(task)
            return
        self._is_asked = False
        with suppress(Exception):  # who waits for it is told
            self.flush()
        self.beside.became_idle()

    async def _flush_quietly(self) -> None:
        try:
            with suppress(Exception):
                await self.flush_whole()
        finally:
            self._is_asked = False
            self.beside.became_idle()

    def flush(self, *, within: bool = False) -> None:
        """Send what was written on its way to disk; what a section holds back goes when that is left.

        `within` one that has just been entered: what was written before it goes now.
        """
        if self.is_over or self.saved or (self.gate.is_entered and not within):
            return
        activation = self.beside.activation
        try:
            if self.refused:
                raise self.refused[0].error
            if self.sql_writes:
                self.collect_pages()
            if self.seen and not self.is_clean:
                self.writes.update(self.seen)
                self.seen = {}
            commit = self.take_commit(final=False)
            if commit is not None:
                activation.submit(commit)
            if self.then:
                activation.follow(self)
        except Exception as error:
            self.beside.reset(error)
            raise

    async def flush_whole(self, *, within: bool = False) -> None:
        """The same where what it changes may have to be read first."""
        history = self.activation.history
        if history is None:
            self.flush(within=within)
            return
        async with self.beside.preparing:
            try:
                timers: set[str] | None = None
                while not self.is_over and not self.saved and timers != set(self.timers):
                    timers = set(self.timers)
                    await history.prepare(self, "an event", is_final=False)
            except Exception as error:
                self.beside.reset(error)
                raise
            self.flush(within=within)

    async def leave(self) -> None:
        """Until all that was written so far is on disk; of a section only what was written before it."""
        # In a task of its own: the gate may close on who leaves, and it must not hold the line then.
        await asyncio.shield(asyncio.get_running_loop().create_task(self._leave()))

    async def _leave(self) -> None:
        await self.gate.wait()
        async with self._line:
            self.check_open()
            await self.flush_whole()
        while self.gate.is_entered and not self.gate.is_open and not self.is_over:
            await self.gate.wait()  # a section began meanwhile, and what was written before it may not be on its way
            await self.flush_whole()
        await self.activation.settle()
        self.check_open()
