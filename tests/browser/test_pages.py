"""How the pages are: for everyone, in both themes, on a phone, by keyboard, under a prefix."""

from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'wakeful[dev]' brings playwright")
expect = playwright.expect
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PATHS = [
    "/",
    "/objects",
    "/object?class=Letter&key=ann",
    "/object?class=Parcel&key=eu%2F7",
    "/schedules",
    "/schedule?class=Letter&key=zoe&name=deliver",
    "/schedule?class=Letter&key=eu%2Fbob&name=deliver&from=1h&to=1m",
    "/jobs",
    "/job?id=Letter%2Fann%2F%253Dstamp-900",
    "/parked",
    "/calls",
    "/nodes",
    "/queues",
    "/webhooks",
    "/audit",
    "/tokens",
    "/search?q=ann",
    "/objects?contains=nothing",
]
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
FINDINGS = """async (rules) => (await axe.run(document, {resultTypes: ["violations"], ...rules})).violations
  .map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`)"""


ALL_RULES = {"rules": {"target-size": {"enabled": True}}}  # of WCAG 2.2, which axe leaves out unless it is asked


# By night the same page has other colours, and nothing else.
@pytest.mark.parametrize(("theme", "rules"), [("light", ALL_RULES), ("dark", {"runOnly": ["color-contrast"]})])
def test_everyone_can_use_every_page(theme: str, rules: Any, town: Any, guarded: Any, tokens: Any, pages: Any) -> None:
    axe = AXE.read_text(encoding="utf-8")
    page = pages.open(town.url, theme=theme)
    found = []
    for path in [*PATHS, f"{guarded.url}/login"]:
        page.goto(path if "://" in path else town.url + path)
        page.evaluate(axe)  # through the debugger: a page itself may load no such thing
        for width in (390, 1024, 1440):
            page.set_viewport_size({"width": width, "height": 844})
            found += [f"{width} {path}: {one}" for one in page.evaluate(FINDINGS, rules)]
    assert found == []


def test_no_page_scrolls_sideways_on_a_phone(town: Any, pages: Any) -> None:
    page = pages.open(town.url, width=390, height=844)
    wide = []
    for path in PATHS:
        page.goto(town.url + path)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        wide += [f"{path}: {width}"] if width > 390 else []
    assert wide == []


def test_the_theme_follows_the_system_and_can_be_chosen(town: Any, pages: Any) -> None:
    light, dark = pages.open(town.url, theme="light"), pages.open(town.url, theme="dark")
    by_day, by_night = light.evaluate(BACKGROUND), dark.evaluate(BACKGROUND)
    assert by_day != by_night
    light.get_by_role("button", name="Use the dark theme").click()
    assert light.evaluate(BACKGROUND) == by_night
    light.goto(f"{town.url}/jobs")
    assert light.evaluate(BACKGROUND) == by_night  # remembered
    dark.keyboard.press("t")
    assert dark.evaluate(BACKGROUND) == by_day
    chart = light.context.new_page()
    chart.goto(f"{town.url}/object?class=Parcel&key=eu%2F7")
    expect(chart.locator("img.by-night")).to_be_visible()
    expect(chart.locator("img.by-day")).to_be_hidden()
    chart.wait_for_function("document.querySelector('img.by-night').naturalWidth > 100")


def test_everything_is_reached_by_keys(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/objects")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("lane-3")
    option = page.get_by_role("option")
    expect(option.first).to_have_attribute("aria-selected", "true")
    expect(option.first).to_contain_text("lane-3")  # not what was found for the first letters
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("lane-3")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator("h1")).to_have_text("Objects")
    expect(page.locator(".live")).to_have_attribute("data-is", "live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("tr[data-href]").first
    expect(first).to_have_attribute("data-on", "")
    key = first.locator(".key").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(key)


AFTER_THE_NEXT_SWAP = """() => new Promise((answer) => {
  const look = () => setTimeout(() => answer(document.querySelector("tr[data-on]")?.dataset.href ?? "no row"), 0);
  document.addEventListener("htmx:afterSwap", look, { once: true });
  htmx.trigger("#live", "fresh");
})"""


def test_the_row_a_person_stands_on_is_never_lost_between_two_looks(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/objects")
    expect(page.locator("tr[data-href]").first).to_be_visible()
    page.keyboard.press("j")
    stands_on = page.locator("tr[data-on]").get_attribute("data-href")
    assert page.evaluate(AFTER_THE_NEXT_SWAP) == stands_on


def test_the_search_finds_every_kind(town: Any, pages: Any) -> None:
    page = pages.open(town.url)
    for text, kind in (("Letter", "Classes"), ("bob", "Objects"), ("deliver", "Schedules"), ("stamp-900", "Parked")):
        page.locator("#find").fill(text)
        expect(page.locator("#found h3", has_text=kind)).to_be_visible()
    page.locator("#find").fill("zzzz")
    expect(page.locator("#found")).to_contain_text("Nothing is called that")


def test_it_works_as_a_part_of_another_application(mounted: str, pages: Any) -> None:
    page = pages.open(f"{mounted}/")
    expect(page.locator(".live")).to_have_attribute("data-is", "live")
    page.locator("#nav-schedules").click()
    expect(page).to_have_url(f"{mounted}/schedules")
    page.locator("tr[data-href]", has_text="zoe").get_by_role("link").first.click()
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("runs now")
    assert page.url.startswith(mounted)


def test_what_is_open_and_ticked_survives_being_fresh(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/object?class=Letter&key=ann")
    page.locator("details.value summary").first.click()
    newest = page.locator("section[aria-labelledby=ledger] tbody tr").first
    before = newest.get_attribute("data-id")
    expect(newest).not_to_have_attribute("data-id", before)
    expect(page.locator("details.value[open]")).to_have_count(1)


def test_forms_work_without_a_script(town: Any, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{town.url}/schedule?class=Letter&key=zoe&name=deliver")
    page.get_by_text("Pause…").click()
    page.get_by_label("Why").fill("no script")
    page.get_by_role("button", name="Pause it").click()
    assert "no script" in page.locator("main").inner_text()
    page.get_by_role("button", name="Resume").click()
    assert "active" in page.locator("main").inner_text()
    context.close()
