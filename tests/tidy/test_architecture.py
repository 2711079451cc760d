"""The map of the code is true: what it names is there, and every part of the package is on it."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy import tidy_source as source

MAP = source.ROOT / "docs" / "architecture.md"
CONTRIBUTING = source.ROOT / "CONTRIBUTING.md"
_CODE = re.compile(r"`([^`\n]+)`")
_PLACE = re.compile(r"(?P<file>[\w./]+\.py)(?:: (?P<name>[\w.]+))?")
_NAME = re.compile(r"(?P<name>[A-Z]\w+(?:\.\w+)?)")


def names_in(text: str) -> Iterator[str]:
    """What a module has: functions, classes, and methods as `Class.method`."""
    for node in source.parsed(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}"


def astray(text: str) -> list[str]:
    """What the map names and the code does not have; a bare `Class.method` is looked for in the files of its paragraph."""
    problems = []
    for paragraph in text.split("\n\n"):
        known: set[str] = set()
        places = [match for code in _CODE.findall(paragraph) if (match := _PLACE.fullmatch(code))]
        for place in places:
            roots = (source.PACKAGE, source.ROOT)
            path = next((root / place["file"] for root in roots if (root / place["file"]).is_file()), None)
            if path is None:
                problems.append(f"{place['file']} is not there")
                continue
            there = set(names_in(path.read_text(encoding="utf-8")))
            known |= there
            if place["name"] and place["name"] not in there:
                problems.append(f"{place['file']} has no {place['name']}")
        for code in _CODE.findall(paragraph):
            if places and _NAME.fullmatch(code) and "." in code and code not in known:
                problems.append(f"{code} is in none of the files named beside it")
    return problems


def missing(text: str) -> list[str]:
    """Parts of the package that the map leaves out."""
    on_map = set(_CODE.findall(text))
    parts = [path for path in sorted(source.PACKAGE.iterdir()) if not path.name.startswith("_")]
    return [
        path.name for path in parts if (any(path.rglob("*.py")) or path.suffix == ".py") and path.name not in on_map
    ]


def test_what_the_map_names_is_there() -> None:
    assert astray(MAP.read_text(encoding="utf-8")) == []


def test_every_part_of_the_package_is_on_the_map() -> None:
    assert missing(MAP.read_text(encoding="utf-8")) == []


def test_every_folder_of_tests_is_said_to_be_for_something() -> None:
    said = set(_CODE.findall(CONTRIBUTING.read_text(encoding="utf-8")))
    folders = {path.name for path in (source.ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert folders - said == set()


@pytest.mark.parametrize(
    "line", ["`runtime/nodes.py`", "`runtime/node.py: Node.nothing`", "`runtime/node.py: Node.send`, `Node.nothing`"]
)
def test_what_is_not_there_is_found(line: str) -> None:
    assert astray(line)


def test_what_is_there_is_not() -> None:
    assert not astray("`runtime/node.py: Node.send`, then `Node.deliver`")
    assert "runtime" in missing("nothing")
