"""Every code block of the documentation runs and prints what the page says, or says above it why it is not run.

`<!-- not run: why -->` right above a block leaves it out. Blocks of a page are one program; a `text` block after a
Python block is what it prints. Shell blocks are run by tests/live/test_new_user.py on the pages that it names, and
commands of `wakeful` that need neither store nor program (`wakeful cron`) are run here.
"""

import ast
import asyncio
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.tidy import tidy_pages as tidy
from wakeful.cli import cli

# Run by test_pages.py, in ways of their own.
ELSEWHERE = {f"docs/{name}" for name in (*tidy.APART, "testing.md", "concepts.md")}
SHELL = {"docs/quickstart.md", "README.md"}  # run by tests/live/test_new_user.py
MARKS = {"", "not run", "in the background"}
LANGUAGES = {
    "python",
    "text",
    "sh",
    "console",
    "json",
    "yaml",
    "toml",
    "ini",
    "js",
    "nginx",
    "xml",
    "sql",
    "http",
    "dockerfile",
}
WHY_MIN = 12  # characters; "slow" is no reason
# Above the first statement of a page that awaits: `python page.py` would call it a syntax error.
NOTE = "# In a file of yours this goes into `async def main()`, which `asyncio.run(main())` runs.\n"


def faults(name: str, text: str) -> list[str]:
    """Blocks without a language, with a mark that means nothing or no reason, and shell blocks that nothing runs."""
    found = []
    for block in tidy.blocks(text):
        where = f"{name}:{block.line}"
        if block.language not in LANGUAGES:
            found.append(f"{where}: a block of {block.language or 'no language'}; say what it is")
        elif block.mark not in MARKS:
            continue  # a comment about something else
        elif block.mark and len(block.why) < WHY_MIN:
            found.append(f"{where}: say why it is not run")
        if block.mark in MARKS - {""}:
            continue
        if (block.language == "sh" and name not in SHELL) or (block.language == "console" and not _is_alone(block)):
            found.append(f"{where}: nothing runs this; put <!-- not run: why --> right above it")
    return found


def _is_alone(block: tidy.Block) -> bool:
    """Whether it needs neither a store nor a program, so that it can be run here."""
    return block.body.startswith("$ wakeful cron ")


def unsaid(text: str) -> bool:
    """Whether a page awaits outside of functions, and does not say where it does so first how such code is run."""
    for block in tidy.blocks(text):
        if block.language != "python" or block.mark == "not run":
            continue
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        first = next((line.lineno for line in compile(block.body, "page", "exec", flags).body if _awaits(line)), None)
        if first is not None:
            return not "".join(block.body.splitlines(keepends=True)[: first - 1]).endswith(NOTE)
    return False


def _awaits(node: ast.AST) -> bool:
    if isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor):
        return True
    is_own = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
    return not is_own and any(map(_awaits, ast.iter_child_nodes(node)))


def has_code(path: Path) -> bool:
    blocks = tidy.blocks(path.read_text(encoding="utf-8"))
    return any(block.language == "python" and block.mark != "not run" for block in blocks)


PAGES = [path for path in tidy.pages() if tidy.name_of(path) not in {*ELSEWHERE, "README.md"} and has_code(path)]
CONSOLES = [
    pytest.param(block, id=f"{tidy.name_of(path)}:{block.line}")
    for path in tidy.pages()
    for block in tidy.blocks(path.read_text(encoding="utf-8"))
    if block.language == "console" and _is_alone(block)
]


@pytest.mark.parametrize("path", PAGES, ids=tidy.name_of)
def test_the_code_of_a_page_runs_and_prints_what_it_says(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(tidy.untrue(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", tidy.pages(), ids=tidy.name_of)
def test_blocks_run_or_say_why_not(path: Path) -> None:
    assert faults(tidy.name_of(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("block", CONSOLES)
def test_a_command_prints_what_the_page_says(block: tidy.Block) -> None:
    command, _, expected = block.body.removeprefix("$ wakeful ").partition("\n")
    done = CliRunner().invoke(cli, shlex.split(command), env={"COLUMNS": "100"})
    assert done.exit_code == 0
    assert [line.rstrip() for line in done.output.strip().splitlines()] == expected.rstrip("\n").splitlines()


def test_what_is_not_true_is_found() -> None:
    assert asyncio.run(tidy.untrue("```python\nprint(1)\n```\n\n```text\n2\n```\n"))
    assert asyncio.run(tidy.untrue("```python\nprint(1)\n```\n\n```text\n1\n```\n")) == []
    assert asyncio.run(tidy.untrue("<!-- not run: it can't be -->\n```python\n1 / 0\n```\n")) == []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(tidy.untrue("<!-- not run: of another block -->\n\n```python\n1 / 0\n```\n"))


@pytest.mark.parametrize("path", tidy.pages(), ids=tidy.name_of)
def test_a_page_that_awaits_says_how_it_is_run(path: Path) -> None:
    assert not unsaid(path.read_text(encoding="utf-8"))


def test_a_page_that_awaits_and_does_not_say_how_is_found() -> None:
    assert unsaid("```python\nimport x\n\nawait x.y()\n```\n")
    assert unsaid("```python\nfor y in x:\n    async with y:\n        pass\n```\n")
    assert not unsaid(f"```python\nimport x\n\n{NOTE}await x.y()\n```\n\n```python\nawait x.z()\n```\n")
    assert not unsaid("```python\nasync def f(x):\n    await x.y()\n```\n")


def test_what_nothing_runs_is_found() -> None:
    assert faults("docs/x.md", "```sh\nls\n```\n")
    assert faults("docs/x.md", "<!-- not run: -->\n```sh\nls\n```\n")
    assert faults("docs/x.md", "```console\n$ wakeful ls\n```\n")
    assert faults("docs/x.md", "```\nls\n```\n")
    assert faults("docs/x.md", "<!-- not run: needs three machines -->\n```sh\nls\n```\n") == []
