"""What the real workerd answered, and what we answer: the same, or a difference that the page explains."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workerd import ours
from tests.workerd.differences import DIFFERENCES
from tests.workerd.workerd_scenarios import SCENARIOS

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
PAGE = HERE.parents[1] / "docs" / "cloudflare.md"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Alarms that are given up and resets are meant to be here."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_it_is_as_on_workerd_or_explained(name: str) -> None:
    got = await ours.answers(name, SCENARIOS[name])
    if name in DIFFERENCES:
        assert got == DIFFERENCES[name].ours
        assert got != RECORDED[name], "no difference any more: take it off the list, and off the page"
    else:
        assert got == RECORDED[name]


def test_every_scenario_is_recorded() -> None:
    assert set(RECORDED) == set(SCENARIOS)


def test_every_difference_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [one.told_as for one in DIFFERENCES.values() if f"`{one.told_as}`" not in page] == []
