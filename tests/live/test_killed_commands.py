"""Real processes: a command that is killed where it changes something has done all or nothing, and can be run again."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.live.harness import IS_LONG, PROGRAMS, looking
from tests.yardstick import PATIENCE_S
from wakeful.store.protocol import Query
from wakeful.values.timers import Timer

COMMANDS = ["open", "migrate", "move", "export", "import", "machines", "keys"]


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_whatever_is_killed_is_finished_by_a_second_run(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if kind == "postgres" and not IS_LONG:
        pytest.skip("to make and drop schemas takes long; make live does it")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    url = "" if kind == "sqlite" else request.getfixturevalue("postgres_schema_url")
    shim = tmp_path / "pulling.so"
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", shim, PROGRAMS / "pulling.c", "-ldl"],
        capture_output=True,
        timeout=PATIENCE_S,
    )
    if built.returncode != 0:
        pytest.skip(f"the compiler does not work here: {built.stderr.decode()[-300:]}")
    # Killed before syncs, names and what is sent; in the long form also before and in the middle of every write,
    # stopped by SIGINT and SIGTERM, and on a disk that is full from there on.
    ways, most = ("skhitf", 10) if IS_LONG else ("s", 1)
    memory = Path("/dev/shm")  # it is about what is killed, and a real disk would be asked very often to sync
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        done = subprocess.run(
            [sys.executable, PROGRAMS / "pulled.py", folder, url, ways, str(most), *COMMANDS],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            capture_output=True,
            text=True,
            timeout=2_900 if IS_LONG else 1_500,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["wrong"] == []
    assert sorted(said["kills"]) == sorted(COMMANDS)
    assert min(said["kills"].values()) >= most, said["kills"]


@pytest.mark.parametrize(
    ("how", "interrupts"),
    [
        (signal.SIGINT, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_IGN),  # in the background of a script
    ],
)
def test_a_command_that_runs_a_program_stops_it_cleanly_when_it_is_ended(
    how: signal.Signals, interrupts: signal.Handlers, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path}/app.db"
    command = [sys.executable, "-m", "wakeful.cli", "call", "Slow", "k", "begin", "--store", url, "--app"]
    with subprocess.Popen(
        [*command, str(PROGRAMS / "pulled_app.py")],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupts),  # whatever these tests themselves were given
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "[began]\n"
            process.send_signal(how)
            assert process.wait(PATIENCE_S) == 128 + how
        finally:
            process.kill()

    async def timer() -> Timer:
        async with looking(url) as store:
            [found] = await store.find_timers(Query(limit=10))
            return found

    found = asyncio.run(timer())
    assert (found.id.key, found.started, found.crashes) == ("other", 0, 0), "it counts as one that killed its process"
