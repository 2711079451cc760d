"""Tests import their helpers by bare name, from whichever folder came first: so no two of those have one name."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
import tidy_source as source


def shared_names(files: Iterable[tuple[str, str]]) -> list[str]:
    """Names that somebody imports and more than one file has, from (path, source)."""
    homes, wanted = defaultdict(list), set()
    for path, text in files:
        homes[Path(path).stem].append(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                wanted.add(node.module or "")
    return [
        f"{' and '.join(homes[name])} are both imported as {name}" for name in sorted(wanted) if len(homes[name]) > 1
    ]


def test_no_two_helpers_have_one_name() -> None:
    tests = source.ROOT / "tests"
    found = shared_names(
        (str(path.relative_to(tests)), path.read_text(encoding="utf-8")) for path in sorted(tests.rglob("*.py"))
    )
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("line", ["import cells", "from cells import cells"])
def test_a_second_helper_of_that_name_is_seen(line: str) -> None:
    assert shared_names([("unit/test_a.py", line), ("unit/cells.py", ""), ("live/cells.py", "")])
    assert not shared_names([("unit/test_a.py", line), ("unit/cells.py", "")])
    assert not shared_names([("unit/test_a.py", ""), ("unit/cells.py", ""), ("live/cells.py", "")])
