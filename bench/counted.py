"""What was counted on which commit? Reads and writes the tables of bench/instructions.md, and says what became slower."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from zlib import crc32

from bench.places import ROOT

PAGE = ROOT / "bench" / "instructions.md"
SLOWER = 0.02  # by how much a work may grow before it is a slow-down: counts repeat to one in a hundred
TRIES = 3  # how often a work that seems slower is counted; the least is what it takes
ROWS = 20  # of each store, the newest
_BUILT_FROM = ("apsw", "asyncpg", "msgspec", "uvloop")  # what runs beside our own code
_ROW = re.compile(r"\| `([0-9a-f]{12})` \| (\d{4}-\d\d-\d\d) \| (\S+) \| (.+) \|")

Count = Callable[[str, str, Path], int]  # a work, on a store, with the library of this folder


@dataclass(frozen=True)
class Row:
    """One line: the counts of a store on a commit, by work; of a work that was not counted none."""

    commit: str
    day: str
    build: str
    counts: Mapping[str, int]


def build() -> str:
    """Which Python and libraries count here: counts of another build say nothing about ours."""
    parts = [sys.version, sysconfig.get_config_var("CONFIG_ARGS") or "", sysconfig.get_platform()]
    for name in _BUILT_FROM:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"no {name}")
    return f"{sys.version_info.major}.{sys.version_info.minor}-{crc32(' '.join(parts).encode()):08x}"


def read(page: str) -> dict[str, list[Row]]:
    """The rows by store, the newest first."""
    found: dict[str, list[Row]] = {}
    store, works = "", []
    for line in page.splitlines():
        if line.startswith("## "):
            store = line.removeprefix("## ").strip()
        elif line.startswith("| commit |"):
            works = [cell.strip() for cell in line.strip("|").split("|")][3:]
        elif matched := _ROW.fullmatch(line):
            cells = [cell.strip().replace(",", "") for cell in matched[4].split("|")]
            counts = {work: int(cell) for work, cell in zip(works, cells, strict=True) if cell}
            found.setdefault(store, []).append(Row(matched[1], matched[2], matched[3], counts))
    return found


def write(page: str, store: str, row: Row) -> str:
    """The page with this row on top of its store's table, in the place of one of the same commit and build."""
    rows = read(page)
    mine = [one for one in rows.get(store, []) if (one.commit, one.build) != (row.commit, row.build)]
    rows[store] = [row, *mine][:ROWS]
    before = page.partition("\n## ")[0].rstrip("\n")
    return before + "\n" + "".join(_table(name, rows[name]) for name in sorted(rows))


def _table(store: str, rows: list[Row]) -> str:
    works = list(dict.fromkeys(work for row in rows for work in row.counts))
    lines = [f"\n## {store}\n", f"| commit | on | build | {' | '.join(works)} |", "| --- " * (len(works) + 3) + "|"]
    for row in rows:
        cells = (f"{row.counts[work]:,}" if work in row.counts else "" for work in works)
        lines.append(f"| `{row.commit}` | {row.day} | {row.build} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Verdict:
    """What a work takes now, and what it took on the commit that it is held against."""

    work: str
    store: str
    now: int
    before: int | None
    commit: str

    @property
    def is_slower(self) -> bool:
        return self.before is not None and self.now > self.before * (1 + SLOWER)

    def __str__(self) -> str:
        line = f"{self.store:9}{self.work:26}{self.now:12,}"
        if self.before is None:
            return f"{line}   not counted before"
        grown = f"{self.now / self.before - 1:+.1%}"
        return f"{line}   {self.commit} {self.before:12,}   {grown}{'   SLOWER' if self.is_slower else ''}"


def judge(store: str, works: Iterable[str], row: Row | None, count: Count) -> Iterator[Verdict]:
    """Count each work on the store, and hold it against the row.

    What another build counted says nothing here: then the row's commit is counted again, beside this one.
    """
    with ExitStack() as stack:
        source = None if row is None or row.build == build() else stack.enter_context(tree_of(row.commit))
        for work in works:
            before = None if row is None else row.counts.get(work)
            if before is not None and source is not None:
                before = count(work, store, source)
            now = count(work, store, ROOT / "src")
            for _ in range(TRIES - 1):
                if before is None or now <= before * (1 + SLOWER):
                    break
                now = min(now, count(work, store, ROOT / "src"))
            yield Verdict(work, store, now, before, "" if row is None else row.commit)


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The folder `src` of a commit, for as long as it is needed."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(
            f"error: {commit} was counted with another Python, and is not in this repository to be counted again: "
            f"{packed.stderr.decode().strip()}"
        )
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
        yield Path(folder) / "src"
