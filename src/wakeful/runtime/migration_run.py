"""Layer 3. How does an object that wakes get the migrations that it has not had?

In the turn in which it wakes, before its constructor, `on_wake` and its first typed state: what they wrote, and how many
it has had now, is one commit with what `on_wake` writes, or nothing of it is.
"""

import inspect
from typing import Any, Protocol

from wakeful.runtime.context import Context
from wakeful.runtime.migrations import ObjectMigration, encode_number, number_in
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.state import NO_STATE, RawState, State, UnmigratedState
from wakeful.runtime.turn import Turn
from wakeful.values.commits import MIGRATIONS_SLOT, STATE_SLOT, Loaded
from wakeful.values.errors import MigrationFailed, Unavailable


class MigratedObject(ObjectRuntime, Protocol):
    """One whose state is another thing while it is migrated."""

    state: State


def pending_migrations(activation: ObjectRuntime, loaded: Loaded) -> tuple[ObjectMigration, ...]:
    """Those that it has not had."""
    return activation.known.migrations[number_in(loaded.rows) :]


async def migrate(activation: MigratedObject, turn: Turn, loaded: Loaded, pending: tuple[ObjectMigration, ...]) -> None:
    """Run them in that turn, which is the current one; what they wrote, and how many it has had now, is in it.

    Of an object that is nowhere yet and for which they wrote nothing the number waits for the first commit: to look at
    an object must not make it.
    """
    raw = RawState(loaded.rows.get(STATE_SLOT))
    typed, activation.state = activation.state, UnmigratedState(raw)
    try:
        for migration in pending:
            await run_migration(activation, turn, migration, raw)
    finally:
        activation.state = typed
    turn.state_used = False  # that was not the typed one
    if typed is not NO_STATE:
        typed.load(raw.encode())
    number = encode_number(pending[-1].number)
    if loaded.info is None and turn.is_clean:
        activation.unnumbered = number
    else:
        turn.writes[MIGRATIONS_SLOT] = number
    turn.mark()


async def run_migration(activation: ObjectRuntime, turn: Turn, migration: ObjectMigration, raw: RawState) -> None:
    """Run it in the turn, which is the current one; `MigrationFailed` names it."""
    try:
        if isinstance(migration.step, str):
            Context(activation).sql(migration.step)
        else:
            found = migration.step(_bare(activation))
            if inspect.isawaitable(found):
                await found
        if turn.refused:
            raise turn.refused[0].error
        data = raw.encode()
        if data != turn.writes.get(STATE_SLOT, raw.stored):
            turn.writes[STATE_SLOT] = data
    except Unavailable:
        raise  # ours, and not the migration's
    except Exception as error:
        raise MigrationFailed(
            f"migration {migration.number} of {activation.id}, {migration.name}, failed: {type(error).__name__}: {error}; "
            "nothing of it was kept, and the next wake tries again"
        ) from error


def _bare(activation: ObjectRuntime) -> Any:
    """An object of the class with its `ctx`, whose constructor has not run: that may need what the migrations make."""
    cls: Any = activation.known.cls
    bare = cls.__new__(cls)
    bare.ctx = Context(activation)
    return bare
