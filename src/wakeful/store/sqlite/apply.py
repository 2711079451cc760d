"""Layer 2. How does a group of commits become rows, and which of them may?"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from wakeful.store.protocol import Outcome
from wakeful.store.sqlite import statements
from wakeful.store.sqlite.gather import CommitGroup, groups
from wakeful.store.sqlite.statements import SQL
from wakeful.store.sqlite.writer import WriteRefused, refusal
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced
from wakeful.values.ids import ObjectId, shard_of

_ERASED = ("erase_rows", "erase_ledger", "erase_parked", "erase_requests")
Owned = list[tuple[str | None, int]]  # owner and epoch, by shard


class Fences:
    """Lets pass, inside the transaction, only commits of shards that are still owned at their epoch."""

    def __init__(self) -> None:
        self._known: tuple[sqlite3.Connection, int, Owned] | None = None

    def forget(self) -> None:
        """To be called by whoever changes the shards on the writer's own connection."""
        self._known = None

    def together(
        self, db: sqlite3.Connection, node: str, commits: Sequence[Commit], gathered: Sequence[CommitGroup]
    ) -> list[Outcome]:
        """Write all of them at once, without those that are fenced. `gathered` is what all of them come to."""
        owned = self._shards(db)
        outcomes: list[Outcome] = [None] * len(commits)
        if not all(owned[shard] == (node, epoch) for group in gathered for shard, epoch in group.fences):
            outcomes = [_fence(commit, node, owned) for commit in commits]
            gathered = groups([commit for commit, outcome in zip(commits, outcomes, strict=True) if outcome is None])
        for group in gathered:
            _apply(db, group)
        return outcomes

    def one_by_one(self, db: sqlite3.Connection, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        """Write each of them so that it can fail alone: for when `together` was refused."""
        owned = self._shards(db)
        failed: dict[ObjectId, WriteRefused] = {}
        return [_fence(commit, node, owned) or _apply_alone(db, commit, failed) for commit in commits]

    def erase(self, db: sqlite3.Connection, node: str, id: ObjectId, epoch: int, now: int, limit: int) -> bool | Fenced:
        """A piece of what is kept of a marked object goes; True when nothing is left."""
        shard = shard_of(id)
        if self._shards(db)[shard] != (node, epoch):
            return Fenced(shard, epoch)
        if db.execute(SQL["find_mark"], id).fetchone() is None:
            return True
        gone = [db.execute(SQL[name], (*id, limit)).rowcount for name in _ERASED]
        if max(gone) >= limit:
            return False
        for name in ("erase_mark", "erase_timer", "erase_object"):
            db.execute(SQL[name], id)
        db.execute(SQL["remake_object"], (now, now, *id))
        return True

    def _shards(self, db: sqlite3.Connection) -> Owned:
        """The shards as this transaction sees them; read again only when they can have changed."""
        version: Any = db.execute(SQL["data_version"]).fetchall()[0][0]
        if self._known is None or self._known[0] is not db or self._known[1] != version:
            rows = db.execute(SQL["all_shards"]).fetchall()
            self._known = (db, version, [(owner, epoch) for _, owner, epoch in rows])
        return self._known[2]


def _fence(commit: Commit, node: str, owned: Sequence[tuple[str | None, int]]) -> Fenced | None:
    mine = owned[commit.shard] == (node, commit.epoch)
    return None if mine else Fenced(commit.shard, commit.epoch)


def _apply(db: sqlite3.Connection, group: CommitGroup) -> None:
    """Write the rows of a group, table by table; empty ones cost nothing."""
    statements.make_objects.run(db, group.makes.values())
    statements.touch_objects.run(db, group.objects.values())
    statements.wipe_rows.run(db, group.wipes)
    statements.delete_rows.run(db, group.deletes)
    statements.put_rows.run(db, group.puts.values())
    statements.clear_timers.run(db, group.clears)
    statements.start_timers.run(db, group.starts.values())
    statements.set_timers.run(db, group.sets.values())
    statements.send_timers.run(db, group.sends.values())
    statements.add_entries.run(db, group.entries)
    statements.add_parked.run(db, group.parks)
    statements.drop_parked.run(db, group.unparks)
    statements.remember.run(db, group.answers.values())


def _apply_alone(db: sqlite3.Connection, commit: Commit, failed: dict[ObjectId, WriteRefused]) -> WriteRefused | None:
    """Write one commit so that it can fail without the others; what was built on a failed one fails with it."""
    if commit.id in failed:
        return failed[commit.id]
    db.execute("SAVEPOINT alone")
    try:
        _apply(db, CommitGroup([commit]))
    except (sqlite3.Error, ValueError, OverflowError) as error:
        refused = refusal(error)
        if refused is None:
            raise
        db.execute("ROLLBACK TO alone")
        failed[commit.id] = refused
        return refused
    finally:
        if db.in_transaction:
            db.execute("RELEASE alone")
    return None
