"""Our own results at a glance: `python -m bench.picture` draws them for the README and writes the table of docs/comparison.md.

Where another library is faster it is drawn longer; nothing is left out because it looks bad.
"""

import json
import re
import sys
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "pictures" / "bench.svg"
PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- measured: python -m bench.picture -->", "<!-- end of measured -->"

# A group of bars: what is measured, and on which store.
GROUPS = [
    ("schedule.1", "sqlite", "Schedule one by one, SQLite with fsync"),
    ("fire.rate", "sqlite", "All due at one instant, SQLite with fsync"),
    ("schedule.1", "postgres", "Schedule one by one, PostgreSQL"),
    ("schedule.64", "postgres", "Schedule by 64 callers at once, PostgreSQL"),
    ("fire.rate", "postgres", "All due at one instant, PostgreSQL"),
    ("cron.rate", "sqlite", "Cron schedules due at one second, SQLite"),
]
NAMES = {"wakeful": "Wakeful", "apscheduler": "APScheduler", "huey": "Huey", "dbos": "DBOS", "pgqueuer": "PgQueuer"}
NAMES |= {"procrastinate": "Procrastinate"}
WIDTH, LABEL, BAR, ROW = 760, 150, 480, 22


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found["file"] = path.name
    return found


def newest() -> Path:
    """The result that was measured last, whatever its name sorts by."""
    return max(RESULTS.glob("*.json"), key=lambda path: str(json.loads(path.read_text(encoding="utf-8"))["at"]))


def rates(result: dict[str, Any], name: str, store: str) -> list[tuple[str, float]]:
    """Who did how many a second, fastest first; the bare store is not somebody."""
    found = {
        number["subject"]: median(number["values"])
        for number in result["numbers"]
        if number["name"] == name and number["store"] == store and number["subject"] in NAMES
    }
    return sorted(found.items(), key=lambda pair: -pair[1])


def drawn(result: dict[str, Any]) -> str:
    """The picture: bars that carry their own ground, so that it can be read on a light page and on a dark one."""
    parts, y = [], 64
    for name, store, title in GROUPS:
        bars = rates(result, name, store)
        if len(bars) < 2:
            continue
        parts.append(f'<text x="24" y="{y + 14}" class="t">{escape(title)}</text>')
        y += 26
        for subject, rate in bars:
            length = max(2.0, BAR * rate / bars[0][1])
            kind = "us" if subject == "wakeful" else "peer"
            parts.append(f'<text x="{LABEL}" y="{y + 13}" class="l" text-anchor="end">{NAMES[subject]}</text>')
            parts.append(f'<rect x="{LABEL + 10}" y="{y}" width="{length:.0f}" height="16" rx="3" class="{kind}"/>')
            parts.append(f'<text x="{LABEL + 18 + length:.0f}" y="{y + 13}" class="l">{rate:,.0f}/s</text>')
            y += ROW
        y += 14
    machine = result["machine"]
    foot = f"{result['file']}: {machine['cores']} cores, everything in one run on one machine, each with its writes on disk"
    style = (
        "text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#1c2033}.g{fill:#f6f7fb}.h{font-size:18px;font-weight:600}"
        ".t{font-size:14px;font-weight:600}.l{font-size:13px}.f{font-size:12px;fill:#5b6178}.us{fill:#4f5bd5}.peer{fill:#b6bbd0}"
        "@media(prefers-color-scheme:dark){text{fill:#e7e9f5}.g{fill:#171a2b}.f{fill:#9aa0b8}.us{fill:#8c96ff}.peer{fill:#4a5070}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 34}" width="{WIDTH}" height="{y + 34}" '
        f'role="img" aria-label="Benchmark: Wakeful beside other Python libraries"><style>{style}</style>'
        f'<rect width="{WIDTH}" height="{y + 34}" rx="10" class="g"/>'
        f'<text x="24" y="36" class="h">How many a second</text>'
        + "".join(parts)
        + f'<text x="24" y="{y + 14}" class="f">{escape(foot)}</text></svg>\n'
    )


def table(result: dict[str, Any]) -> str:
    """The same as a table, with what is particular about each number."""
    notes = {(n["subject"], n["store"], n["name"]): n["note"] for n in result["numbers"]}
    lines = [
        f"Measured in one run on one machine ({result['machine']['cores']} cores, `bench/results/{result['file']}`, "
        "medians). What each kept on disk is listed there.",
        "",
        "| measure | store | library | a second | note |",
        "| --- | --- | --- | --- | --- |",
    ]
    names = ["schedule.1", "schedule.64", "schedule.bulk", "fire.rate", "fire.write", "cron.rate"]
    for name in names:
        for store in ("sqlite", "postgres"):
            for subject, rate in rates(result, name, store):
                who = f"**{NAMES[subject]}**" if subject == "wakeful" else NAMES[subject]
                note = (notes.get((subject, store, name)) or "").replace("|", "/")
                lines.append(f"| `{name}` | {store} | {who} | {rate:,.0f} | {note} |")
    return "\n".join(lines) + "\n"


def paged(page: str, result: dict[str, Any]) -> str:
    """The page with its table replaced."""
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", f"{BEGIN}\n\n{table(result)}\n{END}", page, count=1, flags=re.DOTALL
    )


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else newest()
    result = read(path)
    PICTURE.write_text(drawn(result), encoding="utf-8")
    PAGE.write_text(paged(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} and the table of {PAGE.relative_to(ROOT)} are of {path.name}")


if __name__ == "__main__":
    main()
