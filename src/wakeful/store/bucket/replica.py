"""Layer 2. How does what others wrote come into the local file, and what is worth telling of it?"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from wakeful.store.bucket.position import move
from wakeful.store.bucket.recorder import replay
from wakeful.store.bucket.records import Manifest, Record
from wakeful.store.protocol import Hint
from wakeful.store.sqlite import schema
from wakeful.store.sqlite.statements import INSERTED_TIMERS, TIMER_ROW
from wakeful.values.errors import SchemaTooNew
from wakeful.values.ids import SHARDS

_WIDTH = TIMER_ROW.count(",") + 1
_SHARD, _DUE_AT = (TIMER_ROW.split(", ").index(name) for name in ("shard", "due_at"))
_SHARDS = range(SHARDS)
HINTS_MAX = 1_000  # of one batch; more is said as one range a shard


class LogNews(NamedTuple):
    """What some records changed that a node wants to hear of: timers, and whether nodes came, went, or shards changed hands."""

    hints: list[Hint]
    is_about_nodes: bool


class MovedIn(Exception):
    """A record that stands for a whole store, which takes the place of what there was."""

    def __init__(self, slot: int, manifest: Manifest) -> None:
        super().__init__(slot)
        self.slot = slot
        self.manifest = manifest


class Replica:
    """A connection to the local file for what others wrote."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536")

    def apply(self, found: Sequence[tuple[int, Record]]) -> LogNews:
        """Do again what they did, in one transaction but for migrations; `MovedIn` leaves out what comes from there on."""
        db, before = self._db, self._company()
        try:
            for slot, record in found:
                if record.moved_in is not None:
                    raise MovedIn(slot, record.moved_in)
                if record.migrations:
                    self._migrate(record)
                if not db.in_transaction:
                    db.execute("BEGIN IMMEDIATE")
                replay(db, record.statements, f"slot {slot}")
                move(db, slot)
        except MovedIn:
            if db.in_transaction:
                db.execute("COMMIT")
            raise
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if db.in_transaction:
            db.execute("COMMIT")
        return LogNews(_hints([record for _, record in found]), self._company() != before)

    def _migrate(self, record: Record) -> None:
        db = self._db
        if db.in_transaction:
            db.execute("COMMIT")
        known = {step.name: step for step in schema.MIGRATIONS}
        strange = [name for name in record.migrations if name not in known]
        if strange:
            raise SchemaTooNew(f"the tables were given {strange[0]}, which this Wakeful does not know; upgrade Wakeful")
        steps = [step for step in schema.pending(db, self._path) if step.name in record.migrations]
        if steps:
            schema.apply(db, *steps, now=record.migrated_at)

    def _company(self) -> tuple[object, ...]:
        """Nodes and owners, in short."""
        ask = self._db.execute
        nodes = ask("SELECT node, address, is_draining, lease_until < 0 FROM nodes ORDER BY node").fetchall()
        return (*nodes, *ask("SELECT shard, owner, epoch FROM shards ORDER BY shard").fetchall())

    def close(self) -> None:
        self._db.close()


def _hints(records: Sequence[Record]) -> list[Hint]:
    """Where timers were added from outside of the turns of their own objects."""
    hints: dict[Hint, None] = {}
    for record in records:
        wanted = {number for number, text in enumerate(record.texts) if text.startswith(INSERTED_TIMERS)}
        for number, values in record.rows if wanted else ():
            if number in wanted:
                for at in range(0, len(values) - len(values) % _WIDTH, _WIDTH):
                    shard, due_at = values[at + _SHARD], values[at + _DUE_AT]
                    if shard in _SHARDS and isinstance(due_at, int):  # what somebody else put there is no hint
                        hints[Hint(shard, due_at, due_at)] = None
    if len(hints) <= HINTS_MAX:
        return list(hints)
    ranges: dict[int, Hint] = {}
    for hint in hints:
        known = ranges.get(hint.shard, hint)
        ranges[hint.shard] = Hint(hint.shard, min(known.first_at, hint.first_at), max(known.last_at, hint.last_at))
    return list(ranges.values())
