"""What a person does on the dashboard, in a real browser, while the demo runs."""

import re
from typing import Any
from urllib.parse import quote

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'wakeful[dev]' brings playwright")
expect = playwright.expect
SCHEDULE = "/schedule?class=Letter&key=ann&name=deliver"
in_both_themes = pytest.mark.parametrize("theme", ["light", "dark"])


def past(page: Any) -> Any:
    """The rows of what has just happened."""
    return page.locator("section[aria-labelledby=past] tbody tr")


@in_both_themes
def test_due_items_fire_live(theme: str, town: Any, pages: Any) -> None:
    page = pages.open(town.url, theme=theme)
    expect(page.locator(".live")).to_have_attribute("data-is", "live")
    page.evaluate("window.stays = true")
    newest = past(page).first.get_attribute("data-id")
    expect(past(page).first).not_to_have_attribute("data-id", newest)
    second = past(page).first.get_attribute("data-id")
    expect(past(page).first).not_to_have_attribute("data-id", second)
    assert page.evaluate("window.stays") is True  # the page was never loaded again
    time = page.locator("section[aria-labelledby=next] time").first
    said = time.inner_text()
    page.wait_for_function(
        "([node, text]) => !node.isConnected || node.textContent !== text", arg=[time.element_handle(), said]
    )
    assert "UTC" in page.locator("section[aria-labelledby=next] time").first.get_attribute("title")
    dots = page.locator(".strip circle")
    assert dots.count() >= 5
    page.wait_for_function("document.querySelectorAll('.plot canvas').length === 2")


@in_both_themes
def test_a_schedule_is_paused_with_a_note_and_an_end_and_resumed(theme: str, town: Any, pages: Any) -> None:
    page = pages.open(town.url + SCHEDULE, theme=theme)
    page.get_by_text("Pause…").click()
    page.get_by_label("Why").fill("the post is on strike")
    page.get_by_label("Until").fill("2h")
    page.get_by_role("button", name="Pause it").click()
    live = page.locator("#live")
    expect(page.get_by_role("status")).to_contain_text("Paused.")
    expect(live).to_contain_text("“the post is on strike”")
    expect(live).to_contain_text("until in 2 h")
    verdicts = page.locator("section[aria-labelledby=verdicts] tbody tr")
    expect(verdicts.first).to_contain_text("paused")  # its next occurrence is judged, and shown without loading again
    page.get_by_role("button", name="Resume").click()
    expect(live.locator(".mark").first).to_have_text("active")
    expect(verdicts.first.locator(".mark")).to_have_text("run")


def test_a_wrong_end_is_explained_and_nothing_is_done(town: Any, pages: Any) -> None:
    page = pages.open(town.url + SCHEDULE, expected=("status of 400",))
    page.get_by_text("Pause…").click()
    page.get_by_label("Until").fill("someday")
    page.get_by_label("Until").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is no time")
    expect(page.get_by_text("Pause…")).to_be_visible()


@in_both_themes
def test_a_backfill_is_previewed_and_then_run(theme: str, town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/schedule?class=Letter&key={quote('eu/bob')}&name=deliver", theme=theme)
    page.get_by_text("Backfill…").click()
    page.get_by_label("From").fill("1h")
    page.get_by_label("To", exact=False).last.fill("1m")
    page.get_by_role("button", name="Preview").click()
    preview = page.locator("section[aria-labelledby=preview]")
    expect(preview).to_contain_text(re.compile("Backfill would run \\d+ occurrence"))
    verdicts = page.locator("section[aria-labelledby=verdicts] tbody tr")
    backfilled = verdicts.filter(has_text="backfill").first
    before = backfilled.get_attribute("data-id") if backfilled.count() else ""  # of the other theme's
    preview.get_by_role("button", name="Run").click()
    expect(page.get_by_role("status")).to_contain_text("run now")
    expect(backfilled).not_to_have_attribute("data-id", before)


def test_parked_alarms_are_redriven_or_dropped_one_and_many(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/parked")
    rows = page.locator("tbody tr", has_text="TimeoutError: lamp")
    expect(rows).to_have_count(3)
    rows.first.locator("td a").first.click()
    expect(page.locator("pre")).to_contain_text("Traceback (most recent call last)")
    page.get_by_role("button", name="Redrive it").click()
    expect(page.get_by_role("status")).to_contain_text("due again")
    expect(rows).to_have_count(2)
    page = pages.open(f"{town.url}/parked", theme="dark")
    rows = page.locator("tbody tr", has_text="TimeoutError: lamp")
    ticked = page.get_by_role("button", name="Redrive 0 ticked")
    expect(ticked).to_be_disabled()
    for number in range(2):
        rows.nth(number).get_by_role("checkbox").check()
    expect(page.get_by_role("button", name="Redrive 2 ticked")).to_be_enabled()
    rows.nth(0).get_by_role("checkbox").uncheck()
    page.get_by_text("Drop ticked…").click()
    page.get_by_role("button", name="Drop 1 for good").click()
    expect(page.get_by_role("status")).to_contain_text("it never runs")
    expect(rows).to_have_count(1)
    rows.nth(0).get_by_role("checkbox").check()
    page.get_by_role("button", name="Redrive 1 ticked").click()
    expect(rows).to_have_count(0)
    page.goto(f"{town.url}/object?class=Lamp&key=lane-0")
    # It runs, fails as before, and is tried again: for the first time or a later one, on a slow machine.
    expect(page.locator("#live")).to_contain_text(re.compile("retry [1-6]"))
    page.goto(f"{town.url}/audit")
    expect(page.locator("#live")).to_contain_text("redrive")
    expect(page.locator("#live")).to_contain_text("drop")


def test_nothing_is_put_in_the_place_of_what_is_pressed(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/jobs?state=scheduled")
    link = page.locator("tbody tr", has_text="parcel").get_by_role("link", name="charge")
    link.hover()
    page.mouse.down()
    link.evaluate("found => (found.dataset.same = 'yes')")
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers):
        page.evaluate("htmx.trigger('#live', 'fresh')")
    page.wait_for_timeout(300)
    assert link.get_attribute("data-same") == "yes"
    page.mouse.up()
    expect(page).to_have_url(re.compile("/job\\?"))


def test_a_job_is_cancelled(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/jobs?state=scheduled")
    page.locator("tbody tr", has_text="parcel").get_by_role("link", name="charge").click()
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("status")).to_contain_text("never will")
    expect(page.locator("#live")).to_contain_text("cancelled")


def test_a_failed_job_is_redriven_on_its_page_which_has_its_arguments_and_attempts(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/job?id=Letter%2Fann%2F%253Dstamp-900")
    expect(page.locator("dl.facts")).to_contain_text("900")
    attempts = page.locator("section[aria-labelledby=attempts] tbody tr")
    before = attempts.count()
    page.get_by_role("button", name="Redrive it").click()
    expect(page.get_by_role("status")).to_contain_text("Set due again")
    expect(attempts).to_have_count(before + 1)  # it has failed once more


def test_a_call_that_hangs_is_cancelled(town: Any, pages: Any) -> None:
    page = pages.open(f"{town.url}/calls", expected=("status of 409",))
    for _ in range(5):  # it rings most of the time, and may have ended just before the click
        bell = page.locator("tbody tr", has_text="bell").first
        expect(bell).to_be_visible()
        bell.get_by_text("Cancel…").click()
        bell.get_by_role("button", name="Cancel the call").click()
        expect(page.get_by_role("status").or_(page.get_by_role("alert"))).to_be_visible()
        if page.get_by_role("status").is_visible():
            break
        expect(page.get_by_role("alert")).to_contain_text("the call had ended; nothing was done")
        page.goto(f"{town.url}/calls")
    expect(page.get_by_role("status")).to_contain_text("its caller is told")
    page.goto(f"{town.url}/audit")
    expect(page.locator("#live")).to_contain_text("call.cancel")


@in_both_themes
def test_nobody_comes_in_without_a_token(theme: str, guarded: Any, tokens: Any, pages: Any) -> None:
    page = pages.open(guarded.url + SCHEDULE, theme=theme, expected=("status of 403",))
    expect(page).to_have_url(re.compile("/login\\?next="))
    assert "deliver" not in page.locator("main").inner_text()
    page.get_by_label("Token").fill("wk_00000000_" + "0" * 43)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    page.get_by_label("Token").fill(tokens["boss"])
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile(re.escape(SCHEDULE)))  # where they wanted to go
    expect(page.locator("footer")).to_contain_text("token:boss")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Run now").click()  # a form of a session, with its CSRF token
    expect(page.get_by_role("status")).to_contain_text("runs now")
    page.get_by_role("button", name="log out").click()
    expect(page).to_have_url(re.compile("/login$"))
    page.goto(f"{guarded.url}/parked")
    expect(page).to_have_url(re.compile("/login"))


def test_a_reader_is_offered_nothing_that_it_may_not(guarded: Any, tokens: Any, pages: Any) -> None:
    page = pages.open(f"{guarded.url}/login")
    page.get_by_label("Token").fill(tokens["eye"])
    page.get_by_role("button", name="Log in").click()
    page.goto(guarded.url + SCHEDULE)
    expect(page.locator("main")).to_contain_text("scope operate")
    assert page.get_by_role("button", name="Run now").count() == 0
    assert page.locator("#nav-tokens").count() == 0
    answer = page.context.request.post(
        f"{guarded.url}/schedule/trigger", form={"class": "Letter", "key": "ann", "name": "deliver"}
    )
    assert answer.status == 403


def test_an_object_is_forgotten_when_its_key_is_typed(town: Any, pages: Any) -> None:
    # Between the act and the page that follows it, its own live part may ask for what is gone.
    page = pages.open(f"{town.url}/object?class=Lamp&key=lane-4", expected=("404",))
    page.get_by_text("Forget…").click()
    page.get_by_label("Type its key").fill("lane-4")
    page.get_by_role("button", name="Forget the object").click()
    expect(page.get_by_role("status")).to_contain_text("nothing of it is left")
    expect(page.locator("tbody")).not_to_contain_text("lane-4")
