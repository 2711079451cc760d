"""What miniflare's bindings answered, and what ours answer: the same, or a difference that the page explains."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workerd.binding_differences import DIFFERENCES
from tests.workerd.binding_scenarios import SCENARIOS
from tests.workerd.compare_bindings import RECORDED, ours, plain

TOLD = json.loads(RECORDED.read_text(encoding="utf-8"))
PAGE = Path(__file__).parents[2] / "docs" / "cloudflare.md"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Handlers that raise and messages that are parked are meant to be here."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_it_is_as_on_miniflare_or_explained(name: str) -> None:
    is_same = plain(await ours(name)) == plain(TOLD[name])
    assert is_same is (name not in DIFFERENCES)


def test_every_scenario_is_recorded() -> None:
    assert set(TOLD) == set(SCENARIOS)


def test_there_are_ten_of_each_kind() -> None:
    kinds = [kind for kind, _ in SCENARIOS.values()]
    assert min(kinds.count(kind) for kind in ("kv", "d1", "r2", "queue", "workflow")) >= 10


def test_every_difference_is_on_the_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [words for words in DIFFERENCES.values() if words not in page] == []
