"""Layer 2. How are stored bytes replaced by others that mean the same, beside whoever owns them?"""

import sqlite3
from collections.abc import Sequence

from wakeful.store.protocol import Swap

# `IS` also finds a payload that is NULL. Rows of ledger and parked never change, so their number is enough.
_SQL = {
    "storage": "UPDATE kv SET value = ?1 WHERE class = ?3 AND key = ?4 AND space = ?5 AND name = ?6 AND value IS ?2",
    "timers": "UPDATE timers SET payload = ?1 WHERE class = ?3 AND key = ?4 AND name = ?5 AND payload IS ?2",
    "requests": (
        "UPDATE requests SET fingerprint = ?1, answer = ?2 "
        "WHERE class = ?5 AND key = ?6 AND request = ?7 AND fingerprint IS ?3 AND answer IS ?4"
    ),
    "ledger": "UPDATE ledger SET error = ?1 WHERE number = ?2",
    "parked": "UPDATE parked SET payload = ?1, error = ?2, traceback = ?3 WHERE number = ?4",
}
_BY_NUMBER = ("ledger", "parked")


def swap(db: sqlite3.Connection, swaps: Sequence[Swap]) -> int:
    """Inside a transaction; how many were still as they were."""
    done = 0
    for one in swaps:
        old = () if one.table in _BY_NUMBER else one.old
        done += db.execute(_SQL[one.table], (*one.new, *old, *one.where)).rowcount
    return done
