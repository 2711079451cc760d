"""What `make quick` leaves out: PostgreSQL, and tests that are written down because they take long."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import quick
from tests.tidy import tidy_source as source

REPORT = """
1.20s call     tests/unit/test_a.py::test_long
0.90s setup    tests/unit/test_a.py::TestB::test_of_a_class[a b]
0.10s call     tests/unit/test_a.py::test_short
3 passed in 2.20s
"""


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)


def test_what_took_long_is_read_from_the_report() -> None:
    names = ["tests/unit/test_a.py::TestB::test_of_a_class[a b]", "tests/unit/test_a.py::test_long"]
    assert quick.long_ones(REPORT.splitlines(), least_s=0.5) == names


@pytest.mark.parametrize(
    ("one", "is_left_out"),
    [
        (item("tests/unit/test_a.py::test_long"), True),
        (item("tests/unit/test_a.py::test_short"), False),
        (item("tests/conformance/test_b.py::test_c[postgres]"), True),
        (item("tests/conformance/test_b.py::test_c[sqlite]"), False),
        (item("tests/unit/test_postgres_url.py::test_c"), False),
        (item("tests/unit/test_d.py::test_e", "postgres_url"), True),
    ],
)
def test_postgres_and_what_takes_long_are_left_out(
    one: Any, is_left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "left_out", lambda: {"tests/unit/test_a.py::test_long"})
    deselected: list[Any] = []
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items)))
    items = [one]
    quick.select(config, items)
    assert (items, deselected) == (([], [one]) if is_left_out else ([one], []))


def test_what_is_left_out_is_there() -> None:
    gone = {name for name in quick.left_out() if not (source.ROOT / name.partition("::")[0]).is_file()}
    assert not gone, "these files are no more: measure anew, as tests/quick.py says"
