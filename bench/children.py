"""How does a work use processes of its own, which do one of its parts and say in a line of JSON what came of it?"""

import json
import subprocess
import sys

from bench.places import ROOT


def spawn(role: str, url: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.one", role, "--store", url, "--count", str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told_by(process: "subprocess.Popen[str]") -> dict[str, float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"the process ended with {process.wait()} before it said anything")
    told: dict[str, float] = json.loads(line)
    return told
