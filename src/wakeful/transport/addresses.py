"""Layer 2. Where does a node listen, and what address do the others get?"""

import ipaddress
import socket
from typing import NamedTuple

from wakeful.transport.sockets import PATH_BYTES_MAX, SCHEME
from wakeful.values.errors import BadAddress

TCP = "tcp:"
EXAMPLE = "like 10.0.0.5:7400, [fd00::5]:7400 or unix:/run/wakeful/a.sock"
# Never sent to: asking the kernel which way a packet would take sends none.
_FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class Address(NamedTuple):
    """A Unix socket's path, or a host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_unix(self) -> bool:
        return not self.host

    @property
    def is_loopback(self) -> bool:
        """Only this machine can reach it."""
        if self.is_unix:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_named(self) -> bool:
        """A name for others to look up, which may be known later than this process, or lead elsewhere for a while."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return not self.is_loopback
        return False

    @property
    def is_wildcard(self) -> bool:
        """Every address of this machine: fine to listen on, nothing that another machine could dial."""
        try:
            return not self.is_unix and ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.is_unix:
            return f"{SCHEME}{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TCP}{host}:{self.port}"


def parse(text: str, *, is_listening: bool = False) -> Address:
    """The address in a text; `BadAddress` says what is wrong with it. Port 0 and a bare `unix:` only to listen on."""
    if text.startswith(SCHEME):
        return Address(path=_path(text, is_listening))
    host, colon, digits = text.removeprefix(TCP).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadAddress(f"address {text!r}: put an IPv6 address in brackets, {EXAMPLE}")
    if not colon or not digits.isascii() or not digits.isdecimal():
        raise BadAddress(f"address {text!r} has no port; give one {EXAMPLE}")
    port = int(digits)
    if port > 65_535 or (port == 0 and not is_listening):
        raise BadAddress(f"address {text!r}: a port is a number from 1 to 65535")
    if not host or any(letter.isspace() or letter in "/@" for letter in host):
        raise BadAddress(f"address {text!r} has no host; give one {EXAMPLE}")
    return Address(host=host, port=port)


def derive(address: Address) -> Address:
    """The same port at the address by which this machine goes out, for others to dial."""
    for family, far in _FAR:
        if family == socket.AF_INET6 and ":" not in address.host:
            continue  # listens on IPv4 only
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                host = str(probe.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(host).is_loopback:
            return address._replace(host=host)
    raise BadAddress(
        f"others can't dial {address}, and this machine has no address of its own that they could; "
        "give the one they reach it by with --advertise HOST:PORT",
        code="address.advertise",
    )


def _path(text: str, is_listening: bool) -> str:
    path = text.removeprefix(SCHEME)
    if not path and is_listening:
        return ""
    if not path.startswith("/") or "\0" in path:
        raise BadAddress(f"address {text!r}: give the whole path, {EXAMPLE}")
    size = len(path.encode(errors="surrogateescape"))
    if size > PATH_BYTES_MAX:
        raise BadAddress(f"address {text!r}: {size} bytes of path, a socket can have {PATH_BYTES_MAX}")
    return path
