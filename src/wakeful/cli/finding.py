"""Layer 5. How is a store opened by someone who does not run it?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeful.cli.failing import USAGE, CommandError
from wakeful.cli.printing import now_ms
from wakeful.store import open_url
from wakeful.store.protocol import Store


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Store]:
    """The store, open for looking at it beside whoever runs it."""
    if url == "memory:":
        raise CommandError(
            "memory: lives and dies with its process, nobody else can look into it; use sqlite:PATH",
            code="store.memory",
            exit_code=USAGE,
        )
    store = open_url(url)
    await store.open(now=now_ms(), readonly=True)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def writing(url: str, *, what: str) -> AsyncIterator[Store]:
    """The store that several nodes share, open for an operator's wish; one of a single process has no use for it."""
    store = open_url(url)
    if not store.shared:
        raise CommandError(
            f"{what} is for stores that several nodes share; {store.url} has one process, stop that instead",
            code="store.single",
            exit_code=USAGE,
        )
    async with reading(url):
        pass  # refuses what has no tables, or others; opening it to write would make them
    await store.open(now=now_ms())
    try:
        yield store
    finally:
        await store.close()
