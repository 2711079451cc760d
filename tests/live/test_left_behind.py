"""A run of the tests that is interrupted or killed leaves no process behind, and no folder of a database."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests import keeper, memory_disk
from tests.live.harness import PROGRAMS
from tests.yardstick import PATIENCE_S

ROOT = Path(__file__).parents[2]
# What suites start: a PostgreSQL that is a daemon, a server with a supervisor above it in a session of its own, another
# that is frozen, and one whose own parent is gone already.
INNER = """
import os, signal, subprocess, sys, time
from pathlib import Path
import pytest

HERE = Path(__file__).parent

@pytest.mark.parametrize("part", [1, 2])
def test_it(postgres_server, part):
    command = [sys.executable, "-m", "wakeful.cli", "dev", os.environ["INNER_APP"], "--http", "off"]
    served = subprocess.Popen(
        [*command, "--store", f"sqlite:{HERE}/{part}.db"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in served.stdout:
        if "ready" in line:
            break
    frozen = subprocess.Popen(["sleep", "1000"])
    frozen.send_signal(signal.SIGSTOP)
    subprocess.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    (HERE / f"began{part}").write_text(postgres_server)
    time.sleep(1000)
"""


@contextmanager
def inner(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A run of pytest in a session of its own, in the midst of a test; and the mark of what it started."""
    (folder / "test_inner.py").write_text(INNER)
    ours = (ROOT / "tests" / "conftest.py").read_text()
    (folder / "conftest.py").write_text(ours)
    environment = {name: value for name, value in os.environ.items() if name != "WAKEFUL_TEST_POSTGRES"}
    environment |= {"INNER_APP": str(PROGRAMS / "pulled_app.py"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["--confcutdir", str(folder), *options]
    with (folder / "log").open("wb") as log:
        run = subprocess.Popen(
            [*command, str(folder)], stdout=log, stderr=log, start_new_session=True, env=environment, cwd=folder
        )
    try:
        workers = 2 if "2" in options else 1
        end = time.monotonic() + PATIENCE_S
        while len(list(folder.glob("began*"))) < workers:
            assert run.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.1)
        [mark] = {
            its for one in below(run.pid) if (its := mark_of(one)).count("/") == os.environ[keeper.MARK].count("/") + 1
        }
        yield run, mark
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def mark_of(process: psutil.Process) -> str:
    try:
        return process.environ().get(keeper.MARK, "")
    except psutil.Error:
        return ""


def names(processes: list[psutil.Process]) -> list[str]:
    found = []
    for one in processes:
        with suppress(psutil.Error):
            found.append(" ".join(one.cmdline()) or one.name())
    return found


def gone(mark: str, processes: list[psutil.Process]) -> None:
    """Nothing that has the mark, or was seen to be started, is left after a while."""
    end = time.monotonic() + PATIENCE_S
    while left := {*keeper.left_of(mark), *(one for one in processes if keeper._is_alive(one))}:
        assert time.monotonic() < end, names(list(left))
        time.sleep(0.1)


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "2")], ids=["alone", "workers"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_a_run_that_is_ended(how: signal.Signals, options: tuple[str, ...], tmp_path: Path) -> None:
    with inner(tmp_path, *options) as (run, mark):
        started = {*keeper.left_of(mark), *below(run.pid)}
        kinds = " ".join(names(list(started)))
        for word in ("postgres", "wakeful.cli dev", "sleep 1000"):
            assert word in kinds, "it starts less than this is about"
        folders = set(re.findall(rf"{memory_disk.folder()}/wakeful-postgres-\w+", kinds))
        assert folders
        os.killpg(run.pid, how)  # as a terminal does: the whole group
        run.wait(PATIENCE_S)
        gone(mark, list(started))
        end = time.monotonic() + PATIENCE_S
        while any(os.path.exists(folder) for folder in folders):
            assert time.monotonic() < end, folders
            time.sleep(0.1)


def test_what_a_killed_worker_started_goes_with_it(tmp_path: Path) -> None:
    with inner(tmp_path, "-n", "2") as (run, mark):
        worker = next(one for one in psutil.Process(run.pid).children() if "exec(eval(" in " ".join(one.cmdline()))
        [its] = {found for one in worker.children() if (found := mark_of(one)).startswith(f"{mark}/")}
        started = [one for one in keeper.left_of(its) if one != worker]
        assert "postgres" in " ".join(names(started))
        worker.kill()
        gone(its, started)
        assert run.poll() is None, "the others go on"
