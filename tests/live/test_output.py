"""Real processes: commands whose output nobody reads to its end, or has no room."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.harness import PROGRAMS
from tests.yardstick import PATIENCE_S

WAKEFUL = [sys.executable, "-m", "wakeful.cli"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:{tmp_path}/app.db"
    call = ["call", "Plain", "a", "touch", "20", "--app", str(PROGRAMS / "pulled_app.py")]
    subprocess.run([*WAKEFUL, *call, "--store", url], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    return url


def test_whoever_has_read_enough_made_no_mistake(url: str) -> None:
    for args in (("ls",), ("export", "Plain", "a")):
        with subprocess.Popen(
            [*WAKEFUL, *args, "--store", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert (process.stderr.read(), process.wait(60)) == ("", 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_disk_that_is_full_is_said_in_one_line(url: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*WAKEFUL, "export", "Plain", "a", "--store", url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
        )
    said = "error: the output can't be written: No space left on device; what was written of it is not whole [output]\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_and_so_it_is_with_json(url: str) -> None:
    with open("/dev/full", "wb") as full:
        args = [*WAKEFUL, "ls", "--json", "--store", url]
        done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_whoever_has_closed_the_output_wants_none(url: str, closed: str) -> None:
    for args in (["ls"], ["ls", "--json"]):
        line = f"{shlex.join([*WAKEFUL, *args, '--store', url])} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stderr) == (0, "")
        assert ("Plain" in done.stdout) == (closed == "2>&-")
