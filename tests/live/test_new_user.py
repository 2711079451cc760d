"""A wheel in an empty environment, and the quickstart as somebody new would type it, up to the first alarm that fires."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.tidy import tidy_pages as tidy
from tests.tidy import tidy_source as source
from tests.yardstick import PATIENCE_S

ROOT = source.ROOT
DEADLINE_S = PATIENCE_S


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(folder), str(ROOT)]
    _done([sys.executable, "-m", "pip", "--disable-pip-version-check", *command], folder)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has the wheel and what its core needs, and nothing else."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=False, symlinks=True)
    site = next((home / "lib").glob("python*")) / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home / "bin" / "python")]
    _done([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], home)
    for name in _needed("wakeful"):
        _copied(name, site)
    return home / "bin"


def _needed(name: str, found: set[str] | None = None) -> set[str]:
    """The distributions that one needs without its extras; taken from here, so that no network is."""
    found = set() if found is None else found
    for text in distribution(name).requires or []:
        needed = re.split(r"[\s\[<>=!~;(]", text, maxsplit=1)[0]
        if ";" not in text and needed not in found:
            found.add(needed)
            _needed(needed, found)
    return found


def _copied(name: str, site: Path) -> None:
    for file in distribution(name).files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)


def _done(command: list[str], folder: Path, path: Path | None = None) -> str:
    """What a command says, which must be nothing on stderr that looks like a warning."""
    done = subprocess.run(command, cwd=folder, env=_env(path), capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert not re.search(r"warn|deprecat|traceback", done.stderr, re.IGNORECASE), done.stderr
    return done.stdout


def _env(path: Path | None) -> dict[str, str]:
    """The environment of somebody new: nothing of this project in it, and warnings shown."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL", "PYTHON", "VIRTUAL"))}
    return {**kept, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"], "PYTHONWARNINGS": "default"}


def test_the_wheel_has_what_it_runs_on_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [about] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(about).decode()
    for part in ("wakeful/py.typed", "wakeful/cli/template/app.py.in", "wakeful/dashboard/templates/due.html"):
        assert part in names
    assert any(name.endswith(".sql") for name in names)
    assert [name for name in names if not name.startswith(("wakeful/", "wakeful-"))] == []
    assert "License-Expression: Apache-2.0" in metadata
    assert metadata.count("Project-URL: ") >= 5
    assert wheel.stat().st_size < 3_000_000


def test_the_core_alone_has_its_command_and_no_extra(bin: Path, tmp_path: Path) -> None:
    said = _done([str(bin / "wakeful"), "--version"], tmp_path, bin)
    assert re.search(r"\d+\.\d+\.\d+", said)
    assert "Write and run:" in _done([str(bin / "wakeful"), "--help"], tmp_path, bin)
    code = "import importlib.util as u; print([n for n in ('asyncpg', 'starlette', 'aiohttp', 'uvloop') if u.find_spec(n)])"
    assert _done([str(bin / "python"), "-c", code], tmp_path, bin) == "[]\n"


class Shell:
    """What a person types on a page, block after block; what runs until it is stopped stays in the background."""

    def __init__(self, bin: Path, folder: Path) -> None:
        self.bin, self.folder = bin, folder
        self.behind: subprocess.Popen[str] | None = None
        self.log = folder / "background.log"

    def type(self, block: tidy.Block) -> str:
        if block.mark == "in the background":
            self._start(block.body.strip())
            return ""
        said = _done(["bash", "-euc", f"{block.body}\npwd > {self.folder}/.cwd"], self.folder, self.bin)
        self.folder = Path((self.folder / ".cwd").read_text().strip())
        return said

    def _start(self, line: str) -> None:
        *before, last = line.split(" && ")
        for command in before:
            self.type(tidy.Block("sh", command, "", "", 0))
        with self.log.open("w") as out:
            self.behind = subprocess.Popen(
                ["bash", "-c", f"exec {last} --http off"],
                cwd=self.folder,
                env=_env(self.bin),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.wait(lambda: "ready" in self.log.read_text())

    def wait(self, is_true: Callable[[], bool]) -> None:
        until = time.monotonic() + DEADLINE_S
        while not is_true():
            assert time.monotonic() < until, self.log.read_text()
            assert self.behind is None or self.behind.poll() is None, self.log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        if self.behind is not None:
            self.behind.send_signal(signal.SIGTERM)
            assert self.behind.wait(timeout=DEADLINE_S) == 0


@pytest.fixture
def shell(bin: Path, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(bin, tmp_path)
    try:
        yield made
    finally:
        made.stop()


def _blocks(page: Path) -> list[tidy.Block]:
    return [
        block
        for block in tidy.blocks(page.read_text(encoding="utf-8"))
        if block.language == "sh" and block.mark != "not run"
    ]


def test_the_quickstart_leads_to_an_alarm_that_fires(shell: Shell, bin: Path) -> None:
    said = {}
    for block in _blocks(ROOT / "docs" / "quickstart.md"):
        if block.mark == "in the background":  # nobody waits for half a minute in a test
            program = shell.folder / "app.py"
            program.write_text(program.read_text().replace("timedelta(seconds=30)", "timedelta(seconds=2)"))
        said[block.body.split()[1]] = shell.type(block)
    assert {"init", "dev", "call", "show"} <= set(said)
    assert "4.7" in said["call"]  # an espresso and a tea
    shell.wait(lambda: "the tea is cold" in shell.log.read_text())
    cold: list[str] = []

    def is_kept() -> bool:
        shown = json.loads(_done([str(bin / "wakeful"), "show", "Tab", "ada", "--json"], shell.folder, bin))
        cold[:] = shown["storage"].get("cold", [])
        return "tea" in cold

    shell.wait(is_kept)
    assert cold.count("tea") == 1
    assert not re.search(r"warn|deprecat|traceback", shell.log.read_text(), re.IGNORECASE), shell.log.read_text()


def test_the_readme_starts_a_program(shell: Shell) -> None:
    [block] = _blocks(ROOT / "README.md")
    shell.type(block)
    assert "Tab on sqlite:" in shell.log.read_text()
