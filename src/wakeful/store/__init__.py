"""Layer 2. Which store does a URL mean? (`wakeful.store` is a public door: write your own against `Store`.)"""

from urllib.parse import urlsplit

from wakeful.store.memory import Disk, MemoryStore
from wakeful.store.protocol import NodeRow, Query, Range, ShardRow, Store
from wakeful.values.errors import BadUrl, MissingExtra

__all__ = ["Disk", "MemoryStore", "NodeRow", "Query", "Range", "ShardRow", "Store", "open_url"]


def open_url(url: str) -> Store:
    """The store that the URL names, not opened yet: `memory:`, `sqlite:PATH`, `postgresql://…`.

    >>> from wakeful.store import open_url
    >>> open_url("sqlite:app.db").url
    'sqlite:app.db'
    >>> open_url("mysql://db")
    Traceback (most recent call last):
    wakeful.values.errors.BadUrl: 'mysql://db' is not a store; write memory:, sqlite:PATH or postgresql://user@host/database [store.url]
    """
    scheme = urlsplit(url).scheme if isinstance(url, str) else ""
    if url == "memory:":
        return MemoryStore()
    if scheme == "sqlite":
        from wakeful.store.sqlite import SqliteStore

        return SqliteStore.of_url(url)
    if scheme in ("postgresql", "postgres"):
        try:
            from wakeful.store.postgres import PostgresStore
        except ImportError as error:
            raise MissingExtra(
                f"{error.name} is not installed; PostgreSQL needs it: pip install 'wakeful[postgres]'"
            ) from None
        return PostgresStore.of_url(url)
    raise BadUrl(f"{url!r} is not a store; write memory:, sqlite:PATH or postgresql://user@host/database")
