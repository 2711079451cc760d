"""What the exporter makes of real machines of XState, and how those behave: recorded as vectors, and compared anew.

`python -m tests.xstate.exported` runs the exporter and the machines with the XState that check.py installs and says
whether tests/vectors/xstate_exported.json still is what they answer; `--record` writes it. `make xstate` does the first.
"""

import json
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.xstate.check import installed

HERE = Path(__file__).parent
PROJECTS = HERE / "projects"
VECTORS = HERE.parent / "vectors" / "xstate_exported.json"


def answers(folder: Path) -> dict[str, Any]:
    """Of each project what the exporter reports, and what XState answers to its script."""
    exporter = folder / "export.mjs"
    exporter.write_text(
        (files("wakeful.importers") / "xstate_export.mjs").read_text(encoding="utf-8"), encoding="utf-8"
    )
    found = {}
    for project in [*sorted(PROJECTS.glob("*.mjs"))]:
        shutil.copy(project, folder)
    for project in ("order5", "lamp4", "names5"):
        report, played = (
            json.loads(_node(folder, *args))
            for args in ((exporter.name, f"{project}.mjs", "--report"), ("play.mjs", f"{project}.mjs"))
        )
        found[project] = {
            "report": report,
            **played,
            "python": _node(folder, exporter.name, f"{project}.mjs", "--python"),
        }
    return found


def _node(folder: Path, *args: str) -> str:
    done = subprocess.run(["node", *args], cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def main() -> int:
    """Compare, or record."""
    found = answers(installed(Path(".venv/xstate").resolve()))
    if "--record" in sys.argv:
        VECTORS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"recorded {len(found)} projects in {VECTORS}")
        return 0
    kept = json.loads(VECTORS.read_text(encoding="utf-8"))
    wrong = [name for name in found if found[name] != kept.get(name)]
    print(f"{len(found) - len(wrong)} of {len(found)} projects are exported and answer as recorded", *wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
