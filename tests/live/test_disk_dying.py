"""SQLite on a disk that fails at every single write, sync and truncation in its turn: a turn is whole or not at all."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.live.harness import IS_LONG, PROGRAMS
from tests.yardstick import PATIENCE_S


def test_whatever_fails_no_turn_is_torn_lost_or_done_though_it_was_refused(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    shim = tmp_path / "failing.so"
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", shim, PROGRAMS / "failing.c", "-ldl"],
        capture_output=True,
        timeout=PATIENCE_S,
    )
    if built.returncode != 0:
        pytest.skip(f"the compiler does not work here: {built.stderr.decode()[-300:]}")
    # In memory where that can be: it is about what fails, and a real disk would be asked ten thousand times to sync.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        done = subprocess.run(
            [sys.executable, PROGRAMS / "dying.py", folder, "long" if IS_LONG else "short"],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            capture_output=True,
            text=True,
            timeout=800,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    lives = said["lives"]
    assert {name[0] for name in lives} == {"w", "s", "t"}, lives
    assert min(lives.values()) >= 3, lives
    assert sum(lives.values()) > 300, lives
