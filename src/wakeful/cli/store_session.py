"""Layer 5. How is a store opened by someone who does not run it?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from wakeful.cli import output
from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.lock_holders import naming_locks
from wakeful.store.protocol import Store
from wakeful.system import open_store

if TYPE_CHECKING:
    from wakeful.views.view import View


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Store]:
    """The store, open for looking at it beside whoever runs it."""
    if url == "memory:":
        raise CommandError(
            "memory: lives and dies with its process, nobody else can look into it; use sqlite:PATH",
            code="store.memory",
            exit_code=USAGE,
        )
    store = open_store(url)
    try:
        async with naming_locks(store, url):
            await store.open(now=output.now_ms(), readonly=True)
            output.follow(await store.time())
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def viewing(url: str) -> AsyncIterator["View"]:
    """The same, to look through: at the time that the store's own clock shows, or this machine's."""
    from wakeful.views.view import View

    async with reading(url) as store:
        yield View.of_store(store, output.now_ms())


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The store, open for writing to it in the place of a process that runs it; `FileOwned` when there is one."""
    async with reading(url):
        pass  # refuses what has no tables, or others; opening it to write would make them
    store = open_store(url)
    try:
        async with naming_locks(store, url):
            await store.open(now=output.now_ms())
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def writing(url: str, *, what: str) -> AsyncIterator[Store]:
    """The store that several nodes share, open for an operator's wish; one of a single process has no use for it."""
    store = open_store(url)
    if not store.shared:
        raise CommandError(
            f"{what} is for stores that several nodes share; {store.url} has one process, stop that instead",
            code="store.single",
            exit_code=USAGE,
        )
    async with opened(url) as store:
        yield store
