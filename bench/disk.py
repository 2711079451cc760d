"""How many bytes does a store take on disk?"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from wakeful.store.postgres.url import parse_url


class Stored(NamedTuple):
    timers: int  # the table of timers and its indexes
    all: int


async def stored_bytes(url: str) -> Stored:
    """Of a store that no node has open."""
    return _sqlite(url.removeprefix("sqlite:")) if url.startswith("sqlite:") else await _postgres(url)


def _sqlite(path: str) -> Stored:
    size = sum(Path(path + end).stat().st_size for end in ("", "-wal") if Path(path + end).exists())
    db = sqlite3.connect(path)
    try:
        [(timers,)] = db.execute(
            "SELECT sum(pgsize) FROM dbstat WHERE aggregate = true"
            " AND name IN (SELECT name FROM sqlite_master WHERE tbl_name = 'timers')"
        )
    except sqlite3.OperationalError:
        timers = size  # this SQLite has no dbstat: the whole is the upper bound
    finally:
        db.close()
    return Stored(timers, size)


async def _postgres(url: str) -> Stored:
    import asyncpg

    target = parse_url(url)
    connection = await asyncpg.connect(target.dsn)
    try:
        size = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = $1::regnamespace"
        timers = await connection.fetchval(f"{size} AND c.relname = 'timers'", target.schema)
        return Stored(timers, await connection.fetchval(size, target.schema))
    finally:
        await connection.close()
