"""Layer 2. Which rows of the ledger are past keeping, without reading the same ones again and again?"""

import sqlite3
from typing import NamedTuple

from wakeful.store.sqlite.statements import SQL


class Pruned(NamedTuple):
    """How far pruning has come in the ledger."""

    settled_to: int = 0  # rows up to this number are old and stay
    behind: int = 0  # of those behind the first ones, rows up to this number were looked at
    is_walking: bool = False  # all that it passed were old, so there may be more


def prune_ledger(db: sqlite3.Connection, pruned: Pruned, before: int, limit: int) -> tuple[int, Pruned]:
    """Drop the old ones among the first rows, and among so many further on: behind those of a clock that was ahead are others.

    How many went, and how far it came.
    """
    gone, (settled_to, behind, is_walking) = _look(db, pruned, before, limit) if before > 0 else (0, pruned)
    [end] = db.execute(SQL["ledger_end"]).fetchone()
    # A number that was the last comes again when its row is gone.
    return gone, Pruned(min(settled_to, end or 0), behind, is_walking and before > 0)


def _look(db: sqlite3.Connection, pruned: Pruned, before: int, limit: int) -> tuple[int, Pruned]:
    count, front = 1000 + 2 * limit, pruned.settled_to
    [first] = db.execute(SQL["prune_end"], (front, count)).fetchone()
    if first is None:
        return 0, pruned._replace(is_walking=False)
    gone = db.execute(SQL["prune_ledger"], (front, first, before, limit)).rowcount
    if gone >= limit:
        return gone, pruned._replace(is_walking=False)  # there may be more of them here
    [young] = db.execute(SQL["prune_young"], (front, first, before)).fetchone()
    if young is None:
        return gone, pruned._replace(settled_to=first, is_walking=True)
    behind = max(pruned.behind, first)
    [last] = db.execute(SQL["prune_end"], (behind, count)).fetchone()
    gone += db.execute(SQL["prune_ledger"], (behind, last or behind, before, limit - gone)).rowcount
    if gone >= limit:
        last = pruned.behind  # there may be more of them here
    return gone, Pruned(young - 1, last or 0)  # none: that was the end, from the front again
