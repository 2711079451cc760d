"""A program that runs in a loop of its own, in a thread, for tools that bring theirs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wakeful import App
from wakeful.server import Site


class Bridge:
    """The site as an ASGI application for any loop: whole requests go over, whole answers come back."""

    def __init__(self, loop: asyncio.AbstractEventLoop, site: Site) -> None:
        self._loop = loop
        self._site = site

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        way = self._answer({**scope, "client": ("127.0.0.1", 1)}, body)
        answer = asyncio.run_coroutine_threadsafe(way, self._loop)
        for message in await asyncio.wrap_future(answer):
            await send(message)

    async def _answer(self, scope: Any, body: bytes) -> list[Any]:
        incoming, outgoing = [{"type": "http.request", "body": body, "more_body": False}], list[Any]()

        async def receive() -> Any:
            return incoming.pop() if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            outgoing.append(message)

        async with asyncio.timeout(30):  # nothing hangs
            await self._site(scope, receive, send)
        return outgoing


@contextmanager
def bridged(app: App, url: str = "memory:", **options: Any) -> Iterator[Bridge]:
    """The program runs on that store until the block ends."""
    loop = asyncio.new_event_loop()
    ready: asyncio.Future[None] = loop.create_future()
    over = asyncio.Event()

    async def life() -> None:
        async with app.run(url):
            ready.set_result(None)
            await over.wait()

    def work() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(life())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(asyncio.wait_for(asyncio.shield(ready), 30), loop).result(30)
    try:
        yield Bridge(loop, Site(app, dashboard=False, **options))
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
