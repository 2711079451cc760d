"""Layer 2. How are stored bytes replaced by others that mean the same, beside whoever owns them?"""

import sqlite3
from collections.abc import Sequence

from wakeful.store.protocol import Swap

# `IS` also finds a payload that is NULL. Rows of ledger and parked never change, so their number is enough.
_SQL = {
    "storage": "UPDATE kv SET value = ? WHERE class = ? AND key = ? AND space = ? AND name = ? AND value IS ?",
    "timers": "UPDATE timers SET payload = ? WHERE class = ? AND key = ? AND name = ? AND payload IS ?",
    "requests": (
        "UPDATE requests SET fingerprint = ?, answer = ? "
        "WHERE class = ? AND key = ? AND request = ? AND fingerprint IS ? AND answer IS ?"
    ),
    "ledger": "UPDATE ledger SET error = ? WHERE number = ?",
    "parked": "UPDATE parked SET payload = ?, error = ?, traceback = ? WHERE number = ?",
}
_BY_NUMBER = ("ledger", "parked")


def swap(db: sqlite3.Connection, swaps: Sequence[Swap]) -> int:
    """Inside a transaction; how many were still as they were."""
    done = 0
    for one in swaps:
        old = () if one.table in _BY_NUMBER else one.old
        done += db.execute(_SQL[one.table], (*one.new, *one.where, *old)).rowcount
    return done
