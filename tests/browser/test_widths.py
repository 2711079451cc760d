"""Nothing is wider than the window, or stands over something else, however long the names are."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser import paths
from tests.unit.dashboard_stage import staged

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'wakeful[dev]' brings playwright")
expect = playwright.expect
WIDTHS = (390, 768, 960, 1024, 1100, 1280)
MISSING = ["/nowhere", f"/object?class=Chart&key={'k' * 511}"]
LISTS = [*paths.LISTS, "/search?q=k", "/search?q=e", *MISSING]
DATABASE = f"/database?class=ReminderOfEverythingThatSomebodyOwesToAnybodyForOneReasonOrOther&key={'k' * 512}"
LISTS += [DATABASE, f"{DATABASE}&table={'n' * 200}"]
POINTS = DATABASE.replace("/database", "/points")
LISTS += [POINTS, f"{POINTS}&to=1970-01-02T00:00Z"]
ONES = {"/object", "/schedule", "/job", "/parked/one"}
EACH = 3  # of a kind
# What a table takes is its own width, or that of what it scrolls in.
TOO_WIDE = """() => {
  const found = [], page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push(`the page by ${page.scrollWidth - page.clientWidth}`);
  for (const table of document.querySelectorAll("main table")) {
    const place = table.closest("section, #live, main").getBoundingClientRect();
    const over = (table.closest(".wide") ?? table).getBoundingClientRect().right - place.right;
    if (over > 1) found.push(`a table by ${Math.round(over)}: ${table.innerText.slice(0, 40)}`);
  }
  return found;
}"""


def ones(page: Any, url: str) -> list[str]:
    """Some pages of each kind that the lists lead to."""
    found: dict[str, list[str]] = {path: [] for path in ONES}
    for path in LISTS:
        page.goto(url + path)
        for link in page.evaluate("[...document.querySelectorAll('main a[href]')].map((a) => a.getAttribute('href'))"):
            some = found.get(urlsplit(link).path)
            if some is not None and link not in some and len(some) < EACH:
                some.append(link)
    assert all(found.values()), found
    return [link for some in found.values() for link in some]


def check(page: Any, url: str, paths: list[str]) -> None:
    wide = []
    for path in paths:
        answer = page.goto(url + path)
        assert answer.status == (404 if path in MISSING else 200), path
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            wide += [f"{width} {path[:60]}: {one}" for one in page.evaluate(TOO_WIDE)]
    assert wide == []


def test_no_page_is_wider_than_its_window_however_long_its_names_are(longest: str, pages: Any) -> None:
    page = pages.open(longest, expected=("404",))
    expect(page.locator("#parked-count")).to_be_visible()  # by now something has failed for good
    check(page, longest, [*LISTS, *ones(page, longest)])


def test_no_table_stands_over_another_in_a_small_window(town: Any, pages: Any) -> None:
    page = pages.open(town.url)
    check(page, town.url, ["/", "/object?class=Letter&key=ann", "/schedule?class=Letter&key=ann&name=deliver"])


HEADER = """() => {
    const box = (query) => document.querySelector(query).getBoundingClientRect();
    const last = [...document.querySelectorAll('.pages a')].at(-1).getBoundingClientRect(), find = box('.find');
    return [box('.brand').height < 30, last.right <= find.left || last.top >= find.bottom - 4];
}"""


def test_the_header_has_its_name_on_one_line_and_no_page_behind_the_search(town: Any, pages: Any) -> None:
    page = pages.open(town.url)
    wrong = []
    for width in (1081, 1180, 1221, 1260, 1320, 1330, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        wrong += [width] if page.evaluate(HEADER) != [True, True] else []
    assert wrong == []


def test_a_chart_that_is_not_redrawn_yet_widens_no_page(town: Any, pages: Any) -> None:
    page = pages.open(town.url, width=768)  # one chart below the other: each as wide as the window
    page.add_init_script("ResizeObserver = class { observe() {} }")  # a frame that never comes
    page.goto(town.url)
    expect(page.locator(".uplot")).to_have_count(2)
    page.set_viewport_size({"width": 960, "height": 844})  # side by side
    assert page.evaluate("document.querySelector('.uplot').clientWidth") > 600
    assert page.evaluate(TOO_WIDE) == []


def test_what_a_button_opens_is_within_the_window(longest: str, pages: Any) -> None:
    page = pages.open(longest, expected=("404",))
    for path in ones(page, longest):
        page.goto(longest + path)
        for width in (390, 640, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            for button in page.locator(".title .act > summary").all():
                button.click()
                form = page.locator(".title .act[open] > form").bounding_box()
                button.click()
                assert form["x"] >= 0, (width, path[:40], form)
                assert form["x"] + form["width"] <= width, (width, path[:40], form)


def cluster() -> str:
    """The page Nodes where there are two, whose shards can be drained: the demo has one."""

    async def ask() -> str:
        async with staged(nodes=2) as stage:
            return await stage.text("/nodes")

    with ThreadPoolExecutor(1) as pool:  # playwright has the loop of this thread
        return pool.submit(asyncio.run, ask()).result()


def test_draining_a_node_asks_within_the_window(town: Any, pages: Any) -> None:
    page = pages.open(town.url)
    text = re.sub("<script.*?</script>", "", cluster())  # it does not live: the demo would tell it of its own node
    page.route("**/nodes", lambda route: route.fulfill(body=text, content_type="text/html"))
    for width in (*WIDTHS, 640):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(f"{town.url}/nodes")
        found = page.evaluate(TOO_WIDE)
        page.locator(".act > summary").last.click()
        form = page.locator(".act[open] > form")
        box = form.bounding_box()
        assert (width, found, page.evaluate(TOO_WIDE)) == (width, [], [])
        assert (box["x"] >= 0, box["x"] + box["width"] <= width) == (True, True), (width, box)
        assert form.evaluate("(node) => node.scrollWidth <= node.clientWidth"), width


def test_a_phone_shows_keys_of_storage_whole_and_errors_over_several_lines(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/object?class=Letter&key=ann", width=390, height=844)
    # All in one look: the page may be fetched anew between two.
    keys = page.locator("section[aria-labelledby=storage] bdi.thing")
    heights = keys.evaluate_all("(nodes) => nodes.map((node) => [node.innerText, node.getBoundingClientRect().height])")
    assert heights
    assert [text for text, height in heights if height >= 30] == []
    page.goto(f"{town.url}/parked")
    error = page.locator("tbody .cut").first
    expect(error).to_be_visible()
    assert error.evaluate("(node) => node.scrollWidth <= node.clientWidth && node.scrollHeight <= node.clientHeight")
