"""What `wakeful completion` prints, in the very shells it is for: names with blanks, colons, commas and quotes arrive whole."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)
KEYS = ("eu", "us/1:a", "us/1:b", "with space", "日本", "x,1", "it's")
PATIENCE_S = 180.0


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed; apt install {shell}")


@pytest.fixture
def folder(wakeful: Stage) -> Path:
    """A store with such keys, and a command `wakeful` beside it."""

    async def live(world: Any, call: Any) -> None:
        for key in KEYS:
            await world.node.send(ObjectId("Report", key), "heal", (), {})

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")
    command = wakeful.path / "wakeful"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m wakeful.cli "$@"\n')
    command.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        (wakeful.path / f"script.{shell}").write_text(wakeful("completion", shell).out)
    wakeful.monkeypatch.setenv("PATH", f"{wakeful.path}:{os.environ['PATH']}")
    wakeful.monkeypatch.setenv("HOME", str(wakeful.path))
    return wakeful.path


@needs("bash")
def test_bash(folder: Path) -> None:
    lines = ("why Report e", "show Report us/1:", "show Report w", "show Report x", "sho")
    (folder / "try.sh").write_text(
        "source script.bash\n"
        f"for COMP_LINE in {' '.join(f'{chr(34)}wakeful {line}{chr(34)}' for line in lines)}; do\n"
        '  COMP_POINT=${#COMP_LINE}; _wakeful_completion wakeful; printf "%s|" "${COMPREPLY[@]}"; echo\n'
        "done\n"
    )
    done = subprocess.run(["bash", "try.sh"], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["eu|", "a|b|", "'with space'|", "x,1|", "show|"], done.stderr


@needs("fish")
def test_fish(folder: Path) -> None:
    def offered(line: str) -> list[str]:
        command = ["fish", "--no-config", "-c", f'source script.fish; complete -C "wakeful {line}"']
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert offered("sho") == ["show\tShow one object: state, keys, timers, ledger."]
    assert offered("show Report us/1:") == ["us/1:a", "us/1:b"]
    assert offered("show Report w") == ["with space"]
    assert offered("show Report x") == ["x,1"]


class Zsh:
    """An interactive zsh on a terminal of its own: its completion needs one."""

    # Control-X writes down what stands on the line, and clears it.
    BEGIN = (
        "autoload -U compinit; compinit -u -D; source ./script.zsh; unsetopt beep; "
        'noted() { print -rn -- "$BUFFER|" > ./noted; BUFFER=; }; zle -N noted; bindkey "^X" noted; : > ./begun\n'
    )

    def __init__(self, folder: Path, terminal: int) -> None:
        self._folder = folder
        self._terminal = terminal
        os.write(terminal, self.BEGIN.encode())
        self._wait("begun")

    def completed(self, line: str) -> str:
        """The line after a TAB at its end."""
        (self._folder / "noted").unlink(missing_ok=True)
        os.write(self._terminal, f"{line}\t\x18".encode())
        return self._wait("noted", until="|").removesuffix("|")

    def _wait(self, name: str, until: str = "") -> str:
        file, end, seen = self._folder / name, time.monotonic() + PATIENCE_S, b""
        while not file.exists() or not file.read_text().endswith(until):
            assert time.monotonic() < end, seen.decode(errors="replace")
            if select.select([self._terminal], [], [], 0.02)[0]:  # what it draws must be read, or it would wait
                seen += os.read(self._terminal, 65_536)
        return file.read_text()


@contextmanager
def zsh(folder: Path) -> Iterator[Zsh]:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as run:
        os.close(theirs)
        try:
            yield Zsh(folder, ours)
        finally:
            run.kill()
            os.close(ours)


@needs("zsh")
def test_zsh(folder: Path) -> None:
    with zsh(folder) as shell:
        assert shell.completed("wakeful sho") == "wakeful show "
        assert shell.completed("wakeful show Report us/") == "wakeful show Report us/1:"
        assert shell.completed("wakeful show Report w") == "wakeful show Report with\\ space "
        assert shell.completed("wakeful show Report x") == "wakeful show Report x,1 "
        assert shell.completed("wakeful show Report it") == "wakeful show Report it\\'s "
        assert shell.completed("wakeful show Report 日") == "wakeful show Report 日本 "
