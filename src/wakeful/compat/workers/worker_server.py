"""Layer 5. How is a Worker served inside a process that runs its objects?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from wakeful.compat.workers.site import WorkerSite
from wakeful.values.errors import MissingExtra

if TYPE_CHECKING:
    from wakeful.compat.workers.worker import Worker

ADDRESS = "127.0.0.1:8787"
NEXT_PORTS = 20  # looked at when the first is taken


@asynccontextmanager
async def serving(worker: "Worker", address: str = ADDRESS, *, next_port: bool = False) -> AsyncIterator[str]:
    """Answer HTTP and WebSockets at HOST:PORT with the Worker's `fetch` for as long as the block lasts; its URL.

    The app must be running. With `next_port` one of the ports behind it will do when it is taken.
    """
    try:
        from wakeful.server.embedded_server import Quiet, bind, configured, parse_address
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "wakeful":
            raise
        raise MissingExtra(
            "serving a Worker needs a web server; pip install 'wakeful[server]'", code="extra.server"
        ) from None
    host, port = parse_address(address)
    made = bind(host, port, tries=NEXT_PORTS if next_port and port else 1)
    config = configured(WorkerSite(worker), worker.app.limits.socket_message_bytes)
    server = Quiet(config)
    serve = asyncio.ensure_future(server.serve(sockets=[made]))
    try:
        while not server.started:
            if serve.done():
                await serve
            await asyncio.sleep(0.002)
        yield f"http://{f'[{host}]' if ':' in host else host}:{made.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serve
        made.close()
