"""Layer 5. How does code that does not await run what does? In a loop of its own, on a thread of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from wakeful.values.errors import BadOption, NotRunning

R = TypeVar("R")
STOP_S = 10.0  # what open connections are given at the end


class BlockingClient:
    """What is asked, and the loop that it is asked in."""

    def __init__(self, inner: Any, thread: "LoopThread") -> None:
        self._inner = inner
        self._thread = thread

    def _call(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._thread.run(method(self._inner, *args, **kwargs))


class LoopThread:
    """A loop on a thread, which begins when there is something to run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_over = False

    def run(self, way: Coroutine[Any, Any, R]) -> R:
        """What it gives, once it is done; raises in the caller's thread what it raises there."""
        try:
            self._check()
            loop = self._ready()
        except BaseException:
            way.close()
            raise
        future = asyncio.run_coroutine_threadsafe(way, loop)
        try:
            return future.result()
        except CancelledError:
            raise NotRunning(
                "this client was closed before the answer came; whether it was done is unknown", code="client.closed"
            ) from None
        except BaseException:
            future.cancel()  # somebody pressed ^C: nobody waits for it any more
            raise

    def end(self, last: Coroutine[Any, Any, Any]) -> None:
        """Run that, then end what still runs, the loop and the thread; once."""
        with self._lock:
            is_over, self._is_over = self._is_over, True
            loop, thread = self._loop, self._thread
        if is_over or loop is None or thread is None or self._pid != os.getpid() or not thread.is_alive():
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_wind_up(last), loop)
        thread.join(STOP_S)

    def _check(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise BadOption(
            "a blocking call would stop the event loop that runs here; use `async with Client(…)` and await",
            code="client.blocking",
        )

    def _ready(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_over:
                raise NotRunning("this client is closed; make another", code="client.closed")
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="wakeful-client", daemon=True)
                self._thread.start()
            if self._pid != os.getpid():
                raise NotRunning(
                    "this client was used before the process forked, and its connections stayed there; make one after "
                    "the fork",
                    code="client.fork",
                )
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _wind_up(last: Coroutine[Any, Any, Any]) -> None:
    """What is under way is cancelled, and those who wait for it hear of it."""
    try:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last
        await asyncio.sleep(0)  # transports close in the next pass
    finally:
        asyncio.get_running_loop().stop()
