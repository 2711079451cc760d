"""Everything that a store has, as one text of bytes: to be searched for what must not be in it any more."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

from wakeful.store.bucket.bootstrap import bring
from wakeful.store.bucket.storage import Patient
from wakeful.store.bucket.url import parse_url
from wakeful.testing import World


def dump(world: World, url: str) -> bytes:
    """Every row of every table, values as they are stored."""
    if url == "memory:":
        rows = [repr(part) for name, part in vars(world._disk).items() if name != "stores"]
        return "\n".join(rows).encode()
    if url.startswith("sqlite:"):
        tables = _sqlite(url.removeprefix("sqlite:"))
    elif url.startswith("bucket:"):
        tables = _bucket(url)
    else:
        tables = _in_thread(url)
    return b"\n".join(_bytes(value) for rows in tables.values() for row in rows for value in row)


def raw_bytes(folder: Path) -> bytes:
    """All files there as they are."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _sqlite(path: str) -> dict[str, list[tuple[Any, ...]]]:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    finally:
        db.close()


def _bucket(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """What somebody finds who has nothing but the bucket."""
    with TemporaryDirectory() as folder:
        storage = Patient(parse_url(url).open(), lambda seconds: None)
        bring(storage, f"{folder}/copy.db", "dump", lambda: 0.0, now=None)
        return _sqlite(f"{folder}/copy.db")


def _in_thread(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, _postgres(url)).result()


async def _postgres(url: str) -> dict[str, list[tuple[Any, ...]]]:
    import asyncpg

    [schema] = parse_qs(urlsplit(url).query)["schema"]
    connection = await asyncpg.connect(url.replace(f"schema={schema}", "").rstrip("?&"))
    try:
        asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = $1"
        names = [row[0] for row in await connection.fetch(asked, schema)]
        return {
            name: [tuple(row) for row in await connection.fetch(f'SELECT * FROM "{schema}"."{name}"')] for name in names
        }
    finally:
        await connection.close()
