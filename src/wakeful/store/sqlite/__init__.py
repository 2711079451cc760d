"""Layer 2. The SQLite store: everything in one file, owned by one process."""

from wakeful.store.sqlite.owner import owner_of
from wakeful.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "owner_of"]
