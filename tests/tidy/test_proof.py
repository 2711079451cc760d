"""docs/proof.md has the form that its targets keep, and names commits that are in the history."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import proof
from tests.proof import HEAD, Row, judge, keep, parse, read, write

CLEAN = Row("sim", "0123456789ab", False, "2026-11-17", 600, 1000, seeds=((0, 1000),))
PAGE = f"# Proof\n\n{HEAD}{CLEAN}\n\nwords\n"


def test_the_page_is_as_its_targets_write_it() -> None:
    page = proof.PAGE.read_text(encoding="utf-8")
    assert write(page, read(page)) == page
    makefile = (proof.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split("$(PROOF) ")[1].split()[0] for line in makefile.splitlines() if "$(PROOF) " in line}
    assert targets >= {"sim", "sim-cluster", "year", "live", "live-cluster"}
    assert {row.target for row in read(page)} <= targets
    for target in targets:
        rows = [row for row in read(page) if row.target == target]
        assert len({row.place for row in rows}) == len(rows) <= proof.NEWEST + 1


def test_its_commits_are_in_the_history() -> None:
    if proof.git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("no history here to look into")
    page = proof.PAGE.read_text(encoding="utf-8")
    for row in read(page):
        assert proof.git("merge-base", "--is-ancestor", row.commit, "HEAD") is not None, f"{row.commit} is not in it"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("20000 seeds from 5: clean, 39 s", "seeds 5–20004 19995+5=20,000 none"),
        ("10 seeds from 0: 2 failed (seed 3, probe 7), 1 s", "seeds 0–9 9 seed 3, probe 7"),
        ("10 passed in 3.20s", "tests 10 none"),
        ("2 failed, 10 passed, 3 skipped, 1 error in 73.20s (0:01:13)", "tests, 3 skipped 10 3"),
        ("4990 charts agree as a whole; 0 differ; 10 agree until XState", "charts 5,000 none"),
        ("77 scenarios, 4 explained differences, 1 others", "scenarios, 4 differ as explained 77 1"),
    ],
)
def test_the_end_of_each_target_is_understood(line: str, said: str) -> None:
    row = judge("sim", ["something", line, "written"])
    assert row is not None
    row = replace(row, commit="0123456789ab", day="2026-11-17")
    assert parse(str(row)) == replace(row, what=str(row).split(" | ")[1])
    cells = str(row).split(" | ")
    assert f"{cells[1]} {cells[4]} {cells[5]}" == said.replace("19995+5=", "")


def test_a_run_that_did_not_get_to_its_end_says_nothing() -> None:
    assert judge("sim", ["200 of 1000, 0 failed, 60 s, 3.3/s"]) is None


def test_parts_of_one_commit_are_one_row_and_what_ran_again_counts_as_it_ended_last() -> None:
    failing = replace(CLEAN, passed=998, failed=("seed 5", "seed 7"))
    later = replace(CLEAN, seeds=((1000, 3000),), passed=1999, failed=("seed 2000",))
    [row] = keep([failing], later)
    assert (row.seeds, row.passed, row.took_s) == (((0, 3000),), 2997, 1200)
    assert row.failed == ("seed 5", "seed 7", "seed 2000")
    [row] = keep([row], replace(CLEAN, seeds=((0, 6),), passed=6))
    assert (row.seeds, row.passed, row.failed) == (((0, 3000),), 2998, ("seed 7", "seed 2000"))
    [row] = keep([row], replace(CLEAN, seeds=((9000, 9010),), passed=10))
    assert (row.seeds, row.passed) == (((0, 3000), (9000, 9010)), 3008)
    assert parse(str(row)) == replace(row, what="seeds 0–2999, 9000–9009")


def test_parts_of_a_changed_tree_are_not_put_together() -> None:
    changed = replace(CLEAN, is_changed=True)
    new = replace(changed, seeds=((5000, 5010),), passed=10)
    assert keep([changed], new) == [new]
    assert keep([CLEAN], new) == [new, CLEAN], "it takes nothing from what ran without changes"
    assert keep([new], CLEAN) == [CLEAN, new]


def test_a_target_keeps_its_newest_rows_and_the_largest_and_leaves_others_alone() -> None:
    other = replace(CLEAN, target="live", seeds=(), what="tests")
    rows = [replace(CLEAN, passed=20_000, seeds=((0, 20_000),)), other]
    for number in range(5):
        rows = keep(rows, replace(CLEAN, commit=f"{number:012x}"))
    assert [row.target for row in rows] == ["live", "sim", "sim", "sim", "sim"]
    assert [row.commit[-1] for row in rows[1:]] == ["4", "3", "2", "b"]
    assert read(write(PAGE, rows)) == [replace(row, what=str(row).split(" | ")[1]) for row in rows]
    assert write(PAGE, rows).endswith("|\n\nwords\n")


def test_a_target_writes_its_row_and_keeps_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "docs" / "proof.md"
    page.parent.mkdir()
    page.write_text(PAGE)
    monkeypatch.setattr(proof, "PAGE", page)
    monkeypatch.setattr(proof, "ROOT", tmp_path)
    for line in ("git init -q", "git add .", "git -c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(line.split(), cwd=tmp_path, check=True)
    monkeypatch.setattr(proof.record, "__defaults__", (page,))
    for text, code in (("1000 seeds from 0: 1 failed (seed 3), 1 s", 1), ("1000 seeds from 1000: clean, 2 s", 0)):
        script = f"print({text!r}); raise SystemExit({code})"
        monkeypatch.setattr(sys, "argv", ["proof", "sim", "--least", "100", "--", sys.executable, "-c", script])
        assert proof.main() == code
    [row, old] = read(page.read_text())
    assert old.commit == CLEAN.commit
    assert (row.commit, row.is_changed) == (proof.git("rev-parse", "--short=12", "HEAD"), False)
    assert (row.seeds, row.passed, row.failed) == (((0, 2000),), 1999, ("seed 3",))
    (tmp_path / "new.py").touch()
    monkeypatch.setattr(
        sys, "argv", ["proof", "sim", "--", sys.executable, "-c", "print('9 seeds from 0: clean, 2 s')"]
    )
    assert proof.main() == 0
    assert [(one.is_changed, one.passed) for one in read(page.read_text())] == [
        (True, 9),
        (False, 1999),
        (False, 1000),
    ]
