"""Compares bindings of Workers on Wakeful with miniflare's: `make workerd`.

As compare.py does for objects: what miniflare answers is kept in bindings_recorded.json, so that `make test` needs no
Node. A difference is either in binding_differences.py, with where the page tells of it, or a failure.
"""

import argparse
import asyncio
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.workerd.binding_differences import DIFFERENCES
from tests.workerd.binding_scenarios import SCENARIOS
from wakeful.compat.workers import Request, load

HERE = Path(__file__).parent
TWINS = HERE / "miniflare"
RECORDED = HERE / "bindings_recorded.json"


def theirs(folder: Path, wanted: list[str]) -> dict[str, Any]:
    """What miniflare answers, all at once, each with bindings of its own."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        sys.exit("error: this compares with miniflare and needs Node with npm; apt install nodejs npm")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "worker.js", "stage.mjs"):
        shutil.copy(TWINS / name, folder)
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=300)
    asked = [
        {"name": f"{SCENARIOS[name][0].upper()}_{number}", "kind": SCENARIOS[name][0], "steps": SCENARIOS[name][1]}
        for number, name in enumerate(wanted)
    ]
    (folder / "scenarios.json").write_text(json.dumps(asked))
    command = [node, "stage.mjs", "scenarios.json"]
    told = subprocess.run(command, cwd=folder, check=True, timeout=120, stdout=subprocess.PIPE).stdout
    answers = json.loads(told.decode().splitlines()[-1])
    return {name: answers[one["name"]] for name, one in zip(wanted, asked, strict=True)}


async def ours(name: str) -> Any:
    """What Wakeful answers, in a world of its own."""
    kind, steps = SCENARIOS[name]
    worker = load(TWINS / "python")
    real = time.time
    try:
        async with worker.app.world() as world:
            time.time = lambda: world.now().timestamp()
            answers: list[Any] = []
            stretch: list[Any] = []
            for step in [*steps, ["wait", 0]]:
                if step[0] != "wait":
                    stretch.append(step)
                    continue
                body = json.dumps({"kind": kind, "steps": stretch})
                answer = await worker.fetch(Request("http://localhost/", method="POST", body=body))
                answers += await answer.json()
                stretch = []
                await world.advance(milliseconds=step[1])
            return answers
    finally:
        time.time = real
        worker.unload()


def plain(answers: list[Any]) -> list[Any]:
    """Without the words of an error, which are each one's own but for the number or the name in them."""
    return [{"error": sort_of(one)} if isinstance(one, dict) and "error" in one else one for one in answers]


def sort_of(error: dict[str, Any]) -> str:
    """What a program can tell an error by: `KV PUT failed: 413`, `(10020)`, `SQLITE_CONSTRAINT`; else its name."""
    words = error["message"]
    for mark in ("UNIQUE constraint", "no such table", "no such column", "syntax error", "datatype mismatch"):
        if mark in words:
            return mark
    if words.startswith("KV "):
        return " ".join(words.split()[:4])
    if words.endswith(")") and words[-6:-1].isdecimal():
        return words[-7:]
    if found := re.match(r"(Workflow\w*Error): ", words):  # it has lost its name on its way
        return found[1]
    return "D1_ERROR" if words.startswith("D1_") else str(error["error"])


def compared(told: dict[str, Any]) -> list[str]:
    """What differs, and is not explained; or is explained and does not differ."""
    wrong = []
    for name, expected in told.items():
        got = plain(asyncio.run(ours(name)))
        if got == plain(expected) and name in DIFFERENCES:
            wrong.append(f"{name}: it is listed as different, and is not")
        elif got != plain(expected) and name not in DIFFERENCES:
            pairs = [f"{a}\n      {b}" for a, b in zip(plain(expected), got, strict=True) if a != b]
            wrong.append(f"{name}:\n      " + "\n      ".join(pairs))
    return wrong


def main() -> int:
    """Play, compare, and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scenarios whose name contains this; records nothing")
    parser.add_argument("--install", type=Path, default=Path(tempfile.gettempdir()) / "wakeful-miniflare")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    told = theirs(options.install, [name for name in SCENARIOS if options.only in name])
    wrong = compared(told)
    print("\n".join(wrong))
    if not options.only:
        RECORDED.write_text(json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(told)} scenarios, {len(DIFFERENCES)} explained differences, {len(wrong)} others")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
