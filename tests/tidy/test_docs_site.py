"""The site builds without a warning and asks nobody else for anything; its picture and table are of our own results."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import picture
from tests.tidy import tidy_pages as tidy
from tests.tidy import tidy_source as source

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"([^\"]+)\"|<link\b[^>]*?\bhref=\"([^\"]+)\"")


def fetched(page: str) -> list[str]:
    """What a browser would load from elsewhere to show the page. Links that a person may follow are not among it."""
    found = ["".join(pair) for pair in _FETCHED.findall(page)]
    return [address for address in found if re.match(r"(?:[a-z]+:)?//", address)]


def built(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=source.ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    assert (warnings, done.returncode) == ([], 0), done.stderr


def test_the_site_builds_and_is_whole_without_a_network(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built(site)
    pages = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    for page in tidy.pages()[1:]:
        assert page.relative_to(tidy.DOCS).with_suffix(".html").as_posix() in pages
    for name, path in pages.items():
        assert (name, fetched(path.read_text(encoding="utf-8"))) == (name, [])
    assert ">>>" not in re.sub(r"&gt;", ">", _prose(pages["reference/objects.html"])), "an example that is no code"
    if CHROMIUM is not None:  # where there is none, `make browser` installs it
        assert "runbooks" in search(site, "parked")
    for old, new in hooks()["MOVED"].items():
        check_moved(site / old, new)


def hooks() -> dict[str, Any]:
    return runpy.run_path(str(tidy.DOCS / "_site" / "hooks.py"))


def check_moved(old: Path, new: str) -> None:
    """A page that is gone leads to the place where what it said is now."""
    found = re.search(r"url=([^\"]+)", old.with_suffix(".html").read_text(encoding="utf-8"))
    assert found is not None
    page, _, place = found[1].partition("#")
    text = (old.parent / page).read_text(encoding="utf-8")
    assert not place or f'id="{place}"' in text, f"{old.name}: {new} has no such place"


def search(site: Path, text: str) -> str:
    """Where the first thing that the search finds is, on a page that was opened from a disk; nothing else is asked."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "concepts.html").as_uri())
        page.locator("input[name=query]").first.click()
        page.keyboard.type(text)
        page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
        found = page.locator(".md-search-result__link").first.get_attribute("href") or ""
        assert [url for url in asked if not url.startswith("file:")] == []
        browser.close()
    return found


def _prose(path: Path) -> str:
    return re.sub(r"<(pre|code)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_what_is_fetched_is_found() -> None:
    assert fetched('<script src="https://cdn.example/x.js"></script>')
    assert fetched('<link rel="preconnect" href="//fonts.example">')
    assert fetched('<a href="https://example.com">x</a><img src="pictures/a.png"><link href="a.css">') == []


@pytest.mark.parametrize("path", sorted((tidy.DOCS / "pictures").glob("*.svg")), ids=lambda path: path.name)
def test_drawings_fit_light_and_dark_and_load_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in text
    assert 'class="g"' in text, "it needs a ground of its own: the page's theme may differ from the system's"
    assert 'role="img" aria-label="' in text
    assert re.findall(r"(?:href|src)=", text) == []


def test_the_benchmark_is_of_our_own_results() -> None:
    drawn = picture.PICTURE.read_text(encoding="utf-8")
    [name] = re.findall(r"\d{4}-\d\d-\d\d-\w+\.json", drawn)
    result = picture.read(picture.RESULTS / name)
    assert drawn == picture.drawn(result), "python -m bench.picture"
    page = picture.PAGE.read_text(encoding="utf-8")
    assert page == picture.paged(page, result), "python -m bench.picture"
    assert "| **Wakeful** |" in page


def test_a_picture_that_flatters_is_found() -> None:
    result = picture.read(picture.newest())
    flattered = json.loads(json.dumps(result))
    for number in flattered["numbers"]:
        if number["subject"] == "wakeful":
            number["values"] = [value * 2 for value in number["values"]]
    assert picture.drawn(flattered) != picture.drawn(result)
    assert picture.table(flattered) != picture.table(result)
