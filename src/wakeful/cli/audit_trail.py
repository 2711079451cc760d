"""Layer 5. How does a command reach what Wakeful keeps for itself, and leave a row of what it did?

Through the process that runs the store; without one, the command does on the store what the object would have done.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from wakeful.cli.output import now_ms

if TYPE_CHECKING:
    from wakeful.operations.acts import Acts, Send
    from wakeful.store.protocol import Store


def bare(store: "Store") -> "Send":
    """Calls of the reserved objects on a store that no process runs, open for writing."""
    from wakeful.security.reserved import Bare

    return Bare(store, f"command-{uuid.uuid4().hex[:8]}", now_ms).send


@asynccontextmanager
async def reserved(url: str, *, makes: bool = False) -> AsyncIterator["Send"]:
    """Something that brings calls to the reserved objects. `makes`: also in a store that is not there yet."""
    from wakeful.cli.node_access import connected
    from wakeful.cli.object_calls import live
    from wakeful.cli.store_session import reading
    from wakeful.security.audit import LOG
    from wakeful.system import open_store
    from wakeful.values.errors import SchemaTooOld, StoreError

    async with AsyncExitStack() as stack:
        client = None
        try:
            client = await stack.enter_async_context(connected(await stack.enter_async_context(reading(url)), LOG))
        except StoreError as error:
            # A database without tables is as old as can be; opening it makes them, and refuses what is old in earnest.
            if not makes or type(error) not in (StoreError, SchemaTooOld):
                raise
        if client is not None:
            yield live(client)
            return
        await stack.aclose()
        store = open_store(url)
        await store.open(now=now_ms())
        stack.push_async_callback(store.close)
        yield bare(store)


@asynccontextmanager
async def acting(url: str, *, makes: bool = False) -> AsyncIterator["Acts"]:
    """An operator's hand for what the reserved objects keep."""
    from wakeful.cli.object_calls import actor
    from wakeful.operations.acts import Acts

    async with reserved(url, makes=makes) as send:
        yield Acts(send, actor())
