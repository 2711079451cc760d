"""Which tests does `make quick` leave out: those of PostgreSQL, and those that take long?

    python -m pytest --quick tests/unit

What takes long is written down in `quick_leaves.txt`, by

    python -m pytest -k "not postgres" --durations=0 tests/unit tests/tidy tests/conformance | python -m tests.quick
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

LEAVES = Path(__file__).with_name("quick_leaves.txt")
LONG_S = 0.5  # a test that takes longer is left out; of three thousand, one in twenty does
_ROW = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(tests/\S+(?: \S+)*)")


def left_out() -> set[str]:
    """The names that are written down."""
    return {line for line in LEAVES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}


def needs_postgres(item: pytest.Item) -> bool:
    fixtures: Iterable[str] = getattr(item, "fixturenames", ())
    return "postgres" in item.nodeid.partition("[")[2] or any(name.startswith("postgres") for name in fixtures)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave in the list what is quick."""
    long = left_out()
    quick: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (others if item.nodeid in long or needs_postgres(item) else quick).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = quick


def long_ones(report: Iterable[str], least_s: float = LONG_S) -> list[str]:
    """The tests that took longer, by what `pytest --durations` printed."""
    rows = (_ROW.match(line.rstrip()) for line in report)
    return sorted({row[2] for row in rows if row and float(row[1]) > least_s})


if __name__ == "__main__":
    names = long_ones(sys.stdin)
    LEAVES.write_text("# Written by tests/quick.py.\n" + "\n".join(names) + "\n", encoding="utf-8")
    print(f"{len(names)} tests take longer than {LONG_S} s")
