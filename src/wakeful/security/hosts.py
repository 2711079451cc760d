"""Layer 5, pure. Where does a request come from, as far as its address and headers tell?

Without tokens the server trusts the machine it runs on, and nothing else. A page in a browser on that machine is
something else: it may send requests to loopback under a name that it lets point there (DNS rebinding), or as a form of
another site. A proxy is something else too: all it passes on comes from loopback.
"""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# What a request has to say for itself. One that says any of it twice is refused: two readers may believe different ones.
_WANTED = frozenset(
    {b"host", b"origin", b"authorization", b"cookie", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"}
    | {b"x-csrf-token", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
    | {b"x-forwarded-port", b"via", b"x-forwarded-server", b"cf-connecting-ip", b"true-client-ip", b"x-client-ip"}
)
_ONCE = frozenset({b"host", b"origin", b"authorization", b"sec-fetch-site", b"x-csrf-token"})
FORWARDING = _WANTED - _ONCE - {b"cookie", b"sec-fetch-mode", b"sec-fetch-dest"}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

Headers = Mapping[bytes, bytes]


def headers_of(scope: Mapping[str, Any]) -> tuple[dict[bytes, bytes], bool]:
    """The headers that matter here, and whether each that must be there at most once is."""
    headers: dict[bytes, bytes] = {}
    is_clean = True
    for name, value in scope.get("headers", ()):
        if name in _WANTED:
            if name in headers and name in _ONCE:
                is_clean = False
            headers[name] = headers[name] + b"; " + value if name == b"cookie" and name in headers else value
    return headers, is_clean


@lru_cache(maxsize=1_024)  # asked twice of every request
def is_loopback(host: str | None) -> bool:
    """An address, or the name `localhost`, that can only mean this machine."""
    if not host:
        return False
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def host_name(host: str) -> str:
    """`[::1]:7420` and `localhost:7420` without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def why_not_local(peer: str | None, headers: Headers) -> str | None:
    """What makes this request one that may come from elsewhere; None: it is of this machine."""
    if not is_loopback(peer):
        return f"it comes from {peer or 'an unknown address'}"
    if not is_loopback(host_name(headers.get(b"host", b"").decode("latin-1"))):
        return f"its Host is {headers.get(b'host', b'').decode('latin-1')[:100]!r}, not localhost"
    passed = next((name for name in headers if name in FORWARDING), None)
    if passed is not None:
        return f"a proxy passed it on ({passed.decode()})"
    return None


def why_cross_site(
    headers: Headers, *, method: str, is_socket: bool, origins: frozenset[str] = frozenset()
) -> str | None:
    """What makes this request one that a page of another site sent; None: nothing does.

    A page of one of the `origins` is none. Reading is left to the browser, which shows no site what another answered;
    except for sockets, which it does not guard. Programs that are no browsers send none of these headers.
    """
    is_safe = method in SAFE and not is_socket
    origin = headers.get(b"origin")
    text = "" if origin is None else origin.decode("latin-1")
    if text and text in origins:
        return None
    if origin is not None and not is_safe:
        place = text.partition("://")[2]
        if not place or place.lower() != headers.get(b"host", b"").decode("latin-1").lower():
            return f"it was sent by a page of {text[:100]!r}"
        return None
    site = headers.get(b"sec-fetch-site", b"none").decode("latin-1")
    if site in ("none", "same-origin"):
        return None
    is_link = (
        is_safe and headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    )
    if is_link:
        return None
    return f"it was sent by a page of another site ({site[:30]})"
