"""Compares the chart step with the real XState on random charts: `make xstate`.

Each seed is a chart with a script of events and passing time. `--record` keeps cases with XState's answers as
vectors, so that `make test` needs no Node.
"""

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
from tests.xstate.chart_cases import case  # noqa: E402
from tests.xstate.chart_compare import differs  # noqa: E402
from tests.xstate.chart_faults import is_explained  # noqa: E402
from tests.xstate.chart_names import NAMES  # noqa: E402
from wakeful.values.errors import BadChart  # noqa: E402

VECTORS = HERE.parent / "vectors" / "xstate"
BATCH = 250
# A recorded case has at most so many characters; larger charts are compared and not kept.
RECORDED_SIZE_MAX = 16_000


def installed(folder: Path) -> Path:
    """A folder with the XState of package.json, installed if it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    if not (folder / "node_modules").exists() or (folder / "package.json").read_text() != wanted:
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("error: this compares with the real XState and needs Node with npm; apt install nodejs npm")
        shutil.copy(HERE / "package.json", folder)
        subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=300)
    return folder


def answers(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What XState answers to these cases."""
    asked = "\n".join(json.dumps(one) for one in cases)
    told = subprocess.run(
        ["node", str(HERE / "run.cjs")],
        input=asked,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return [json.loads(line) for line in told.stdout.splitlines()]


def compared(first: int, count: int, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any], str | None]]:
    """Cases, what XState answered, and what differs; until `count` agree as a whole."""
    agreed, seed = 0, first
    while agreed < count:
        cases = [case(one) for one in range(seed, seed + BATCH)]
        seed += BATCH
        for one, told in zip(cases, answers(cases, folder), strict=True):
            if "refused" in told:
                yield one, told, f"XState refused: {told['refused']}"
                continue
            try:
                found = differs(one, told["said"], NAMES)
            except BadChart as error:  # a circle is refused when the chart is read, and in XState when it is run
                if error.code != "chart.always" or "Infinite loop" not in str(told["said"][-1]["threw"]):
                    yield one, told, f"refused: {error}"
                continue
            if found is not None and found[0].startswith("fault"):
                yield one, told, "fault" if is_explained(one, found[1]) else f"unexplained {found[0]} at {found[1]}"
                continue
            if found is not None and found[0].startswith("XState threw") and is_explained(one, found[1]):
                yield one, told, "fault"  # in impossible states, of which it finds one that it can't go on from
                continue
            agreed += found is None
            yield one, told, None if found is None else f"at {found[1]}: {found[0]}"
            if agreed >= count:
                return


def main() -> int:
    """Compare, say what differs, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000, help="how many cases have to agree")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--folder", type=Path, default=Path(".venv/xstate"), help="where XState is installed")
    parser.add_argument("--record", type=int, default=0, metavar="N", help="keep N cases as vectors")
    options = parser.parse_args()
    folder = installed(options.folder.resolve())
    agreed = faults = 0
    wrong: list[str] = []
    kept: list[str] = []
    for one, told, found in compared(options.first, options.cases, folder):
        if found is None:
            agreed += 1
            line = json.dumps({**one, "said": told["said"]}, separators=(",", ":"))
            if len(kept) < options.record and len(line) <= RECORDED_SIZE_MAX:
                kept.append(line)
        elif found == "fault":
            faults += 1
        else:
            wrong.append(f"seed {one['seed']} {found}"[:600])
    if kept:
        VECTORS.mkdir(parents=True, exist_ok=True)
        (VECTORS / "cases.jsonl.xz").write_bytes(
            lzma.compress("\n".join(kept).encode(), preset=9 | lzma.PRESET_EXTREME)
        )
        print(f"recorded {len(kept)} cases in {VECTORS / 'cases.jsonl.xz'}")
    print(f"{agreed} charts agree as a whole; {len(wrong)} differ; {faults} agree until XState is in impossible states")
    print("\n".join(wrong[:20]))
    return 1 if wrong or len(kept) < options.record else 0


if __name__ == "__main__":
    os.nice(5)
    sys.exit(main())
