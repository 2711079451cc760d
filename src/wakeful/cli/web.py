"""Layer 5. Where does a program that runs answer to browsers and HTTP clients, if at all?"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.values.errors import AddressInUse, MissingExtra, StoreError, WakefulError

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.cli.terminal_log import Say
    from wakeful.runtime.node import Node

HTTP = "WAKEFUL_HTTP"
CERTIFICATE, KEY = "WAKEFUL_HTTP_CERT", "WAKEFUL_HTTP_KEY"
OFF = "off"
ADDRESS = "127.0.0.1:7420"
LOOK_S = 5.0  # at a store that may be away, for who only asks


class Http(NamedTuple):
    """What was wished: an address, and whether it must be that one."""

    address: str
    is_asked: bool = True
    certificate: str | None = None
    key: str | None = None
    listener: int | None = None  # a socket that listens there already, which other processes have too


def wish_of(
    given: str | None, *, default: str | None = None, cert: str | None = None, key: str | None = None
) -> Http | None:
    """From the options and the environment; None: nothing is served."""
    address = given or os.environ.get(HTTP) or None
    given_tls = "--http-cert" if cert else "--http-key" if key else ""
    cert, key = cert or os.environ.get(CERTIFICATE), key or os.environ.get(KEY)
    if bool(cert) != bool(key):
        missing = "--http-key" if cert else "--http-cert"
        raise CommandError(
            f"HTTPS needs a certificate and its key, and {missing} is missing", code="http.tls", exit_code=USAGE
        )
    if address == OFF or (address is None and default is None):
        if given_tls and address is None:
            words = f"{given_tls} is for HTTPS, and nothing is served without --http; add --http HOST:PORT"
            raise CommandError(words, code="http.tls", exit_code=USAGE)
        return None
    return Http(address or str(default), address is not None, cert, key)


def check(http: Http | None) -> None:
    """What `web` would raise of an address that must be that one and of its files, before anything is begun.

    A node that joins, finds its port taken and ends would take shards and give them back, at every try of its supervisor.
    """
    if http is None or not http.is_asked:
        return
    check_files(http)
    if http.listener is not None:
        return
    with suppress(ModuleNotFoundError):  # which `web` says in its own words
        from wakeful.server.embedded_server import bind, parse_address

        bind(*parse_address(http.address)).close()


async def check_open(http: Http | None, url: str) -> None:
    """`NoToken` when it would be served beyond this machine from a store that has no tokens, as far as it can be read now."""
    with suppress(ModuleNotFoundError):
        from wakeful.security.gate import too_open
        from wakeful.security.hosts import is_loopback
        from wakeful.server.embedded_server import parse_address

        if http is None or is_loopback(host := parse_address(http.address)[0]):
            return
        if await _has_tokens(url) is False:
            raise too_open(host)


async def _has_tokens(url: str) -> bool | None:
    """None: nobody knows. A file that is not there has none, and neither has what a program keeps in its memory."""
    from wakeful.cli.session import reading
    from wakeful.security.tokens import has_tokens

    if url == "memory:":
        return False
    try:
        async with asyncio.timeout(LOOK_S), reading(url) as store:
            return await has_tokens(store)
    except (TimeoutError, WakefulError) as error:
        return False if type(error) is StoreError else None


def listen(http: Http | None, say: "Say") -> socket.socket | None:
    """A socket for several processes that all answer there; None when nothing is to be served."""
    if http is None or _server(http, say) is None:
        return None
    from wakeful.server.embedded_server import bind, parse_address

    check_files(http)
    return bind(*parse_address(http.address))


@asynccontextmanager
async def web(app: "App", node: "Node", http: Http | None, say: "Say") -> AsyncIterator[str | None]:
    """API and dashboard for as long as the block lasts; their URL, None when there are none."""
    if http is None:
        yield None
        return
    serving = _server(http, say)
    if serving is None:
        yield None
        return
    check_files(http)
    given: dict[str, Any] = {"certificate": http.certificate, "key": http.key}
    if http.listener is not None:
        given["listener"] = socket.socket(fileno=http.listener)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        try:
            served = await enter(serving(app, node, http.address, next_port=not http.is_asked, **given))
        except AddressInUse:
            if http.is_asked:
                raise
            served = await enter(serving(app, node, f"{http.address.rpartition(':')[0]}:0", **given))
        if not http.is_asked and http.address.rpartition(":")[2] != str(served.port):
            say.event("http", f"{http.address} is taken, so the dashboard is at {served.url}", url=served.url)
        yield served.url


def _server(http: Http, say: "Say") -> Any:
    """`server.serving`; None when it is not installed and nobody asked for it by name."""
    try:
        from wakeful.server import serving
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("wakeful"):
            raise
        remedy = "pip install 'wakeful[server]'"
        if http.is_asked:
            raise MissingExtra(f"{error.name} is not installed; --http needs it: {remedy}") from None
        say.event("http", f"no dashboard, {error.name} is not installed: {remedy} adds it")
        return None
    return serving


def check_files(http: Http) -> None:
    """`CommandError` unless the certificate and its key can be used."""
    if http.certificate is None:
        return
    import ssl

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(http.certificate, http.key)
    except (OSError, ssl.SSLError) as error:
        because = error.strerror or str(error)
        raise CommandError(
            f"{http.certificate} and {http.key} can't be used for HTTPS: {because}; both are PEM files",
            code="http.tls",
            exit_code=USAGE,
        ) from None
