"""What operators are told, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful.cli import program, settings_file
from wakeful.http import health
from wakeful.jobs.runs import JobRuns
from wakeful.runtime import activation
from wakeful.runtime.activation import Activation
from wakeful.runtime.calls import Call, resolve
from wakeful.runtime.lock_watch import LockWatch
from wakeful.runtime.outage import Outage
from wakeful.runtime.standstill import Standstill
from wakeful.runtime.turn import Turn
from wakeful.runtime.underway import Lingering, NodeCalls, _Look
from wakeful.security.reserved import SecurityFeature
from wakeful.store.postgres.wire import ServerLost, ServerWire
from wakeful.transport.addresses import Address
from wakeful.values.ids import ObjectId
from wakeful.views import arguments
from wakeful.views.view import View


def ready_though_a_table_is_locked() -> Any:
    """What was seen of locks is told to nobody."""

    def make(_held: Any) -> Any:
        return property(lambda self: None)

    return swapped(LockWatch, "held_lock", make)


def what_is_dropped_tells_nobody() -> Any:
    """A job that is let go is gone, and those that wait for it wait for ever."""

    async def silent(self: JobRuns, turn: Any, parked: Any) -> None: ...

    return swapped(JobRuns, "on_dropped", lambda _: silent)


def who_may_look_sees_arguments() -> Any:
    """The scope of whoever asks does not matter."""

    def make(original: Any) -> Any:
        def broken(cls: type[View], node: Any, caller: Any) -> View:
            view = original.__func__(cls, node, caller)
            view.shows_arguments = True
            return view

        return classmethod(broken)

    return swapped(View, "for_caller", make)


def a_list_shows_arguments_to_everybody() -> Any:
    """Of one alone they are masked, and of a row in a list they are not."""

    def make(brief: Any) -> Any:
        def broken(view: Any, data: bytes | None) -> Any:
            return brief(SimpleNamespace(shows_arguments=True), data)

        return broken

    return swapped(arguments, "brief", make)


def a_call_that_is_cancelled_goes_on() -> Any:
    """Its caller is told that it was undone, and its turn writes what it wants."""

    def make(_cancel: Any) -> Any:
        def broken(self: Call) -> None:
            self.is_cancelled = True
            if self.answer is not None:
                resolve(self.answer, None, self.too_late())

        return broken

    return swapped(Call, "cancel", make)


def a_call_that_is_cancelled_frees_no_key() -> Any:
    """Its turn is made to end well, with no answer: whoever asks again under its request key is told that, and nothing runs."""

    def make(invoke: Any) -> Any:
        async def gentle(call: Call, awaitable: Any) -> Any:
            try:
                return await awaitable
            except asyncio.CancelledError:
                if not hasattr(call, "is_cancelled"):
                    raise
                call.absorb()
                return None

        return lambda self, call: gentle(call, invoke(self, call))

    return swapped(Activation, "invoke", make)


def a_turn_that_has_ended_is_cancelled() -> Any:
    """Though what it wrote is on its way to disk."""

    def make(cancel: Any) -> Any:
        def broken(self: NodeCalls, target: ObjectId, name: str) -> str:
            call = self._named.get(name)
            if call is None or call not in self._node.deadlines:
                return str(cancel(self, target, name))
            call.cancel()
            return call.method

        return broken

    return swapped(NodeCalls, "cancel", make)


def a_call_is_cancelled_through_any_object() -> Any:
    """Its name is enough, whosever it is."""

    def make(cancel: Any) -> Any:
        def broken(self: NodeCalls, target: ObjectId, name: str) -> str:
            call = self._named.get(name)
            return str(cancel(self, target if call is None else call.chain[-1], name))

        return broken

    return swapped(NodeCalls, "cancel", make)


def a_look_goes_through_the_line_for_each_that_waits() -> Any:
    """As many steps as the square of those that wait."""

    def make(places_in: Any) -> Any:
        def broken(self: Any, activation: Activation) -> Any:
            self._places.clear()
            return places_in(self, activation)

        return broken

    return swapped(_Look, "_places_in", make)


def code_that_lingers_is_nowhere() -> Any:
    """Its object answers nobody, and nothing is under way."""

    def make(under_way: Any) -> Any:
        return lambda self, wanted: (one for one in under_way(self, wanted) if not isinstance(one, Lingering))

    return swapped(_Look, "under_way", make)


def operators_wait_for_slots() -> Any:
    """Behind those that they want to end."""
    return swapped(SecurityFeature, "equip", lambda _: lambda self, node: None)


def what_is_dropped_stays_parked() -> Any:
    """It is said to be gone, and can be redriven all the same."""

    def make(finish: Any) -> Any:
        def broken(self: Activation, turn: Turn) -> int:
            turn.unparks = turn.unparks if turn.timers else []
            return int(finish(self, turn))

        return broken

    return swapped(Activation, "finish", make)


def a_lock_is_known_by_its_table() -> Any:
    """One that is taken again and again counts as one that is held all the time."""

    def make(note: Any) -> Any:
        def broken(self: LockWatch, locks: Any) -> None:
            note(self, [replace(lock, transaction="") for lock in locks])

        return broken

    return swapped(LockWatch, "_note", make)


def ready_says_away_before_it_says_locked() -> Any:
    """Of a store that was given up because of a lock nobody hears that it is one."""

    def make(why: Any) -> Any:
        def broken(home: Any) -> str | None:
            return "the store can't be reached" if home.state == "down" else why(home)

        return broken

    return swapped(health, "_why_not_here", make)


def an_outage_that_a_lock_makes_is_said() -> Any:
    """The log is full of a store that comes and goes, while somebody holds a table."""
    return swapped(Outage, "_is_locked", lambda _: property(lambda self: False))


def a_starved_node_blames_the_store() -> Any:
    """Its own loop is never asked."""
    return swapped(Standstill, "is_to_blame", lambda _: lambda self: False)


def who_was_held_up_once_is_always_to_blame() -> Any:
    """However short it was, and whatever the store did."""
    return swapped(Standstill, "is_to_blame", lambda _: lambda self: self.stood() is not None)


def a_program_gives_up_on_a_store_that_is_away() -> Any:
    """It ends at the first try."""

    def make(come_up: Any) -> Any:
        async def broken(stack: Any, run: Any, say: Any, *, wait_ms: int) -> Any:
            return await come_up(stack, run, say, wait_ms=0)

        return broken

    return swapped(program, "come_up", make)


def a_name_is_right_or_wrong_at_once() -> Any:
    """As an address in numbers is."""
    return swapped(Address, "is_named", lambda _: property(lambda self: False))


def a_host_that_was_demoted_is_kept() -> Any:
    """What it refuses is asked again, on the same connection."""

    def make(meaning: Any) -> Any:
        def broken(self: ServerWire, error: Any, writes: bool) -> Exception:
            if getattr(error, "sqlstate", "") == "25006":
                return ServerLost(f"it can't be written now: {error}")
            found: Exception = meaning(self, error, writes)
            return found

        return broken

    return swapped(ServerWire, "_meaning", make)


def the_file_goes_before_the_environment() -> Any:
    """What both say is as the file says."""

    def make(applied: Any) -> Any:
        @contextmanager
        def broken() -> Iterator[None]:
            file, known = settings_file.read(), settings_file.settings()
            names = [known[key].env for key in file.values] if file is not None else []
            said = {name: os.environ.pop(name) for name in names if name in os.environ}
            with applied():
                yield
            os.environ.update(said)

        return broken

    return swapped(settings_file, "applying", make)


def what_an_object_raised_is_a_fault_of_the_call() -> Any:
    """Nothing tells the answer of its code from what went wrong on the way to it."""
    return swapped(activation, "mark_raised", lambda _: lambda *given: None)
