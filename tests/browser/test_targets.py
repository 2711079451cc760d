"""On a phone everything that can be pressed is large enough to be hit (WCAG 2.5.8: 24 by 24, or that far from the next)."""

from typing import Any

import pytest

from tests.browser import paths

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'wakeful[dev]' brings playwright")
PATHS = [
    *paths.LISTS,
    "/search?q=e",
    "/object?class=Letter&key=ann",
    "/schedule?class=Letter&key=ann&name=deliver",
    "/job?id=Letter%2Fann%2F%253Dstamp-900",
]
# Of what is smaller, those whose circle of 24 px would meet another target or its circle. A link in a line of text is let off.
SMALL = """() => {
  const shown = [...document.querySelectorAll("a[href], button, summary, select, textarea, input:not([type=hidden])")]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length && !one.closest("svg, p, .hush, dd, li > span"))
    .map((one) => {
      const box = (one.closest("label") ?? one).getBoundingClientRect();
      return { one, box, x: box.x + box.width / 2, y: box.y + box.height / 2, small: box.width < 24 || box.height < 24 };
    });
  const gap = (a, b) => Math.min(a.small && b.small ? Math.hypot(a.x - b.x, a.y - b.y) - 24 : Infinity,
    Math.hypot(Math.max(b.box.left - a.x, 0, a.x - b.box.right), Math.max(b.box.top - a.y, 0, a.y - b.box.bottom)) - 12);
  return shown.filter((a) => a.small && shown.some((b) => b.one !== a.one && !b.one.contains(a.one) && !a.one.contains(b.one) && gap(a, b) < 0))
    .map(({ one, box }) => `${one.tagName.toLowerCase()} ${Math.round(box.width)}×${Math.round(box.height)} ${one.innerText?.slice(0, 30) ?? one.name}`);
}"""


def test_everything_that_can_be_pressed_on_a_phone_can_be_hit(town: Any, pages: Any) -> None:
    page = pages.open(town.url, width=390, height=844)
    found = {}
    for path in PATHS:
        page.goto(town.url + path)
        small = page.evaluate(SMALL)
        if small:
            found[path] = small
    assert found == {}


def test_two_that_are_small_and_close_are_found(town: Any, pages: Any) -> None:
    page = pages.open(town.url, width=390, height=844)
    page.evaluate("""() => {
      const line = document.createElement("div");
      document.querySelector("main").append(line);
      for (const name of "xy") {
        const button = document.createElement("button");
        Object.assign(button.style, { display: "inline-block", minHeight: 0, padding: 0, border: 0, width: "12px", height: "12px" });
        button.textContent = name;
        line.append(button);
      }
    }""")
    assert page.evaluate(SMALL) == ["button 12×12 x", "button 12×12 y"]
