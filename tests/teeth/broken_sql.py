"""Databases of objects, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.runtime.beside import StandingTurn
from wakeful.runtime.rows import ObjectRows
from wakeful.runtime.turn import CommitDraft, Turn
from wakeful.sql.database import Database
from wakeful.sql.feature import NodeDatabases
from wakeful.sql.paged_connection import PageFile
from wakeful.sql.pages import DatabasePages
from wakeful.values.commits import PAGE_BYTES, SYSTEM, USER, Commit


def the_connection_outlives_an_undone_turn() -> Any:
    """With what that turn did to it."""

    def make(undo: Any) -> Any:
        def broken(self: Database) -> None: ...

        return broken

    return swapped(Database, "undo", make)


def the_connection_outlives_a_fence() -> Any:
    """The node keeps it, for when the object wakes again."""

    def make(make_one: Any) -> Any:
        kept: dict[Any, Database] = {}

        def broken(self: NodeDatabases, activation: Any, pages: DatabasePages, stored: int) -> Database:
            if activation.id not in kept:
                kept[activation.id] = make_one(self, activation, pages, stored)
            return kept[activation.id]

        return broken

    return swapped(NodeDatabases, "_make", make)


def the_size_is_not_undone() -> Any:
    """It is counted up as the turn goes on, and stays."""

    def make(run: Any) -> Any:
        def broken(self: Database, *given: Any) -> Any:
            rows = run(self, *given)
            if self._connection is not None:
                _, cursor = self._connection.execute("PRAGMA page_count")
                self._stored = next(iter(cursor))[0]
            return rows

        return broken

    return swapped(Database, "run", make)


def pages_are_written_outside_the_commit() -> Any:
    """In one of their own, before the turn's."""

    def make(collect: Any) -> Any:
        def broken(self: Turn) -> None:
            collect(self)
            activation: Any = self.activation
            puts = {slot: page for slot, page in self.pages.items() if page is not None}
            now = activation.node.clock.now()
            commit = Commit(id=activation.id, shard=activation.shard, epoch=activation.epoch, now=now, puts=puts)
            self.pages = {}
            activation.node.keep(asyncio.get_running_loop().create_task(_write(activation.node, commit)))
            activation.sql.adopt()

        return broken

    return swapped(Turn, "collect_pages", make)


async def _write(node: Any, commit: Commit) -> None:
    await node.store.commit(node.name, [commit])


def a_reader_sees_pages_of_a_running_turn() -> Any:
    """There is one connection, and everybody uses it."""

    def make(find: Any) -> Any:
        def broken(self: Database, turn: Turn) -> Any:
            if self._connection is None:
                self._connection = self._open(self._pages)
            return self._connection

        return broken

    return swapped(Database, "_connection_for", make)


def the_first_page_is_written_once() -> Any:
    """Whatever changes in it is taken for a counter."""

    def make(is_same: Any) -> Any:
        def broken(self: DatabasePages, page: bytes) -> bool:
            return len(self) > 0

        return broken

    return swapped(DatabasePages, "is_first_same", make)


def a_changed_page_is_read_from_the_store_again() -> Any:
    """Where it is, or will be soon."""

    def make(adopt: Any) -> Any:
        def broken(self: DatabasePages, changes: dict[int, bytes], total: int) -> None:
            adopt(self, changes, total)
            if self._fetch is not None:
                self._here = [None] * len(self)

        return broken

    return swapped(DatabasePages, "adopt", make)


def pages_past_the_end_are_kept() -> Any:
    """For when the database grows again."""

    def make(adopt: Any) -> Any:
        def broken(self: DatabasePages, changes: dict[int, bytes], total: int) -> None:
            adopt(self, changes, max(total, len(self)))

        return broken

    return swapped(DatabasePages, "adopt", make)


def an_undone_turn_leaves_its_pages_among_those_that_are_read() -> Any:
    """What it writes goes where others look."""

    def make(write: Any) -> Any:
        def broken(self: PageFile, data: bytes, offset: int) -> None:
            write(self, data, offset)
            if isinstance(self._pages, DatabasePages) and offset // PAGE_BYTES < len(self._pages):
                self._pages.adopt({offset // PAGE_BYTES: data}, len(self._pages))

        return broken

    return swapped(PageFile, "xWrite", make)


def pages_that_others_may_write_are_read_late() -> Any:
    """The store answers at once, after all."""
    return swapped(NodeDatabases, "_is_lazy", lambda _: property(lambda self: self._connection_type.is_lazy))


def sqlite_is_not_told_that_a_page_could_not_be_read() -> Any:
    """It gives up the statement, and not what came before it."""

    def make(find: Any) -> Any:
        def broken(self: PageFile, number: int) -> bytes:
            return self._pages[number]

        return broken

    return swapped(PageFile, "_find", make)


def a_turn_that_wrote_only_sql_wrote_nothing() -> Any:
    """Its object's memory stays as it is when it is undone."""

    def make(has_written: Any) -> Any:
        def broken(self: Turn) -> bool:
            writes, self.sql_writes = self.sql_writes, 0
            try:
                return bool(has_written.fget(self))
            finally:
                self.sql_writes = writes

        return property(broken)

    return swapped(Turn, "has_written", make)


def delete_all_leaves_the_database() -> Any:
    """Its pages are in another space."""
    return swapped(Turn, "wipe", lambda _: CommitDraft.wipe)


def a_savepoint_is_for_rows_only() -> Any:
    """What was done to the database inside stays."""

    def make(go_back: Any) -> Any:
        def broken(self: Database, depth: int) -> None:
            self.keep(depth)

        return broken

    return swapped(Database, "go_back", make)


def an_event_of_a_worker_is_kept_though_sqlite_gave_it_up() -> Any:
    """What was refused is taken for something that its code has heard of."""

    def make(flush: Any) -> Any:
        def broken(self: StandingTurn, *, within: bool = False) -> None:
            self.refused = []
            flush(self, within=within)

        return broken

    return swapped(StandingTurn, "flush", make)


def rows_are_gathered_from_the_disk_alone() -> Any:
    """Without what is on its way there."""

    def make(gather: Any) -> Any:
        async def broken(self: ObjectRows, space: int, bound: int) -> None:
            for slot, value in (await self._scan_up_to(space, bound) or {}).items():
                if slot not in self._cache:
                    self._keep(slot, value)
            self._complete = (space == USER, space == SYSTEM)

        return broken

    return swapped(ObjectRows, "gather", make)
