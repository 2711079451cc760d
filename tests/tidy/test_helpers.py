"""Tests import their helpers by whole name, so that which file is meant does not depend on what was imported first."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.tidy import tidy_source as source

TESTS = source.ROOT / "tests"
PROGRAMS = ("programs", "python")  # folders of those that are run as programs of users are, who have no package `tests`
CHANGES_PATH = re.compile(r"sys\.path(\.(append|insert|extend)\(| ?\+= |\[:0\] = )")


def problems(text: str, helpers: Iterable[str]) -> Iterator[str]:
    """What in the source of a test looks for a helper by anything but its whole name."""
    if CHANGES_PATH.search(text):
        yield "changes sys.path"
    for name in sorted(set(_bare_imports(text)) & set(helpers)):
        yield f"imports {name} by a bare name"


def _bare_imports(text: str) -> Iterator[str]:
    for node in source.nodes(text):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


def test_helpers_are_imported_by_their_whole_name() -> None:
    files = [path for path in sorted(TESTS.rglob("*.py")) if path.parent.name not in PROGRAMS]
    helpers = {path.stem for path in files if not (path.name.startswith("test_") or path.stem == "__init__")}
    found = [
        f"{path.relative_to(TESTS)} {problem}"
        for path in files
        if path != Path(__file__)
        for problem in problems(path.read_text(encoding="utf-8"), helpers)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    ["import cells", "from cells import cells", "sys.path.append('x')", "sys.path.insert(0, 'x')", "sys.path += ['x']"],
)
def test_a_bare_name_is_seen(line: str) -> None:
    assert list(problems(line, {"cells"}))
    assert not list(problems("from tests.unit import cells\nfrom tests.unit.cells import cells", {"cells"}))
