"""With `--log json` every line of `run` and `dev` is JSON, on both streams: whoever collects them parses each."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.yardstick import PATIENCE_S

PROGRAM = """
from wakeful import App
app = App()

async def on_start(app):
    print('{"event": "begun"}', flush=True)
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def start(folder: Path, *args: str, **env: str) -> "subprocess.Popen[str]":
    (folder / "app.py").write_text(PROGRAM)
    bare = {name: text for name, text in os.environ.items() if not name.startswith("WAKEFUL_")}
    return subprocess.Popen(
        [sys.executable, "-m", "wakeful.cli", *args],
        cwd=folder,
        env={**bare, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "args", [["run", "app.py", "--http", "127.0.0.1:0"], ["dev", "app.py", "--http", "127.0.0.1:0"]]
)
def test_what_is_said_of_a_start_and_a_stop_is_json(args: list[str], tmp_path: Path) -> None:
    process = start(tmp_path, *args, WAKEFUL_LOG="json")
    try:
        assert process.stdout is not None
        said = ""
        while "ready" not in said:
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    events = [line.get("event") for line in lines(said + rest)]
    assert "ready" in events
    assert events[-1] == "stopped", events
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in lines(errors)), errors


def test_why_it_did_not_start_is_json_too(tmp_path: Path) -> None:
    process = start(tmp_path, "run", "nothere.py", "--log", "json")
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert not out
    [line] = lines(errors)
    assert (line["level"], line["code"]) == ("error", "app.file")
