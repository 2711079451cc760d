"""Layer 2. Where do the control sockets of this user's nodes live, and who may reach them?"""

import contextlib
import os
import socket
import stat
import tempfile
from pathlib import Path

from wakeful.values.errors import Unavailable

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
