"""Methods in threads, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.executors.method_thread import MethodThread
from wakeful.executors.method_threads import MethodThreads
from wakeful.runtime.activation import Activation


def objects_do_not_wait_for_code_that_lingers() -> Any:
    """The next turn begins while code of the last still runs."""
    return swapped(Activation, "linger", lambda linger: lambda self, work: None)


def threads_have_no_bound() -> Any:
    def make(init: Any) -> Any:
        def broken(self: MethodThreads, limit: int) -> None:
            init(self, limit)
            self._free = asyncio.Semaphore(1_000)

        return broken

    return swapped(MethodThreads, "__init__", make)


def code_of_a_turn_that_is_over_is_still_answered() -> Any:
    """As if nothing had happened."""

    def make(run: Any) -> Any:
        def broken(self: MethodThread, work: Any) -> Any:
            return None if self.is_cut else run(self, work)

        return broken

    return swapped(MethodThread, "run", make)


def those_who_are_waited_for_wait_in_line() -> Any:
    """Also when who waits for them has the last thread."""

    def make(run: Any) -> Any:
        async def broken(self: MethodThreads, turn: Any, code: Any) -> Any:
            async with asyncio.timeout(5):
                await self._free.acquire()
            try:
                return await self.run_beyond(turn, code, on_cut=lambda: None)
            finally:
                self._free.release()

        return broken

    return swapped(MethodThreads, "run", make)
