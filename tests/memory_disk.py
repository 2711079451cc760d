"""Where do tests keep their files? In memory, where there is room: on a busy disk each of a million fsyncs takes its turn.

What they prove needs no disk: whatever else ends in a test, the kernel keeps what was written. The few that are about a
disk bring one of their own (`tests/live/disks.py`).
"""

import os
import shutil
import tempfile
from pathlib import Path

SHARED = Path("/dev/shm")
ROOT = "PYTEST_DEBUG_TEMPROOT"  # where pytest makes its folders; its workers inherit it
NEEDED_BYTES = 6 * 2**30  # a run leaves a third of this at most; a container's own /dev/shm has 64 MiB


def folder() -> str:
    """The folder for temporary ones: in memory, or the system's."""
    return os.environ.get(ROOT) or tempfile.gettempdir()


def choose() -> None:
    """Let pytest and whoever asks `folder` use memory from now on, unless somebody has said where, or there is little of it."""
    if ROOT in os.environ or "TMPDIR" in os.environ or not os.access(SHARED, os.W_OK | os.X_OK):
        return
    if shutil.disk_usage(SHARED).free >= NEEDED_BYTES and _available_bytes() >= 2 * NEEDED_BYTES:
        os.environ[ROOT] = str(SHARED)


def _available_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
