"""Somebody else's session, which holds tables of a store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from wakeful.store.postgres.url import parse_url

NEEDED = ["nodes", "shards", "objects", "storage", "timers", "ledger", "parked", "requests", "receipts"]
READS, WRITES = "ACCESS EXCLUSIVE", "EXCLUSIVE"  # what a session keeps others from, with that lock


@asynccontextmanager
async def holding(url: str, mode: str, *tables: str) -> AsyncIterator[int]:
    """It holds them in a transaction that does nothing more; the pid of the session."""
    target = parse_url(url)
    holder: Any = await asyncpg.connect(target.dsn)
    try:
        async with holder.transaction():
            names = ", ".join(f'"{target.schema}".{table}' for table in tables)
            await holder.execute(f"LOCK TABLE {names} IN {mode} MODE")
            yield holder.get_server_pid()
    finally:
        await holder.close()
