"""Layer 2. Where does a node listen, what address do the others get, and where are the control sockets of this user's nodes?"""

import contextlib
import ipaddress
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from wakeful.values.errors import BadAddress, Unavailable

# Where do the control sockets of this user's nodes live, and who may reach them?

SCHEME = "unix:"
# A Unix socket's path has 108 bytes on Linux and 104 on macOS, the closing zero included.
PATH_BYTES_MAX = 103
_ENDING = ".sock"


def folder() -> Path:
    """A folder that only this user can enter, made when missing; `Unavailable` when it is somebody else's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        home = Path(runtime) / "wakeful"
    else:
        try:
            home = Path(tempfile.gettempdir()) / f"wakeful-{os.getuid()}"
        except OSError as error:  # it tries them by writing, so a full disk has none
            raise Unavailable(
                f"there is no folder for control sockets: {error.strerror}; make room on the disk, or set XDG_RUNTIME_DIR",
                code="control.folder",
            ) from None
        if len(os.fsencode(home)) > PATH_BYTES_MAX - 40:  # a long TMPDIR leaves no room for the name
            home = Path("/tmp") / home.name
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        found = home.lstat()
    except OSError as error:
        raise Unavailable(f"{home} can't be made: {error.strerror}", code="control.folder") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise Unavailable(f"{home} belongs to somebody else; remove it or set XDG_RUNTIME_DIR", code="control.folder")
    if stat.S_IMODE(found.st_mode) != 0o700:
        home.chmod(0o700)
    return home


def bind(name: str) -> tuple[socket.socket, Path]:
    """A listening socket for the node of that name, which only this user can connect to."""
    home = folder()
    sweep(home)
    path = home / f"{os.getpid()}-{name}{_ENDING}"
    try:
        path.unlink(missing_ok=True)
        return bind_path(path), path
    except OSError as error:
        raise Unavailable(f"{path} can't be listened on: {error}", code="control.socket") from None


def bind_path(path: Path) -> socket.socket:
    """A listening socket there, which only this user can connect to; `OSError` when it can't be.

    One that a dead process left is replaced.
    """
    if path.is_socket() and not _is_open(path):
        path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # not by chmod alone: before that somebody could have connected
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(64)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
    return sock


def sweep(home: Path) -> None:
    """Remove what killed processes left behind: the process is gone and nobody listens."""
    for path in home.glob("*.sock"):
        pid = path.name.partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)) and not _is_open(path):
            with contextlib.suppress(OSError):
                path.unlink()


def path_of(address: str) -> str | None:
    """The path in an address like `unix:/run/…`; None when it is of another kind, or none at all."""
    return address.removeprefix(SCHEME) if address.startswith(SCHEME) else None


def is_control(address: str, node: str) -> bool:
    """Whether it is that of the node's control socket, as `bind` names it."""
    path = path_of(address)
    return path is not None and Path(path).name.endswith(f"-{node}{_ENDING}")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _is_open(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


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
