"""The pages about schedules are true: their code runs, prints what they say, and their tables are what the code answers."""

import ast
import asyncio
import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))
import tidy_source as source

from wakeful.logic.specs.text import to_spec

PAGES = (
    "specs.md",
    "schedules.md",
    "late-and-missed.md",
    "tenants-and-dags.md",
    "jobs.md",
    "cluster.md",
    "machines.md",
    "machines-resume.md",
    "sockets.md",
    "standalone.md",
    "cloudflare.md",
    "client.md",
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (.+?) \|$", re.MULTILINE)


def steps(page: str) -> list[tuple[str, str | None]]:
    """Each Python block, with what it should print when a `text` block follows it."""
    found: list[tuple[str, str | None]] = []
    for language, body in _BLOCK.findall(page):
        if language == "python":
            found.append((body, None))
        elif language == "text":
            found[-1] = (found[-1][0], body)
    return found


async def ran(page: str) -> list[str]:
    """Run a page's blocks one after the other, as one program; what each printed against what it should."""
    space: dict[str, Any] = {"__name__": "page"}
    wrong = []
    for body, expected in steps(page):
        out = io.StringIO()
        with redirect_stdout(out):
            done = eval(compile(body, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
            if done is not None:
                await done
        if expected is not None and out.getvalue() != expected:
            wrong.append(f"{body}\nprints\n{out.getvalue()}\nnot\n{expected}")
    return wrong


def wrong_rows(page: str) -> list[str]:
    """The rows `spec | text | words` that are not what the code answers."""
    space: dict[str, Any] = {}
    exec("from datetime import *\nfrom wakeful import *", space)
    found = []
    for code, text, words in _ROW.findall(page):
        spec = to_spec(eval(code.replace("\\|", "|"), space))
        if (spec.text, spec.describe()) != (text, words):
            found.append(f"{code}: {spec.text} | {spec.describe()}")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_it_says(name: str) -> None:
    page = (source.ROOT / "docs" / name).read_text(encoding="utf-8")
    assert sum(expected is not None for _, expected in steps(page)) >= 2
    assert asyncio.run(ran(page)) == []


@pytest.mark.parametrize("name", ["testing.md", "concepts.md"])
def test_the_code_of_a_page_holds(name: str) -> None:
    """Programs in parts, which check themselves; those of the first page run themselves."""
    page = (source.ROOT / "docs" / name).read_text(encoding="utf-8")
    program = "\n".join(body for body, _ in steps(page))
    assert "assert " in program
    space: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, name, "exec"), space)
    for test in [value for key, value in space.items() if key.startswith("test_")]:
        asyncio.run(test())


def test_the_tables_of_specs_are_what_the_code_answers() -> None:
    page = (source.ROOT / "docs" / "specs.md").read_text(encoding="utf-8")
    assert len(_ROW.findall(page)) > 30
    assert wrong_rows(page) == []


def test_a_page_that_is_not_true_is_found() -> None:
    assert asyncio.run(ran("```python\nprint(1)\n```\n\n```text\n2\n```\n"))
    assert asyncio.run(ran("```python\nprint(1)\n```\n\n```text\n1\n```\n")) == []
    assert wrong_rows('| `every.day.at("9am")` | `cron 0 8 * * *` | at 09:00 every day |')
    assert wrong_rows('| `every.day.at("9am")` | `cron 0 9 * * *` | at 09:00 every day |') == []
