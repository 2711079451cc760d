"""Migrations, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.runtime import hibernation as waking
from wakeful.runtime import migration_run
from wakeful.runtime.activation import Activation
from wakeful.runtime.dispatcher import Dispatcher
from wakeful.runtime.migrations import encode_number
from wakeful.runtime.timer_runs import TimerRuns
from wakeful.runtime.turn import Turn
from wakeful.values.commits import MIGRATIONS_SLOT, Commit
from wakeful.values.errors import MigrationFailed


def _count_apart(activation: Activation, number: bytes) -> None:
    commit = Commit(
        id=activation.id,
        shard=activation.shard,
        epoch=activation.epoch,
        now=activation.node.clock.now(),
        puts={MIGRATIONS_SLOT: number},
    )
    activation.submit(commit)


def the_number_goes_by_a_commit_of_its_own() -> Any:
    """Not with what the migrations wrote."""

    def make(migrate: Any) -> Any:
        async def broken(activation: Activation, turn: Turn, *rest: Any) -> None:
            await migrate(activation, turn, *rest)
            _count_apart(activation, turn.writes.pop(MIGRATIONS_SLOT) or b"")

        return broken

    return swapped(waking, "migrate", make)


def a_migration_that_failed_is_counted() -> Any:
    """It is not tried again."""

    def make(run: Any) -> Any:
        async def broken(activation: Activation, turn: Turn, migration: Any, raw: Any) -> None:
            try:
                await run(activation, turn, migration, raw)
            except MigrationFailed:
                _count_apart(activation, encode_number(migration.number))
                raise

        return broken

    return swapped(migration_run, "run_migration", make)


def an_older_program_takes_what_is_newer() -> Any:
    """And writes over it."""
    return swapped(migration_run, "check_number", lambda check: lambda *number: None)


def timers_of_newer_objects_are_tried_again_and_again() -> Any:
    """As if the store were away."""
    return swapped(Dispatcher, "met_newer", lambda met: lambda *newer: None)


def a_timer_that_waits_was_begun() -> Any:
    """Its start note stays, and the next owner takes it for a crash."""

    def make(leave: Any) -> Any:
        def broken(self: TimerRuns, activation: Activation, timer: Any, crashes: int) -> None:
            self._node.dispatcher.leave(timer)

        return broken

    return swapped(TimerRuns, "_leave", make)


def to_look_makes_an_object() -> Any:
    """What migrations wrote for a reader of an object that is nowhere is kept."""
    return swapped(waking, "is_only_migrated", lambda is_only: lambda *turn: False)


def the_state_of_a_migration_is_lost() -> Any:
    """It is typed from what was loaded."""

    def make(run: Any) -> Any:
        async def broken(activation: Activation, turn: Turn, migration: Any, raw: Any) -> None:
            await run(activation, turn, migration, raw)
            raw.go_back(None)

        return broken

    return swapped(migration_run, "run_migration", make)
