"""A place for a database that can be made full and have room again."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest


class Disk(Protocol):
    folder: Path

    def fill(self) -> None: ...

    def free(self) -> None: ...


class Tmpfs:
    """A small file system of its own: a write fails with ENOSPC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        with open(self.folder / "filler", "ab", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(4096))

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)


class Quota:
    """No file of this process may grow: a write fails with EFBIG. Needs no rights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        # Python ignores SIGXFSZ from its start, so the write itself fails.
        largest = max(path.stat().st_size for path in self.folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@contextmanager
def tmpfs(folder: Path) -> Iterator[Tmpfs]:
    """A mounted one. The mount goes even if this process is killed: a shell waits for the end of its stdin."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, timeout=10).returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    with subprocess.Popen(
        ["sh", "-c", 'read _; umount -l "$0"', folder], stdin=subprocess.PIPE, start_new_session=True
    ) as guard:
        try:
            yield Tmpfs(folder)
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            guard.wait(10)


@contextmanager
def quota(folder: Path) -> Iterator[Quota]:
    folder.mkdir()
    made = Quota(folder)
    try:
        yield made
    finally:
        made.free()
