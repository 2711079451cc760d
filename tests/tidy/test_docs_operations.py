"""The runbooks name metrics, log codes and tests that there are, and there is one for each of the likeliest faults."""

import re
from pathlib import Path

import pytest

from tests.tidy import tidy_pages as tidy
from tests.tidy import tidy_source as source

RUNBOOKS_MIN = 10
PAGES = [tidy.DOCS / "runbooks.md", *sorted((tidy.DOCS / "howto").glob("*.md"))]
_METRIC = re.compile(r"`(wakeful_\w+)`")
_CODE = re.compile(r"(?:log|`Unavailable) (?:`|\[)([a-z]+\.[a-z]+)(?:`|\])((?:(?:,| then|,\s+then) `[a-z]+\.[a-z]+`)*)")
_TEST = re.compile(r"tests/(\w+/test_\w+\.py)")


def unknown(text: str) -> list[str]:
    """Metrics that are not on their page, and codes that neither the log nor an error has."""
    metrics = (tidy.DOCS / "telemetry.md").read_text(encoding="utf-8")
    found = [name for name in _METRIC.findall(text) if f"`{name}`" not in metrics]
    known = "".join(body for _, body in source.modules())
    for first, others in _CODE.findall(text):
        found += [code for code in (first, *re.findall(r"[a-z]+\.[a-z]+", others)) if f'"{code}"' not in known]
    return found


@pytest.mark.parametrize("path", PAGES, ids=tidy.name_of)
def test_what_a_page_names_is_there(path: Path) -> None:
    assert unknown(path.read_text(encoding="utf-8")) == []


def test_there_is_a_runbook_for_each_likely_fault() -> None:
    text = (tidy.DOCS / "runbooks.md").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= RUNBOOKS_MIN
    assert len(_METRIC.findall(text)) >= 20
    assert len(_CODE.findall(text)) >= 8


@pytest.mark.parametrize("path", tidy.pages(), ids=tidy.name_of)
def test_the_tests_that_a_page_leans_on_are_there(path: Path) -> None:
    named = _TEST.findall(path.read_text(encoding="utf-8"))
    assert [name for name in named if not (source.ROOT / "tests" / name).is_file()] == []


def test_what_is_not_there_is_found() -> None:
    assert unknown("`wakeful_nonsense_total`, log `nonsense.code`") == ["wakeful_nonsense_total", "nonsense.code"]
    assert unknown("`wakeful_timers_parked_total`, log `timer.parked`") == []
