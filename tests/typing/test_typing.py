"""What mypy and pyright know of a user's program: each line that is marked is refused, and no other."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = ("shop.py", "blocking.py", "plain.py")
HERE = Path(__file__).parent / "programs"
ROOT = HERE.parents[2]
# basedpyright is pyright from PyPI, with the Node.js that it needs; what it adds is left off.
PYRIGHT = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("typing")
    for name in PROGRAMS:
        shutil.copy(HERE / name, found / name)
    (found / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    command = [sys.executable, "-m", "wakeful.cli", "stubs", "shop.py", "-o", "shop_stubs.py"]
    subprocess.run(command, cwd=found, check=True, capture_output=True)
    return found


def refused(name: str) -> list[tuple[str, int]]:
    lines = (HERE / name).read_text().splitlines()
    return [(name, number) for number, line in enumerate(lines, 1) if line.endswith("# refused")]


def test_mypy_refuses_what_is_wrong_and_nothing_else(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--output",
        "json",
    ]
    run = subprocess.run([*command, *PROGRAMS], cwd=folder, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    errors = {(one["file"], one["line"]): one["message"] for one in found if one["severity"] == "error"}
    assert sorted(errors) == sorted(line for name in PROGRAMS for line in refused(name)), (errors, run.stderr)


def test_pyright_refuses_what_is_wrong_and_nothing_else(folder: Path) -> None:
    program = Path(sys.executable).with_name("basedpyright")
    command = [program, "--outputjson", "--pythonpath", sys.executable, *PROGRAMS]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)["generalDiagnostics"]
    errors = {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"]
        for one in found
        if one["severity"] == "error"
    }
    assert sorted(errors) == sorted(line for name in PROGRAMS for line in refused(name)), errors
