"""The tables of the page on time zones are what the code does."""

import pytest

from tests.unit.specs.zone_tables import PAGE, parts, tables, written

NAMES = ("spring", "autumn", "elsewhere")


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_what_the_code_does(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert parts(page)[name] == tables()[name], "write it anew: .venv/bin/python tests/unit/specs/zone_tables.py"


def test_the_page_has_no_other_tables_to_compute() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(parts(page)) == sorted(NAMES) == sorted(tables())
    assert written(page) == page


def test_a_stale_table_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("| 03:00 |", "| 02:30 |", 1)
    assert parts(page)["spring"] != tables()["spring"]
    assert parts(written(page))["spring"] == tables()["spring"]
