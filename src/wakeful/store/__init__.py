"""Layer 2. Which store does a URL mean? (`wakeful.store` is a public door: write your own against `Store`.)"""

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from wakeful.store.memory import Disk, MemoryStore
from wakeful.store.protocol import NodeRow, Query, Range, ShardRow, Store
from wakeful.values.errors import BadUrl, MissingExtra

__all__ = ["Disk", "MemoryStore", "NodeRow", "Query", "Range", "ShardRow", "Store", "open_url"]

_WRITE = "write memory:, sqlite:PATH, postgresql://user@host/database or s3://bucket/prefix"
# Where packages say which stores they bring: the scheme of the URL, and what makes the store of one.
ENTRY_POINTS = "wakeful.stores"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,30})://", re.IGNORECASE)


def open_url(url: str) -> Store:
    """The store that the URL names, not opened yet: `memory:`, `sqlite:PATH`, `postgresql://…`, `s3://…` (`az://…`, `gs://…`).

    Other packages may bring more, by entry points of the group `wakeful.stores` whose name is the scheme of the URL.

    >>> from wakeful.store import open_url
    >>> open_url("sqlite:app.db").url
    'sqlite:app.db'
    >>> open_url("mysql://db")
    Traceback (most recent call last):
    wakeful.values.errors.BadUrl: 'mysql:' is not a store; write memory:, sqlite:PATH, postgresql://user@host/database or s3://bucket/prefix [store.url]
    """
    scheme = url.partition(":")[0].lower() if isinstance(url, str) and ":" in url else ""
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
    if scheme in ("s3", "az", "gs", "bucket"):
        from wakeful.store.bucket import BucketStore

        return BucketStore.of_url(url)
    brought = [entry for entry in entry_points(group=ENTRY_POINTS) if scheme and entry.name == scheme]
    if not brought:
        raise BadUrl(_wrong(url))
    return _make(brought, url)


def _make(brought: list[EntryPoint], url: str) -> Store:
    """The store of the one package that brings its kind."""
    scheme, packages = brought[0].name, sorted({entry.dist.name if entry.dist else entry.value for entry in brought})
    if len(packages) > 1:
        raise BadUrl(f"{' and '.join(packages)} both bring the store '{scheme}:'; uninstall one of them")
    try:
        make = cast("Callable[[str], Store]", brought[0].load())
    except ImportError as error:
        raise MissingExtra(f"{packages[0]} brings the store '{scheme}:' and can't be imported: {error}") from None
    return make(url)


def _wrong(url: object) -> str:
    """What to say of it. Nothing of it is quoted but its scheme: there may be a password in it."""
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if scheme is None:
        return f"the URL of the store does not begin with its kind; {_WRITE}"
    if scheme[1].lower().startswith(("postgresql+", "postgres+")):
        return f"{scheme[1]!r} names a driver, leave that out; {_WRITE}"
    others = sorted({entry.name for entry in entry_points(group=ENTRY_POINTS)})
    return f"'{scheme[1]}:' is not a store; {_WRITE}{''.join(f', or {name}:…' for name in others)}"
