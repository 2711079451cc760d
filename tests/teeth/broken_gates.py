"""Hosted objects with mistakes in their gates."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from tests.teeth.broken import swapped
from wakeful.compat.workers import host, web
from wakeful.compat.workers.rpc import Loan
from wakeful.runtime.beside import BesideEvents, StandingTurn
from wakeful.runtime.gates import InputGate


def what_leaves_waits_for_nothing() -> Any:
    """A call goes out while what it rests on is on its way to disk."""

    def make(leave: Any) -> Any:
        async def broken(self: StandingTurn) -> None:
            self.touch()

        return broken

    return swapped(StandingTurn, "leave", make)


def the_gate_is_always_open() -> Any:
    """Events begin and go on whatever is under way."""

    def make(is_open: Any) -> Any:
        def broken(self: InputGate) -> bool:
            return True

        return property(broken)

    return swapped(InputGate, "is_open", make)


def reads_leave_the_gate_open() -> Any:
    """Another event may write between a read and what follows from it."""

    def make(is_open: Any) -> Any:
        def broken(self: InputGate) -> bool:
            return not self.is_entered

        return property(broken)

    return swapped(InputGate, "is_open", make)


def a_lent_function_answers_at_once() -> Any:
    """It is heard while what it wrote is on its way to disk."""

    def make(answer: Any) -> Any:
        async def broken(self: Loan, *given: Any) -> Any:
            turn, self._turn = self._turn, SimpleNamespace(leave=AsyncMock())
            try:
                return await answer(self, *given)
            finally:
                self._turn = turn

        return broken

    return swapped(Loan, "_answer", make)


def data_is_taken_for_a_loan() -> Any:
    """What somebody sends as data becomes a stub, if it looks like one."""

    def make(pack: Any) -> Any:
        def broken(value: Any, what: str, freight: Any = web.NO_FREIGHT) -> Any:
            found = pack(value, what, freight)
            return found["value"] if type(found) is dict and found.get(web._KIND) == "data" else found

        return broken

    return swapped(host, "pack", make)


def a_raise_undoes() -> Any:
    """As in a turn: what the event wrote last goes with the raise, while memory stays."""

    def make(settle: Any) -> Any:
        async def broken(self: BesideEvents, turn: StandingTurn) -> Any:
            turn.begin_anew(turn.timers)
            return await settle(self, turn)

        return broken

    return swapped(BesideEvents, "_settle_writes", make)


def memory_outlives_a_refused_commit() -> Any:
    """The live copy goes on as if its commit were on disk."""

    def make(fail: Any) -> Any:
        def broken(self: BesideEvents, failure: Any) -> None:
            return

        return broken

    return swapped(BesideEvents, "fail", make)


def a_caller_that_gives_up_takes_its_event_along() -> Any:
    """As in a plain coroutine."""

    def make(start: Any) -> Any:
        def broken(self: BesideEvents, call: Any) -> None:
            start(self, call)
            task = call.task
            call.answer.add_done_callback(lambda answer: answer.cancelled() and task.cancel())

        return broken

    return swapped(BesideEvents, "start", make)
