"""Layer 2. How do timers from outside a turn get in, all of them or none?"""

import sqlite3
from collections.abc import Sequence

from wakeful.store.sends import check_once
from wakeful.store.sqlite import statements
from wakeful.store.sqlite.gather import timer_of, timer_row
from wakeful.store.sqlite.statements import SQL
from wakeful.values.ids import shard_of
from wakeful.values.timers import Timer

# Timers are flattened into parameters this many at a time, so that a million don't sit in memory twice.
INSERT_ROWS = 4096


def insert(db: sqlite3.Connection, timers: Sequence[Timer], now: int) -> list[Timer]:
    """Add them inside a transaction; when names are taken add nothing, and tell by what."""
    db.execute("SAVEPOINT inserting")
    try:
        for at in range(0, len(timers), INSERT_ROWS):
            some = [(timer, shard_of(timer.id)) for timer in timers[at : at + INSERT_ROWS]]
            statements.make_objects.run(db, [(*timer.id, shard, now, now) for timer, shard in some])
            statements.insert_timers.run(db, [timer_row(timer.id, shard, timer) for timer, shard in some])
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK TO inserting")
        check_once(timers)
        taken = _taken(db, timers)
        if not taken:
            raise
        return taken
    finally:
        if db.in_transaction:
            db.execute("RELEASE inserting")
    return []


def _taken(db: sqlite3.Connection, timers: Sequence[Timer]) -> list[Timer]:
    """Those that have the names of these, in the same order."""
    found: list[Timer] = []
    for timer in timers:
        found += [timer_of(row) for row in db.execute(SQL["find_timer"], (*timer.id, timer.name)).fetchall()]
    return found
