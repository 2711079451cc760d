"""Every command in the documents exists, every Python block compiles, and the README's example runs."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from tests.tidy import tidy_pages as tidy
from tests.tidy import tidy_source as source

_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
EXAMPLE_LINES_MAX = 20


def blocks(text: str, language: str) -> list[str]:
    return [block.body for block in tidy.blocks(text) if block.language == language]


def unknown_commands(text: str) -> list[str]:
    """The lines of `sh` blocks that name a make target, a wakeful command or an option that isn't there."""
    from wakeful.cli import cli
    from wakeful.cli.options import ListingGroup

    targets = set(_TARGET.findall((source.ROOT / "Makefile").read_text()))
    found = []
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = line.split("#")[0].strip().removeprefix("$ ").split()
            if not words:
                continue
            program, arguments = words[0].rpartition("/")[2], words[1:]
            if program == "make":
                found += [line for word in arguments if "=" not in word and word not in targets]
            elif program == "wakeful":
                command = cli.get_command(click.Context(cli), arguments[0]) if arguments else None
                if command is None:
                    found.append(line)
                    continue
                if isinstance(command, click.Group):
                    alone = command.commands["list"] if isinstance(command, ListingGroup) else command
                    command = command.commands.get(arguments[1] if len(arguments) > 1 else "", alone)
                known = {option for parameter in command.params for option in parameter.opts}
                found += [line for word in arguments if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]
    return found


def uncompilable(text: str) -> list[str]:
    found = []
    for block in blocks(text, "python"):
        try:
            compile(block, "<block>", "exec", flags=0x2000)  # top-level await is fine in a document
        except SyntaxError as error:
            found.append(f"line {error.lineno} of the block that begins {block.splitlines()[0]!r}: {error.msg}")
    return found


@pytest.mark.parametrize("path", tidy.pages(), ids=tidy.name_of)
def test_commands_exist_and_code_compiles(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert unknown_commands(text) == []
    assert uncompilable(text) == []


def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = blocks((source.ROOT / "README.md").read_text(encoding="utf-8"), "python")[0]
    assert sum(bool(line.strip()) for line in example.splitlines()) <= EXAMPLE_LINES_MAX, (
        "the README promises a short one"
    )
    space: dict[str, Any] = {"__name__": "readme_example"}
    exec(compile(example, "README.md", "exec"), space)

    async def run() -> None:
        async with space["app"].world(start="2026-03-27T06:00:00+00:00") as world:
            await world.get(space["Reminders"], "bob").add("call home", world.now() + timedelta(seconds=2))
            await world.advance(seconds=1)
            assert capsys.readouterr().out == ""
            await world.crash()
            await world.restart(after="1h")
            await world.advance(days=3, hours=1)

    asyncio.run(run())
    assert capsys.readouterr().out.splitlines() == [
        "reminder: call home",
        "standup of 2026-03-27 08:00:00+00:00 after 0 missed",
        "standup of 2026-03-30 07:00:00+00:00 after 0 missed",  # nine in Paris, after the change of the clocks
    ]


def test_the_makefile_documents_its_targets() -> None:
    text = (source.ROOT / "Makefile").read_text()
    wanted = {"demo", "test", "lint", "types", "sim", "live", "bench", "bench-full", "clean", "help"}
    assert wanted <= set(re.findall(r"^([a-z-]+):[^\n]*## \S", text, re.MULTILINE))


def test_what_the_demo_says_to_try_exists() -> None:
    hints = re.findall(r"\$\(BIN\)/(wakeful [^#\n\"]+)", (source.ROOT / "Makefile").read_text())
    assert len(hints) >= 6
    assert any(hint.startswith("wakeful why ") for hint in hints)
    assert unknown_commands("```sh\n" + "\n".join(hints) + "\n```\n") == []


@pytest.mark.parametrize(
    "line", ["make nonsense", "wakeful nonsense", "wakeful ls --nonsense", "$ .venv/bin/wakeful shwo A b", "wakeful"]
)
def test_the_check_of_commands_can_fail(line: str) -> None:
    assert unknown_commands(f"```sh\n{line}\n```\n") == [line]


def test_the_check_of_code_can_fail() -> None:
    assert uncompilable("```python\ndef f(:\n```\n")
