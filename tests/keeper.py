"""Nothing that a run of the tests started outlives it, however it ends: Ctrl-C, a killed worker, kill -9.

Each process of pytest has a keeper beside it, which waits for its end and then kills what is left. It knows them by a
mark in their environment, which children, their children and daemons (PostgreSQL) inherit; the workers of xdist and
what they started have the mark of their controller in theirs, so that its keeper finds them all.
"""

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import IO

import psutil

MARK = "TESTS_KEEPER"  # not WAKEFUL_…, which many tests take out of their children's environment
GONE_S = 60.0  # within which everything must be gone; later nobody waits for it any more

_keeper: subprocess.Popen[str] | None = None


def start() -> None:
    """Let somebody watch over this process; what it starts from now on goes with it."""
    global _keeper
    if _keeper is not None:
        return
    mark = f"{os.environ.get(MARK, '')}/{os.getpid()}-{time.time_ns()}"
    _keeper = subprocess.Popen(
        [sys.executable, __file__, mark, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is not for it
    )
    os.environ[MARK] = mark
    atexit.register(_leave, _keeper)


def _leave(keeper: subprocess.Popen[str]) -> None:
    """It outlives this process by a moment, on purpose: nobody is to be warned of that."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    keeper.returncode = 0


def also(folder: str) -> None:
    """Let the keeper remove this folder at the end, if it is there still."""
    if _keeper is not None and _keeper.stdin is not None:
        _keeper.stdin.write(f"{folder}\n")
        _keeper.stdin.flush()


def left_of(mark: str) -> list[psutil.Process]:
    """The processes that run with this mark or one below it, and their children."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            its = process.environ().get(MARK, "")
            if its == mark or its.startswith(f"{mark}/"):
                # Some write over their environment, as PostgreSQL's children do to tell what they are at.
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
        except (psutil.Error, OSError):
            continue  # of another user, or gone
    return [one for one in found.values() if _is_alive(one) and not _is_keeper(one)]


def _is_keeper(process: psutil.Process) -> bool:
    """Those of workers see to their own, and end by themselves."""
    try:
        return __file__ in process.cmdline()
    except psutil.Error:
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end(process: psutil.Process, is_first: bool) -> None:
    """PostgreSQL gives its shared memory back if it is asked to go at once; the rest has nothing to say."""
    try:
        process.send_signal(signal.SIGQUIT if is_first and process.name() == "postgres" else signal.SIGKILL)
        process.send_signal(signal.SIGCONT)  # a test may have frozen it
    except psutil.Error:
        pass


def _wait_for_end(of: psutil.Process | None, said: IO[str]) -> set[str]:
    """Until it has ended; the folders that it asked to have removed."""
    folders: set[str] = set()
    while of is not None and _is_alive(of):
        if select.select([said], [], [], 1.0)[0]:
            line = said.readline()
            if not line:
                break  # it holds the other end: it is gone, or as good as
            folders.add(line.rstrip("\n"))
    return folders


def _keep(mark: str, pid: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        of = psutil.Process(pid)
    except psutil.NoSuchProcess:
        of = None
    folders = _wait_for_end(of, sys.stdin)
    end, quit_at = time.monotonic() + GONE_S, time.monotonic() + 2.0
    while (left := left_of(mark)) and time.monotonic() < end:
        for process in left:
            _end(process, time.monotonic() < quit_at)
        time.sleep(0.1)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(sys.argv[1], int(sys.argv[2]))
