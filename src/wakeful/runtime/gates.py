"""Layer 3. Which code of an object may run just now, when its events run beside each other?

While a read of its storage is under way, or a section that is to be undisturbed, nothing else of the object begins or
goes on: neither another event nor what comes back into one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Optional


class Section:
    """What is to be undisturbed; one at a time of those right inside has it to itself."""

    def __init__(self, gate: "InputGate", parent: Optional["Section"]) -> None:
        self.gate = gate
        self.parent = parent
        self.inner: Section | None = None  # the one inside it that has it now
        self.line = asyncio.Lock()
        self.is_over = False

    async def close(self) -> None:
        """Wait for what runs inside it; nothing begins there any more."""
        async with self.line:
            self.is_over = True


_INSIDE: ContextVar[Section | None] = ContextVar("wakeful_section", default=None)


class InputGate:
    """The gate of one awake object."""

    def __init__(self, on_left: Callable[[], None] = lambda: None) -> None:
        self._on_left = on_left  # told when no section is under way any more
        self._outermost = Section(self, None)
        self._reads: dict[asyncio.Task[Any] | None, int] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._is_off = False  # its object is no more: nobody is to wait for what never ends

    @property
    def is_entered(self) -> bool:
        """A section is under way."""
        return self._outermost.inner is not None

    @property
    def is_open(self) -> bool:
        """The code that asks may go on."""
        if self._is_off or (not self._reads and self._outermost.inner is None):
            return True
        if self.is_outside:
            return False
        return not self._reads or (len(self._reads) == 1 and asyncio.current_task() in self._reads)

    @property
    def is_outside(self) -> bool:
        """The code that asks belongs to no section, or to one in which another has begun."""
        return self._here().inner is not None

    def take_off(self) -> None:
        self._is_off = True
        self._let_in()

    async def wait(self) -> None:
        """Until the code that asks may go on."""
        while not self.is_open:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around a read of the storage: only who reads goes on meanwhile."""
        task = asyncio.current_task()
        self._reads[task] = self._reads.get(task, 0) + 1
        try:
            yield
        finally:
            self._reads[task] -= 1
            if not self._reads[task]:
                del self._reads[task]
                self._let_in()

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[Section]:
        """A section inside the one that runs this code; it must be `close`d before what was written in it is settled."""
        while True:
            above = self._here()
            async with above.line:
                if above.is_over:
                    continue  # it ended while this waited
                await self._reads_to_end()
                made = above.inner = Section(self, above)
                token = _INSIDE.set(made)
                try:
                    yield made
                finally:
                    _INSIDE.reset(token)
                    made.is_over = True
                    above.inner = None
                    self._let_in()
                    if above is self._outermost:
                        self._on_left()
                return

    async def _reads_to_end(self) -> None:
        """Until no other task reads: one that is at it could not go on beside a section, nor that beside it."""
        while any(task is not asyncio.current_task() for task in self._reads):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _let_in(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _here(self) -> Section:
        found = _INSIDE.get()
        while found is not None and (found.gate is not self or found.is_over):
            found = found.parent
        return found or self._outermost


class Gated:
    """Awaited, it runs a coroutine that goes on after each of its awaits only when the gate lets it."""

    __slots__ = ("_coroutine", "_gate")

    def __init__(self, gate: InputGate, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._gate = gate
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, gate = self._coroutine, self._gate
        error: BaseException | None = None
        try:
            while True:
                try:
                    awaited = coroutine.send(None) if error is None else coroutine.throw(error)
                except StopIteration as done:
                    return done.value
                error = None
                try:
                    yield awaited
                    if not gate.is_open:
                        yield from gate.wait().__await__()
                except GeneratorExit:
                    raise
                except BaseException as thrown:
                    error = thrown
        finally:
            error = None
            coroutine.close()
