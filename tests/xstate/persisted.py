"""Records snapshots that the real XState persists in the middle of a script, and how it goes on from there.

`python -m tests.xstate.persisted` writes tests/vectors/xstate_persisted.jsonl.xz, with the XState that check.py installs.
"""

import json
import lzma
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
from tests.xstate.chart_cases import case  # noqa: E402
from tests.xstate.chart_compare import Runner, _is_made_up, differs  # noqa: E402
from tests.xstate.chart_names import NAMES  # noqa: E402
from tests.xstate.check import installed  # noqa: E402

VECTORS = HERE.parent / "vectors" / "xstate_persisted.jsonl.xz"
FIRST, ASKED, KEPT, SIZE_MAX = 500_000, 1_000, 150, 9_000
# The clock of the script is also that by which XState notes when a delay began.
_START = ("  actor.start();\n  look();", "  Date.now = () => clock.now;\n  actor.start();\n  look();")
_LOOK = (
    "      made, threw, fault,\n",
    "      made, threw, fault,\n      persisted: actor.getPersistedSnapshot(), system: actor.system.getSnapshot(),\n",
)


def answers(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What XState answers, with both its snapshots at every place."""
    script = (HERE / "run.cjs").read_text()
    for old, new in (_START, _LOOK):
        assert old in script, "run.cjs has changed"
        script = script.replace(old, new)
    with tempfile.NamedTemporaryFile("w", suffix=".cjs") as file:
        file.write(script)
        file.flush()
        asked = "\n".join(json.dumps(one) for one in cases)
        told = subprocess.run(
            ["node", file.name], input=asked, cwd=folder, capture_output=True, text=True, check=True, timeout=900
        )
    return [json.loads(line) for line in told.stdout.splitlines()]


def recorded(one: dict[str, Any], told: dict[str, Any]) -> str | None:
    """A case as a line, cut at a random place; None when it says nothing there."""
    said = told.get("said", [])
    if not said or any(each["fault"] or each["threw"] for each in said) or differs(one, said, NAMES):
        return None
    place = random.Random(str(one["seed"])).randrange(len(said))
    here, rest = said[place], said[place + 1 :]
    runner = Runner(one["config"], NAMES)
    runner.start(one.get("input"))
    for entry in one["script"][:place]:
        runner.entry(entry)
    has_more = bool(runner.snapshot["pending"] or runner.snapshot["historyValue"])
    targets = {timer["to"] for timer in here["timers"]} - {None}
    invoked = {id for node in runner.chart.nodes for id in node.invokes}
    if here["status"] != "active" or not rest or not has_more or targets or set(here["children"]) - invoked:
        return None
    line = {
        "seed": one["seed"],
        "config": one["config"],
        "now": runner.now,
        "persisted": here["persisted"],
        "system": here["system"],
        "timers": sorted([timer["id"], timer["due_at"]] for timer in runner.snapshot["pending"]),
        "script": one["script"][place:],
        "said": [{key: each.get(key) for key in ("status", "value", "context")} for each in rest],
    }
    if any(_is_made_up(id) for id, _ in line["timers"]):
        return None
    text = json.dumps(line, separators=(",", ":"))
    return text if len(text) <= SIZE_MAX else None


def main() -> None:
    """Record them."""
    folder = installed(Path(sys.argv[1] if len(sys.argv) > 1 else ".venv/xstate").resolve())
    cases = [case(seed) for seed in range(FIRST, FIRST + ASKED)]
    lines = [line for one, told in zip(cases, answers(cases, folder), strict=True) if (line := recorded(one, told))]
    with lzma.open(VECTORS, "wt", preset=9) as file:
        file.write("\n".join(lines[:KEPT]) + "\n")
    print(f"{min(len(lines), KEPT)} cases in {VECTORS}")


if __name__ == "__main__":
    main()
