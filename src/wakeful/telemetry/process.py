"""Layer 5. How is this process, as its operating system sees it?"""

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import wakeful

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

_STARTED_S = time.time()  # near enough where the system does not say
Found = Iterable[tuple[tuple[str, ...], float]]


def build(node: "Node") -> Found:
    return [((wakeful.__version__, platform.python_version()), 1)]


def cpu(node: "Node") -> Found:
    return [((), time.process_time())]


def resident(node: "Node") -> Found:
    """Where the system tells."""
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as file:
        return [((), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]
    if sys.platform != "win32":
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return [((), most if sys.platform == "darwin" else most * 1024)]
    return []


def files(node: "Node") -> Found:
    """Where the system tells."""
    with contextlib.suppress(OSError):
        return [((), len(os.listdir("/proc/self/fd")) - 1)]  # one is the listing itself
    return []


def start(node: "Node") -> Found:
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            booted = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
        return [((), booted + ticks / os.sysconf("SC_CLK_TCK"))]
    return [((), _STARTED_S)]
