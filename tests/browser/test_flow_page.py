"""The page of a workflow: its steps as a timeline that can be read, in light, dark and on a phone, and what can be done."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import _started
from tests.browser.test_pages import ALL_RULES, AXE, FINDINGS, expect

STATES = {"waits": "waiting", "sleeps": "sleeping", "fails": "failed", "queued%2F1": "queued"}
BARS = """() => [...document.querySelectorAll("svg.span rect")].map((bar) => {
  const [box, all] = [bar.getBoundingClientRect(), bar.ownerSVGElement.getBoundingClientRect()];
  return [Math.round(box.left - all.left), Math.round(box.width), Math.round(all.width), getComputedStyle(bar).fill];
})"""


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the program of flows.py is."""
    command = [sys.executable, "-m", "wakeful.cli", "dev", "tests/browser/flows.py", "--store"]
    yield from _started([*command, f"sqlite:{tmp_path_factory.mktemp('flows')}/all.db"], ", dashboard at ", str)


def path_of(flows: str, key: str) -> str:
    return f"{flows.rstrip('/')}/object?class=Order&key={key}"


def wait(page: Any, state: str) -> None:
    """Until it is so."""
    section = page.locator("section[aria-labelledby=workflow]")
    expect(section.locator("header span").first).to_contain_text(state)


def test_the_timeline_shows_what_was_when(pages: Any, flows: str) -> None:
    page = pages.open(path_of(flows, "waits"))
    wait(page, "waiting")
    page.reload()
    rows = page.locator("section[aria-labelledby=workflow] tbody tr")
    texts = [text.split("\n")[0] for text in rows.all_inner_texts()]
    names = ["reserve", "charge the card", "ask the warehouse", "tell the customer", "cool down", "approved"]
    assert [text.split("\t")[0].strip().startswith(name) for text, name in zip(texts, names, strict=True)] == [True] * 6
    expect(rows.nth(3)).to_contain_text("3 attempts")
    bars = page.evaluate(BARS)
    lefts, ends = [left for left, *_ in bars], [left + wide for left, wide, *_ in bars]
    assert all(wide >= 1 and end <= all_ + 1 for (_, wide, all_, _), end in zip(bars, ends, strict=True)), bars
    assert lefts == sorted(lefts)  # they begin in the order of asking
    assert len({fill for *_, fill in bars} - {"none", "rgba(0, 0, 0, 0)"}) >= 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_read_it(theme: str, pages: Any, flows: str) -> None:
    axe, found, wide = AXE.read_text(encoding="utf-8"), [], []
    page = pages.open(path_of(flows, "waits"), theme=theme)
    for key, state in STATES.items():
        page.goto(path_of(flows, key))
        wait(page, state)
        page.evaluate(axe)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            found += [f"{key} {width}: {one}" for one in page.evaluate(FINDINGS, ALL_RULES)]
            wide += [(key, width)] if page.evaluate("document.scrollingElement.scrollWidth") > width else []
            if "SHOTS" in os.environ:
                page.screenshot(path=Path(os.environ["SHOTS"]) / f"{key}-{theme}-{width}.png", full_page=True)
    assert (found, wide) == ([], [])


def test_what_is_queued_says_where_and_can_be_cancelled(pages: Any, flows: str) -> None:
    page = pages.open(path_of(flows, "queued%2F1"))
    wait(page, "queued")
    expect(page.locator("section[aria-labelledby=workflow]")).to_contain_text("orders as acme")
    page.get_by_role("button", name="Cancel").click()
    wait(page, "cancelled")
