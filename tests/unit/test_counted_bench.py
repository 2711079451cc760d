"""bench/instructions.md: what it keeps, and that what became slower is found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import counted, instructions
from bench.counted import Row

OURS = counted.build()
HEAD = "0123456789ab"


def row(commit: str = HEAD, build: str = OURS, /, **counts: int) -> Row:
    return Row(commit, "2026-11-19", build, counts)


def counting(*answers: int) -> tuple[Callable[[str, str, Path], int], list[tuple[str, str, Path]]]:
    """Counts that give these answers, and what was asked."""
    left, asked = iter(answers), []

    def count(work: str, store: str, source: Path) -> int:
        asked.append((work, store, source))
        return next(left)

    return count, asked


def test_rows_are_kept_by_store_the_newest_first_and_of_each_commit_one() -> None:
    page = "# Instructions\n\nWords.\n"
    page = counted.write(page, "sqlite", row("a" * 12, write=1_234_567))
    page = counted.write(page, "memory", row("a" * 12, write=7))
    page = counted.write(page, "sqlite", row("b" * 12, write=8, read=9))
    page = counted.write(page, "sqlite", row("b" * 12, write=10, read=9))
    assert counted.read(page) == {
        "memory": [row("a" * 12, write=7)],
        "sqlite": [row("b" * 12, write=10, read=9), row("a" * 12, write=1_234_567)],
    }
    assert page.startswith("# Instructions\n\nWords.\n\n## memory\n")
    for number in range(counted.ROWS + 5):
        page = counted.write(page, "memory", row(f"{number:012x}", write=number))
    assert len(counted.read(page)["memory"]) == counted.ROWS


def test_the_page_that_is_kept_can_be_read() -> None:
    kept = counted.read(counted.PAGE.read_text())
    assert set(kept) == set(instructions.STORES)
    for store, rows in kept.items():
        wanted = {work for work in instructions.KEPT if store == "memory" or work not in instructions.STORELESS}
        assert set(rows[0].counts) == wanted


@pytest.mark.parametrize(
    ("answers", "is_slower", "now"),
    [
        ([1_000], False, 1_000),
        ([1_020], False, 1_020),
        ([1_021, 1_019], False, 1_019),  # one reading beyond is noise until it was counted again
        ([1_040, 1_030, 1_035], True, 1_030),
        ([400], False, 400),
    ],
)
def test_two_in_a_hundred_more_is_slower(answers: list[int], is_slower: bool, now: int) -> None:
    count, asked = counting(*answers)
    [verdict] = counted.judge("memory", ["write"], row(write=1_000), count)
    assert (verdict.is_slower, verdict.now, len(asked)) == (is_slower, now, len(answers))
    assert ("SLOWER" in str(verdict)) is is_slower


def test_what_was_never_counted_is_not_slower() -> None:
    count, _ = counting(5, 6)
    assert [one.is_slower for one in counted.judge("memory", ["write"], None, count)] == [False]
    assert [one.is_slower for one in counted.judge("memory", ["write"], row(read=1), count)] == [False]


def test_the_commit_of_another_build_is_counted_again_with_its_own_source() -> None:
    head = instructions.git("rev-parse", "HEAD")[:12]
    count, asked = counting(1_000, 1_500, 1_500, 1_500)
    [verdict] = counted.judge("memory", ["write"], row(head, "3.9-00000000", write=10), count)
    assert (verdict.before, verdict.is_slower) == (1_000, True)
    assert asked[0][2] != counted.ROOT / "src"
    assert {source for _, _, source in asked[1:]} == {counted.ROOT / "src"}


def test_a_slow_down_ends_the_check_with_1_and_only_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "instructions.md"
    page.write_text(counted.write("# Instructions\n", "memory", row(write=1_000)))
    monkeypatch.setattr(counted, "PAGE", page)
    monkeypatch.setattr(instructions.shutil, "which", lambda name: "/usr/bin/valgrind")
    monkeypatch.setattr(instructions.Counter, "count", lambda *_: 1_100)

    def main(*args: str) -> int:
        monkeypatch.setattr("sys.argv", ["instructions", "--stores", "memory", "--only", "write", *args])
        return instructions.main()

    assert (main("--check"), main()) == (1, 0)
    assert "+10.0%   SLOWER" in capsys.readouterr().out
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert (main("--check"), main()) == (0, 2)  # where valgrind can't be had, `make bench` goes on and says so
    assert "there is no valgrind" in capsys.readouterr().err
