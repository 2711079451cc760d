"""Every test that the pages of guarantees and of DBOS lean on exists, in the folder it names."""

import re

from tests.tidy import tidy_source as source

_NAMED = re.compile(r"`(\w+)/(test_\w+)`")


def missing(page: str) -> list[str]:
    """The tests that the page names and no file of their folder defines."""
    found = []
    for folder, name in _NAMED.findall(page):
        files = [*(source.ROOT / "tests" / folder).rglob("*.py")]
        if folder == "conformance":
            files += [*(source.ROOT / "src" / "wakeful" / "testing" / "suites").rglob("*.py")]
        if not any(re.search(rf"def {name}\b", file.read_text(encoding="utf-8")) for file in files):
            found.append(f"{folder}/{name}")
    return found


def test_every_promise_has_its_tests() -> None:
    page = (source.ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    assert len(_NAMED.findall(page)) >= 15
    assert missing(page) == []


def test_what_is_known_of_dbos_has_its_tests() -> None:
    page = (source.ROOT / "docs" / "from-dbos.md").read_text(encoding="utf-8")
    assert len(_NAMED.findall(page)) >= 30
    assert missing(page) == []


def test_a_promise_without_its_test_is_found() -> None:
    assert missing("`conformance/test_that_is_not_there`") == ["conformance/test_that_is_not_there"]
