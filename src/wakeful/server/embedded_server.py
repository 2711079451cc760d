"""Layer 5. How does the server run inside a process that is running already, and end with it?

uvicorn in the loop that there is. It takes no signals: those are the program's. At the end no new connections are
taken, requests that are under way are finished, streams are told, and only then the node stops.
"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn

from wakeful.http.protocol import SocketProtocol
from wakeful.server.guard import Guarded
from wakeful.server.site import Site
from wakeful.values.errors import AddressInUse, BadAddress, WrongCertificate

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.runtime.node import Node

# What uvicorn says of a request that we have refused, or whose client has gone: a stranger could write as many lines as it
# likes. What is refused is in our own log, once a minute.
UNFINISHED = {
    "ASGI callable returned without completing handshake.",
    "ASGI callable returned without completing response.",
}
KEEP_ALIVE_S = 30
FINISH_S = 10  # what requests that are under way are given at the end
BACKLOG = 2_048
SWITCH_S = 0.0005
NEXT_PORTS = 20  # looked at when the first is taken


class Served(NamedTuple):
    """A server that runs: where, and what."""

    url: str
    host: str
    port: int
    site: Site


class Quiet(uvicorn.Server):
    """One that leaves signals to the program, and ends streams when it ends."""

    def __init__(self, config: uvicorn.Config, site: Site | None = None) -> None:
        super().__init__(config)
        self._site = site
        if site is not None:
            site.stops.is_told = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()  # before the streams, whose clients come back at once
        if self._site is not None:
            self._site.hang_up()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    app: "App",
    node: "Node",
    address: str = "127.0.0.1:7420",
    *,
    next_port: bool = False,
    certificate: str | None = None,
    key: str | None = None,
    listener: socket.socket | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """Serve the app, which runs on that node, at HOST:PORT for as long as the block lasts.

    With `next_port` one of the ports behind it will do when it is taken. `certificate` and `key` are files for TLS;
    `options` those of `Site`; `listener` a socket that listens at the address already, for several processes to accept from.
    Without tokens only this machine is listened to: `NoToken` for other hosts.
    """
    host, port = parse_address(address)
    site = Site(app, **options)
    await site.gate.check_bind(host)
    made = listener or bind(host, port, tries=NEXT_PORTS if next_port and port else 1)
    config = server_config(site, app.deployment.limits.socket_message_bytes, ssl_certfile=certificate, ssl_keyfile=key)
    try:
        config.load()
    except OSError as error:
        made.close()
        raise WrongCertificate(f"TLS: {certificate} and {key} can't be used: {error}") from None
    if listener is not None:
        from wakeful.telemetry.prometheus import answer_siblings

        answer_siblings(node, app.deployment)
    server = Quiet(config, site)
    # Lists are read in a thread beside the loop, which must not wait five milliseconds for it again and again.
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(min(interval_s, SWITCH_S))
    serve = asyncio.ensure_future(server.serve(sockets=[made]))
    try:
        while not server.started:
            if serve.done():
                await serve
            await node.clock.sleep(1)
        port = made.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        yield Served(f"{'https' if certificate else 'http'}://{shown}:{port}", host, port, site)
    finally:
        sys.setswitchinterval(interval_s)
        server.should_exit = True
        await serve
        made.close()


class Hush(logging.Filter):
    """Lets pass what uvicorn's log says, but for what strangers could have it say."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not isinstance(record.msg, str) or record.msg not in UNFINISHED


_HUSH = Hush()


def server_config(asgi: Any, message_bytes_max: int, **more: Any) -> uvicorn.Config:
    """How whatever is served is: with our own limits, and in silence."""
    logging.getLogger("uvicorn.error").addFilter(_HUSH)
    return uvicorn.Config(
        asgi,
        http=Guarded,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=FINISH_S,
        ws=SocketProtocol,
        ws_max_size=message_bytes_max,
        ws_per_message_deflate=False,
        **more,
    )


def parse_address(address: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPV6]:PORT`; `BadAddress` for anything else."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadAddress(f"{address!r} is no address; write HOST:PORT, like 127.0.0.1:7420", code="address.http")
    return host, int(port)


def bind(host: str, port: int, *, tries: int = 1) -> socket.socket:
    """A socket that listens there, or at one of the ports behind it; `AddressInUse` when all are taken.

    It listens at once: two processes can be bound to one port for as long as neither does, and then one of them fails.
    """
    family = socket.AF_INET6 if _is_ipv6(host) else socket.AF_INET
    for number in range(port, min(port + tries, 65_536)):
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, number))
            made.listen(BACKLOG)
            made.setblocking(False)
            return made
        except OSError as error:
            made.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise BadAddress(
                    f"{host}:{number} can't be listened on: {error.strerror}", code="address.http"
                ) from None
            if error.errno == errno.EACCES:
                raise BadAddress(f"{host}:{number}: no permission; use a port from 1024", code="address.http") from None
    what = f"{host}:{port}" if tries == 1 else f"{host}:{port} and the {tries - 1} ports behind it"
    raise AddressInUse(f"something else listens on {what}; give another port", code="address.http_in_use")


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
