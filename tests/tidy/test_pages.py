"""The pages about schedules are true: their code runs, prints what they say, and their tables are what the code answers."""

import asyncio
import re
from typing import Any

import pytest

from tests.tidy import tidy_pages as tidy
from tests.tidy import tidy_source as source
from wakeful.specs.build import to_spec

_ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (.+?) \|$", re.MULTILINE)


def said(page: str) -> int:
    """How often a page says what its code prints."""
    return [block.language for block in tidy.blocks(page)].count("text")


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


@pytest.mark.parametrize("name", tidy.APART)
def test_the_code_of_a_page_runs_and_prints_what_it_says(name: str) -> None:
    page = (source.ROOT / "docs" / name).read_text(encoding="utf-8")
    assert said(page) >= 2
    assert asyncio.run(tidy.untrue(page)) == []


@pytest.mark.parametrize("name", ["testing.md", "concepts.md"])
def test_the_code_of_a_page_holds(name: str) -> None:
    """Programs in parts, which check themselves; those of the first page run themselves."""
    page = (source.ROOT / "docs" / name).read_text(encoding="utf-8")
    program = "\n".join(block.body for block in tidy.blocks(page) if block.language == "python")
    assert "assert " in program
    space: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, name, "exec"), space)
    for test in [value for key, value in space.items() if key.startswith("test_")]:
        asyncio.run(test())


def test_the_tables_of_specs_are_what_the_code_answers() -> None:
    page = (source.ROOT / "docs" / "specs.md").read_text(encoding="utf-8")
    assert len(_ROW.findall(page)) > 30
    assert wrong_rows(page) == []


def test_a_table_that_is_not_true_is_found() -> None:
    assert wrong_rows('| `every.day.at("9am")` | `cron 0 8 * * *` | at 09:00 every day |')
    assert wrong_rows('| `every.day.at("9am")` | `cron 0 9 * * *` | at 09:00 every day |') == []
