"""Methods in threads, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.teeth.broken import swapped
from wakeful.executors.method_thread import MethodThread
from wakeful.executors.permits import Permits
from wakeful.executors.worker_processes import WorkerProcess
from wakeful.runtime.activation import Activation


def objects_do_not_wait_for_code_that_lingers() -> Any:
    """The next turn begins while code of the last still runs."""
    return swapped(Activation, "linger", lambda linger: lambda self, work: None)


def threads_have_no_bound() -> Any:
    def make(init: Any) -> Any:
        def broken(self: Permits, limit: int, holders: Any) -> None:
            init(self, 1_000, holders)

        return broken

    return swapped(Permits, "__init__", make)


def code_of_a_turn_that_is_over_is_still_answered() -> Any:
    """As if nothing had happened."""

    def make(run: Any) -> Any:
        def broken(self: MethodThread, work: Any) -> Any:
            return None if self.is_cut else run(self, work)

        return broken

    return swapped(MethodThread, "run", make)


def those_who_are_waited_for_wait_in_line() -> Any:
    """Also when who waits for them has the last thread."""

    def make(take: Any) -> Any:
        async def broken(self: Permits, turn: Any) -> Any:
            chain, turn.chain = turn.chain, turn.chain[-1:]
            try:
                async with asyncio.timeout(5):
                    return await take(self, turn)
            finally:
                turn.chain = chain

        return broken

    return swapped(Permits, "take", make)


def who_stands_before_one_of_them_waits_on() -> Any:
    return swapped(Permits, "hurry", lambda hurry: lambda self, object_id: None)


def _a_process_in_the_middle_of_a_method_is_taken_for_free() -> Any:
    """And what it says of that method for what the next one says."""
    return swapped(WorkerProcess, "is_free", lambda is_free: property(lambda self: self._process.is_alive()))


def what_can_not_be_read_ends_the_conversation() -> Any:
    """Instead of being an error for whoever asked."""

    def make(reply: Any) -> Any:
        def broken(self: WorkerProcess, ctx: Any, read: Any) -> None:
            found = read()
            reply(self, ctx, lambda: found)

        return broken

    with_it = swapped(WorkerProcess, "_reply", make)
    return _both(with_it, _a_process_in_the_middle_of_a_method_is_taken_for_free())


@contextmanager
def _both(one: Any, two: Any) -> Iterator[None]:
    with one, two:
        yield
