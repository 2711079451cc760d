"""Tables fit the terminal: long keys, wide characters, forty columns."""

import io
import json
import re
import sys
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from wakeful.cli import exit_codes, output
from wakeful.cli.terminal_log import Say

ROWS = [
    ("Tab", "ada", 4, "500 B", "3 s ago", "schedule cool in 27 s"),
    ("Tab", "eu/7:" + "x" * 70, 4, "500 B", "3 s ago", "schedule close in 9 h"),
    ("Tab", "日本語の鍵/とても長い名前です", 12_000, "1.2 MB", "3 s ago", ""),
]
COLUMNS = ["class", "key", ">rows", ">size", "last active", "…next timer"]


def drawn(columns: list[str], rows: Sequence[Sequence[object]], width: int, *, indent: int = 0) -> list[str]:
    out = io.StringIO()
    output.print_table(Console(file=out, width=width, markup=False, emoji=False), columns, rows, indent=indent)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("indent", [0, 2])
@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 240])
def test_no_line_is_wider_than_the_terminal_and_nothing_but_the_cut_column_is_lost(width: int, indent: int) -> None:
    lines = drawn(COLUMNS, ROWS, width, indent=indent)
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    text = re.sub(r"\s", "", "".join(lines))
    assert text.count("x") >= 70
    assert "ada" in text
    assert "日本" in text


def test_a_table_that_fits_is_a_table_and_one_that_can_t_is_blocks() -> None:
    assert drawn(["a", ">b"], [("x", 1), ("yy", 22)], 40) == ["a     b", "───────", "x     1", "yy   22"]
    wide = drawn(COLUMNS, ROWS[:1], 40)
    assert wide[:3] == ["class        Tab", "key          ada", "rows         4"]
    assert wide[-1] == "next timer   schedule cool in 27 s"


def test_in_blocks_empty_cells_are_left_out_and_a_column_without_a_name_joins_the_one_before() -> None:
    rows = [("14:09", "in 1 h", "a" * 30, ""), ("14:10", "in 2 h", "b" * 30, "late")]
    assert drawn(["at", "", ">object", "note"], rows, 40) == [
        "at      14:09, in 1 h",
        "object  " + "a" * 30,
        "",
        "at      14:10, in 2 h",
        "object  " + "b" * 30,
        "note    late",
    ]


def test_a_column_that_says_nothing_goes_before_the_table_does() -> None:
    columns = [">one", ">two", "…error"]
    assert drawn(columns, [("1" * 12, "2" * 12, "")], 30)[0] == " " * 9 + "one" + " " * 12 + "two"
    assert drawn(columns, [("1" * 12, "2" * 12, "")], 60)[0].endswith("error")


def test_what_can_be_done_without_goes_and_what_may_be_cut_stands_below_before_rows_become_blocks() -> None:
    columns, row = (
        [">number", "object", "?asked for", "…error"],
        ("1", "Order/17", "14:27:45", "no mailbox of that name"),
    )
    assert drawn(columns, [row], 60)[0] == "number   object     asked for   error"
    assert drawn(columns, [row, ("2", "Order/18", "", "")], 26) == [
        "number   object",
        "─────────────────",
        "     1   Order/17",
        "   no mailbox of that name",
        "     2   Order/18",
    ]
    assert drawn(columns, [row], 20)[-1] == "   no mailbox of th…"
    assert drawn(columns, [row], 16)[:3] == ["number     1", "object     Order/17", "asked for  14:27:45"]


def test_what_may_be_cut_gives_way_first_and_what_reads_badly_in_pieces_last() -> None:
    widths = output.fit(["key", "~why", "…error"], [["k" * 30, "w " * 30, "e" * 60]], 100)
    assert widths is not None
    assert widths[0] == 30
    assert widths[1] == 52
    assert widths[2] == output.CUT_MIN
    cut = drawn(["a", "…b"], [("a", "b" * 50)], 20)
    assert cut[-1] == "a   " + "b" * 15 + "…"


def test_words_of_a_wrapping_column_stay_whole() -> None:
    lines = drawn(["verdict", "~why"], [("skipped", "it was paused by a person who went home")], 34)
    assert [line[10:] for line in lines[2:]] == ["it was paused by a", "person who went home"]


def test_a_table_without_rows_is_its_head() -> None:
    assert drawn(["a", "b"], [], 40) == ["a   b", "─────"]


def test_control_characters_never_reach_the_terminal() -> None:
    text = "\n".join(drawn(["a"], [("\x1b[31mred\x07",)], 40))
    assert "\x1b" not in text
    assert "\\x1b[31mred\\x07" in text


def test_nothing_that_a_command_says_turns_or_moves_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exit_codes, "as_json", False)  # the last command of another test may have set it
    odd = "a\u202efdp\x9b2J\x1b[1mé\u2066"
    output.put_line(f"{odd} is paused\nand more")
    assert capsys.readouterr().out == "a\\u202efdp\\x9b2J\\x1b[1mé\\u2066 is paused\nand more\n"
    output.put_json({odd: [odd]})
    exit_codes.report(ValueError(odd))
    Say(as_json=True).event("ready", odd)
    out, err = capsys.readouterr()
    assert not set("\u202e\x9b\x1b\u2066") & set(out + err)
    first, second = map(json.loads, out.splitlines())
    assert (first, second["text"]) == ({odd: [odd]}, odd)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> tuple[str, str]:
        out, err = Terminal(), Terminal()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        Say(as_json=False).event("ready", "up")
        output.put_line("green", "green")
        output.put_line("dim", "dim")
        output.put_table(["class", "key"], [("A", "b")])
        with output.pulse("migrate"):
            pass
        exit_codes.report(ValueError("no"))
        monkeypatch.undo()
        return out.getvalue(), err.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert all("\x1b[3" in text for text in said())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b" in text for text in said())


def test_a_bar_is_for_those_who_watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with output.bar("redrive", 3) as step:
        step(1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(output, "is_watched", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    with output.bar("redrive", 3) as step:
        step(1)
        step(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/3" in err
    with output.bar("redrive", 3, is_shown=False) as step:
        step(3)
    assert capsys.readouterr() == ("", "")


def test_work_of_unknown_length_pulses_for_those_who_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*, is_shown: bool) -> str:
        with output.pulse("migrate", is_shown=is_shown) as note:
            note("migrate: 3 rows")
        return sys.stderr.getvalue() if isinstance(sys.stderr, Terminal) else capsys.readouterr().err

    assert said(is_shown=True) == ""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stderr", Terminal())
    assert said(is_shown=False) == ""
    assert "migrate: 3 rows" in said(is_shown=True)
    assert capsys.readouterr().out == ""
