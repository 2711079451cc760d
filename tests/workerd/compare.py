"""Compares Wakeful with the real workerd: `make workerd`.

One list of scenarios is played on both; what workerd answers is kept in recorded.json, so that `make test` needs no
Node. A difference is either in differences.py, with the reason, or a failure.
"""

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.workerd import ours, stages
from tests.workerd.differences import DIFFERENCES
from tests.workerd.workerd_scenarios import RESTARTS, SCENARIOS

HERE = Path(__file__).parent

RECORDED = HERE / "recorded.json"


async def theirs(binary: Path, folder: Path, wanted: list[str]) -> dict[str, Any]:
    """What workerd answers: those without a restart at once on one process, each of the others on its own.

    Those that wait go first: what the others ask would hold up theirs, and times matter to them.
    """
    shared = stages.Workerd(binary, folder / "shared")
    shared.start()
    own = {name: stages.Workerd(binary, folder / str(number)) for number, name in enumerate(wanted) if name in RESTARTS}

    async def one(name: str) -> tuple[str, Any]:
        stage = own.get(name, shared)
        if stage is not shared:
            stage.start()
        return name, await stages.played(stage, name, SCENARIOS[name])

    waits = {name: any(step[0] == "wait" for step in SCENARIOS[name]) for name in wanted}
    try:
        first = await asyncio.gather(*(one(name) for name in wanted if waits[name]))
        return dict(first + await asyncio.gather(*(one(name) for name in wanted if not waits[name])))
    finally:
        for stage in (shared, *own.values()):
            stage.stop()


async def compared(told: dict[str, Any]) -> list[str]:
    """What differs, and is not explained; or is explained and does not differ."""
    found = []
    for name, expected in told.items():
        got = await ours.answers(name, SCENARIOS[name])
        if got == expected and name in DIFFERENCES:
            found.append(f"{name}: it is listed as different, and is not")
        elif got != expected and name not in DIFFERENCES:
            found.append(f"{name}:\n    workerd {json.dumps(expected)}\n    Wakeful {json.dumps(got)}")
        elif got != expected and got != DIFFERENCES[name].ours:
            found.append(f"{name}: differs otherwise than listed:\n    Wakeful {json.dumps(got)}")
    return found


def main() -> int:
    """Play, compare, and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scenarios whose name contains this; records nothing")
    parser.add_argument("--install", type=Path, default=Path(tempfile.gettempdir()) / "wakeful-workerd")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    wanted = [name for name in SCENARIOS if options.only in name]
    binary = stages.installed(options.install)
    folder = Path(tempfile.mkdtemp(prefix="wakeful-workerd-run-"))
    try:
        told = asyncio.run(theirs(binary, folder, wanted))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = asyncio.run(compared(told))
    for problem in found:
        print(problem)
    if not options.only:
        RECORDED.write_text(json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(told)} scenarios, {len(DIFFERENCES)} explained differences, {len(found)} others")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
