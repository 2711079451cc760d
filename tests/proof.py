"""Runs a long target and keeps its row of docs/proof.md: what ran on which commit, and how it ended.

    python -m tests.proof sim -- .venv/bin/python -m tests.sim.simulation --seeds 20000

The page's table is what this reads and writes. Parts of one commit (SEEDS with FROM) are one row: a seed that runs again
counts as it ended last. A tree with changes of its own is said to have them, and its parts are not put together, since
nobody knows whether the changes were the same. An interrupted run says nothing.
"""

import argparse
import fcntl
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "proof.md"
HEAD = "| target | ran | commit | on | passed | failed | took |\n| --- | --- | --- | --- | --- | --- | --- |\n"
NEWEST = 3  # rows of a target that are kept, and the one with the most that passed
CHANGED = " + changes"
# What no test depends on: the page itself would make every tree a changed one.
WORDS = (":!docs", ":!*.md")

_SEEDS = re.compile(r"^(\d+) seeds from (\d+): (?:clean|\d+ failed \(([^)]*)\)), \d+ s$")
_TESTS = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b")
_CHARTS = re.compile(r"^(\d+) charts agree as a whole; (\d+) differ; (\d+) agree until")
_SCENARIOS = re.compile(r"^(\d+) scenarios, (\d+) explained differences, (\d+) others$")
_ROW = re.compile(
    r"\| `make ([a-z-]+)` \| ([^|]+) \| `([0-9a-f]{12})`((?: \+ changes)?) \| (\d{4}-\d\d-\d\d) "
    r"\| ([\d,]+) \| ([^|]+) \| (\d+) s \|"
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    target: str
    commit: str
    is_changed: bool
    day: str
    took_s: int
    passed: int
    failed: tuple[str, ...] = ()  # what failed by name, or the count of them as the only word
    what: str = "all"
    seeds: tuple[tuple[int, int], ...] = ()  # from and up to, which is not one of them

    @property
    def place(self) -> tuple[str, str, bool]:
        """Two rows that have the same are one."""
        return self.target, self.commit, self.is_changed

    def __str__(self) -> str:
        ran = "seeds " + ", ".join(f"{a}–{b - 1}" for a, b in self.seeds) if self.seeds else self.what
        failed = ", ".join(self.failed) or "none"
        commit = f"`{self.commit}`{CHANGED if self.is_changed else ''}"
        return (
            f"| `make {self.target}` | {ran} | {commit} | {self.day} | {self.passed:,} | {failed} | {self.took_s} s |"
        )


def parse(line: str) -> Row | None:
    """The row that this line is, if it is one."""
    found = _ROW.fullmatch(line)
    if found is None:
        return None
    target, ran, commit, changed, day, passed, failed, took = found.groups()
    seeds: tuple[tuple[int, int], ...] = ()
    if ran.startswith("seeds "):
        ends = [part.split("–") for part in ran.removeprefix("seeds ").split(", ")]
        seeds = tuple((int(a), int(b) + 1) for a, b in ends)
    names = () if failed == "none" else tuple(failed.split(", "))
    return Row(target, commit, bool(changed), day, int(took), int(passed.replace(",", "")), names, ran, seeds)


def read(page: str) -> list[Row]:
    """The rows of the table, in order."""
    return [row for row in map(parse, page.splitlines()) if row is not None]


def write(page: str, rows: Iterable[Row]) -> str:
    """The page with these rows in its table."""
    before, head, after = page.partition(HEAD)
    if not head:
        raise SystemExit(f"{PAGE} has no table that begins with {HEAD.splitlines()[0]!r}")
    rest = after.splitlines(keepends=True)
    while rest and rest[0].startswith("|"):
        rest.pop(0)
    return before + head + "".join(f"{row}\n" for row in rows) + "".join(rest)


def keep(rows: list[Row], new: Row) -> list[Row]:
    """The rows with the new one: merged with what ran of the same commit, or in its place."""
    old = next((row for row in rows if row.place == new.place), None)
    if old is not None and old.seeds and new.seeds and not new.is_changed:
        new = merged(old, new)
    rows = [row for row in rows if row is not old]
    mine = [new, *(row for row in rows if row.target == new.target)]
    most = max(mine, key=lambda row: (not row.is_changed, row.passed))
    kept = [*mine[:NEWEST], *([] if most in mine[:NEWEST] else [most])]
    others = [row for row in rows if row.target != new.target]
    return sorted([*kept, *others], key=lambda row: row.target)  # stable: the newest of a target first


def merged(old: Row, new: Row) -> Row:
    """Two parts of one commit as one row: what ran again counts as it ended last."""
    [(first, end)] = new.seeds
    again = {f"seed {seed}" for seed in range(first, end)} | {name for name in old.failed if name.startswith("probe")}
    failed = (*(name for name in old.failed if name not in again), *new.failed)
    spans: list[tuple[int, int]] = []
    for a, b in sorted([*old.seeds, *new.seeds]):
        if spans and a <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(b, spans[-1][1]))
        else:
            spans.append((a, b))
    passed = sum(b - a for a, b in spans) - sum(name.startswith("seed") for name in failed)
    return replace(new, seeds=tuple(spans), failed=failed, passed=passed, took_s=old.took_s + new.took_s)


def judge(target: str, lines: Iterable[str]) -> Row | None:
    """What the output of a target says about how it ended; None if it did not get there."""
    row = None
    blank = Row(target, "", False, "", 0, 0)
    for line in lines:
        if found := _SEEDS.match(line):
            count, first = int(found[1]), int(found[2])
            failed = tuple(found[3].split(", ")) if found[3] else ()
            passed = count - sum(name.startswith("seed") for name in failed)
            row = replace(blank, passed=passed, failed=failed, seeds=((first, first + count),))
        elif found := _TESTS.match(line):
            counts = {word: int(number) for number, word in (one.split() for one in found[1].split(", "))}
            bad = sum(counts.get(word, 0) for word in ("failed", "error", "errors"))
            what = f"tests, {counts['skipped']} skipped" if "skipped" in counts else "tests"
            row = replace(blank, passed=counts.get("passed", 0), failed=(str(bad),) if bad else (), what=what)
        elif found := _CHARTS.match(line):
            failed = () if found[2] == "0" else (found[2],)
            row = replace(blank, passed=int(found[1]) + int(found[3]), failed=failed, what="charts")
        elif found := _SCENARIOS.match(line):
            failed = () if found[3] == "0" else (found[3],)
            row = replace(blank, passed=int(found[1]), failed=failed, what=f"scenarios, {found[2]} differ as explained")
    return row


def git(*args: str) -> str | None:
    """What git says; None where there is none, or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def is_changed_since(commit: str) -> bool:
    """Whether the tree is other than the commit, in anything but words."""
    files = git("ls-files", "--others", "--exclude-standard", "--", ".", *WORDS)
    return bool(files) or git("diff", "--quiet", commit, "--", ".", *WORDS) is None


def record(row: Row, page: Path = PAGE) -> None:
    """Put it into the page; two targets that end at once wait for each other."""
    with open(page, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        text = write(text, keep(read(text), row))
        file.seek(0)
        file.truncate()
        file.write(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--least", type=int, default=1, help="what fewer seeds prove is not worth a row")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    commit = git("rev-parse", "--short=12", "HEAD")
    is_changed = commit is not None and is_changed_since(commit)
    began, day = time.monotonic(), time.strftime("%Y-%m-%d", time.gmtime())
    with subprocess.Popen(given.command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip("\n"))
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it had the same Ctrl-C
            return 130
    row = judge(given.target, lines)
    if row is None or commit is None or code not in (0, 1):
        return code
    if row.seeds and sum(b - a for a, b in row.seeds) < given.least:
        return code
    if code == 1 and not row.failed:
        row = replace(row, failed=("its end",))
    took_s = round(time.monotonic() - began)
    is_changed = is_changed or is_changed_since(commit)  # also while it ran
    record(replace(row, commit=commit, is_changed=is_changed, day=day, took_s=took_s))
    print(f"written into {PAGE.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
