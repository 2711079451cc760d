"""How long is the event loop held? The processor time of its longest step, and of what a thread does without letting go.

A step is one callback, of a task or not: nobody else goes on before it ends. What is moved into a thread lets the loop go
on between two instructions of Python, and not within one call of C (a decoder, a sort) nor while garbage is collected:
those hold the interpreter. So both are measured, and the longer counts.

Time is that of the thread's own processor, and still a busy machine has caches and clocks that others spoil. So it is
counted in the time of a fixed piece of work that is measured right before and right after: a calm machine does
it in `PIECE_MS`.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

PIECE_MS = 7.0  # of `_piece`, on a machine that counts to a million in 20 ms, as the one of `cost.py` does


class Held:
    """The longest step of the loop and the longest hold of a thread, in milliseconds of a calm machine, with a name."""

    def __init__(self) -> None:
        self.step_ms = 0.0
        self.step = ""
        self.thread_ms = 0.0
        self.thread = ""
        self.slowness = 1.0

    @property
    def ms(self) -> float:
        return max(self.step_ms, self.thread_ms)

    @property
    def what(self) -> str:
        return self.step if self.step_ms >= self.thread_ms else f"in a thread: {self.thread}"

    def forget(self) -> None:
        """Begin anew."""
        self.__init__()  # type: ignore[misc]

    def _stepped(self, ms: float, handle: asyncio.Handle) -> None:
        if ms > self.step_ms:
            self.step_ms, self.step = ms, repr(handle)[:200]

    def _threaded(self, ms: float, name: str) -> None:
        if ms > self.thread_ms:
            self.thread_ms, self.thread = ms, name

    def _calm(self, slowness: float) -> None:
        self.slowness = slowness
        self.step_ms /= slowness
        self.thread_ms /= slowness


@contextmanager
def held() -> Iterator[Held]:
    """Measures while the block lasts; threads only if they begin in it."""
    found = Held()
    with _steps(found), _calls(found), _garbage(found):
        yield found


def unwatched() -> ThreadPoolExecutor:
    """A thread that no `held` looks at, if it is made before: what is done in it takes no longer than usual."""
    made = ThreadPoolExecutor(1)
    made.submit(int).result()
    return made


def slowness() -> float:
    """How many times slower than a calm machine this one is, just now; never less than one."""
    return max(1.0, min(_piece() for _ in range(3)) / PIECE_MS)


def _piece() -> float:
    """Milliseconds of some work like ours: calls, small objects, a list and a dict."""
    gc.disable()
    begun = time.thread_time()
    made = {}
    for number in range(20_000):
        made[str(number)] = [number]
    sum(len(one) for one in made.values())
    took = time.thread_time() - begun
    gc.enable()
    return took * 1_000


@contextmanager
def _steps(found: Held) -> Iterator[None]:
    """Every callback of every loop."""
    run: Callable[[Any], Any] = asyncio.Handle._run

    def measured(self: asyncio.Handle) -> Any:
        begun = time.thread_time()
        try:
            return run(self)
        finally:
            found._stepped((time.thread_time() - begun) * 1_000, self)

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


@contextmanager
def _calls(found: Held) -> Iterator[None]:
    """Every call of C in a thread that begins here, up to its end or to where it calls Python again."""
    local = threading.local()

    def look(frame: FrameType, event: str, thing: Any) -> None:
        begun = getattr(local, "begun", None)
        if begun is not None:
            found._threaded((time.thread_time() - begun) * 1_000, local.name)
        local.begun = time.thread_time() if event == "c_call" else None
        local.name = getattr(thing, "__qualname__", "")

    threading.setprofile(look)
    try:
        yield
    finally:
        threading.setprofile(None)


@contextmanager
def _garbage(found: Held) -> Iterator[None]:
    """Collections of garbage, in whichever thread: that of the loop has them in its step already."""
    begun = 0.0

    def look(phase: str, about: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.thread_time()
        else:
            found._threaded((time.thread_time() - begun) * 1_000, f"garbage of generation {about['generation']}")

    gc.callbacks.append(look)
    try:
        yield
    finally:
        gc.callbacks.remove(look)
