"""Moving slots, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.teeth.broken import swapped
from wakeful.cli import keys, rebalance
from wakeful.policy.spread import Move, arrive
from wakeful.runtime.slot_move import SlotMover
from wakeful.runtime.spread_map import change_map
from wakeful.store.postgres import slots as tables
from wakeful.store.postgres.inserter import InsertLine
from wakeful.store.postgres.slots import PostgresSlots
from wakeful.store.postgres.statements import Statements


def flipped_before_the_fence() -> Any:
    """The target takes the slot, and only then does the source let it go."""

    def make(_: Any) -> Any:
        async def broken(self: SlotMover, move: Move) -> None:
            source, target = self._servers[move.source], self._servers[move.target]
            if await target.seize(move.slot, move.term, self._name):
                await self._level(move, source, target)
                await target.land(move.slot, move.term, self._name, above=1_000)
            await change_map(self._first, lambda known: arrive(known, move))
            await source.fence(move.slot, move.term)

        return broken

    return swapped(SlotMover, "_go", make)


def no_fence() -> Any:
    """The source goes on with the slot while it is brought up to date."""

    def make(_: Any) -> Any:
        async def broken(self: PostgresSlots, slot: int, term: int) -> int:
            return (await self._slot(slot)).epoch

        return broken

    return swapped(PostgresSlots, "fence", make)


def an_epoch_that_stays() -> Any:
    """The source bars the slot, and whoever owns it does not hear of it."""

    def make(run: Any) -> Any:
        async def broken(self: PostgresSlots, sql: str, *args: object) -> Any:
            is_fence = "state = 4" in sql
            return await run(self, sql.replace("owner = NULL, epoch = epoch + 1, ", "") if is_fence else sql, *args)

        return broken

    return swapped(PostgresSlots, "_run", make)


def _rewritten(part: str, other: str) -> Any:
    def make(made: Any) -> Any:
        def broken(self: Statements, name: str, wanted: frozenset[str]) -> Any:
            found = made(self, name, wanted)
            return type(found)(found.text.replace(part, other), found.names)

        return broken

    return swapped(Statements, "_make", make)


def a_claim_of_what_is_away() -> Any:
    """A node takes a shard without looking whether it lives there, and settles in."""
    return _rewritten("AND state = 0", "")


def removed_before_it_landed() -> Any:
    """What is at the source goes once it is copied."""

    def make(catch_up: Any) -> Any:
        async def broken(self: SlotMover, move: Move, source: Any, target: Any) -> int:
            copied: int = await catch_up(self, move, source, target)
            await source.seize_rest(move.slot, move.term, self._name)
            await source.clear(move.slot, self._name)
            return copied

        return broken

    return swapped(SlotMover, "_catch_up", make)


def copied_once() -> Any:
    """What is written while the slot is copied stays behind."""

    def make(_: Any) -> Any:
        async def broken(self: SlotMover, move: Move, source: Any, target: Any) -> int:
            await target.write_receipts(move.slot, self._name, await source.receipts(move.slot))
            return 0

        return broken

    return swapped(SlotMover, "_catch_up", make)


def changes_found_by_their_time() -> Any:
    """What has the time and size that it had is taken for what it was."""
    return swapped(tables, "_ORDER", lambda order: {"objects": order["objects"]})


def receipts_left_behind() -> Any:
    """What was taken before the move is not known after it."""

    def make(_: Any) -> Any:
        async def broken(self: PostgresSlots, slot: int) -> list[Any]:
            return []

        return broken

    return swapped(PostgresSlots, "receipts", make)


def an_outbox_left_behind() -> Any:
    """Errands that are on their way are not the object's own, somebody thought."""

    def make(read: Any) -> Any:
        async def broken(self: PostgresSlots, ids: Any) -> Any:
            async for table, rows in read(self, ids):
                yield table, [row for row in rows if table != "timers" or not row[2].startswith("forward:")]

        return broken

    return swapped(PostgresSlots, "read", make)


def an_insert_that_does_not_look() -> Any:
    """Timers from outside go where the slot was when they were sent."""

    def make(_: Any) -> Any:
        async def broken(self: InsertLine, wire: Any, wanted: Any, *, meets: bool) -> Any:
            return await self._write(wire, wanted, meets=meets)

        return broken

    return swapped(InsertLine, "_write_here", make)


def a_late_mover() -> Any:
    """A mover that was frozen goes on where another has taken its move up."""

    def make(_: Any) -> Any:
        async def broken(self: PostgresSlots, slot: int, mover: str) -> None:
            pass

        return broken

    return swapped(PostgresSlots, "_hold", make)


def an_epoch_of_its_own() -> Any:
    """The target goes on from its own epoch: what it adds may stand before what came along."""

    def make(run: Any) -> Any:
        async def broken(self: PostgresSlots, sql: str, *args: object) -> Any:
            return await run(self, sql.replace("greatest(epoch, $4) + 1", "epoch + 1 + $4 * 0"), *args)

        return broken

    return swapped(PostgresSlots, "_run", make)


def names_read_but_once() -> Any:
    """An object that came while the slot was copied is nobody's."""

    def make(_: Any) -> Any:
        async def broken(self: PostgresSlots, slot: int, moment: str) -> list[Any]:
            return []

        return broken

    return swapped(PostgresSlots, "changes", make)


def a_moment_too_late() -> Any:
    """What was written between the look at the names and the question where the writing is."""

    def make(_: Any) -> Any:
        async def broken(self: PostgresSlots, slot: int, moment: str) -> list[Any]:
            return await changes(self, slot, str(await self.moment()))

        changes = PostgresSlots.changes
        return broken

    return swapped(PostgresSlots, "changes", make)


def servers_are_mixed() -> Any:
    """Nobody asks which keys the servers need before a slot goes from one to the other."""
    return swapped(rebalance, "_check_keys", lambda _: _pass_all)


async def _pass_all(cls: str, stores: Any) -> None:
    """Whatever they are sealed with."""


def the_first_server_is_locked() -> Any:
    """Whoever moves has the one with the map for itself, and the others may be sealed anew meanwhile."""

    def make(take: Any) -> Any:
        async def broken(self: SlotMover) -> None:
            everyone, self._servers = self._servers, dict(list(self._servers.items())[:1])
            try:
                await take(self)
            finally:
                self._servers = everyone

        return broken

    return swapped(SlotMover, "take", make)


def sealed_behind_the_mover() -> Any:
    """A rotation does not ask whether slots are coming in."""
    return swapped(keys, "_no_moves", lambda _: _all_moves)


@asynccontextmanager
async def _all_moves(url: str) -> AsyncIterator[bool]:
    """Whoever else is at work there."""
    yield True
