"""Every code that somebody may meet is on one page, however the source says it."""

import re

import pytest

from tests.tidy import tidy_source as source
from tests.tidy.codes import uses, uses_in

PAGE = source.ROOT / "docs" / "reference" / "codes.md"
ANEW = "write it anew: python -m tests.tidy.codes > docs/reference/codes.md"


def test_every_code_is_on_the_page_and_no_other() -> None:
    """`denied.headers` was in no document, and half of the others."""
    listed = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    there = {use.code for use in uses()}
    assert sorted(there - set(listed)) == [], ANEW
    assert sorted(set(listed) - there) == [], ANEW
    assert listed == sorted(set(listed)), ANEW


@pytest.mark.parametrize(
    ("text", "carrier", "words"),
    [
        ('raise BadToken("it is there twice", code="denied.headers")', "BadToken", "it is there twice"),
        ('raise Problem(400, "denied.headers", f"twice {x}")', "HTTP", "twice …"),
        ('X = RefusedRequest(*(400, "denied.headers", "it is twice"))', "HTTP", "it is twice"),
        ('def f():\n    words = "it is twice"\n    raise wrong(words, "denied.headers")', "", "it is twice"),
        ('log.warning("it is %s", x, extra={"code": "denied.headers"})', "log", "it is %s"),
        ('class Twice(E):\n    default_code = "denied.headers"', "Twice", ""),
        ('CODES = {"twice": "denied.headers"}', "", ""),
        ('def f(code: str = "denied.headers"): ...', "", ""),
    ],
)
def test_a_code_is_found_however_it_is_said(text: str, carrier: str, words: str) -> None:
    assert ("denied.headers", carrier, words) in uses_in(text)


@pytest.mark.parametrize(
    "text",
    [
        'log.error("it is", extra={"code": "timers.read"})',
        'raise Unavailable("it is", code="timers.read")',
        'raise Problem(400, "timers.read", "it is")',
        'class Unread(E):\n    default_code = "timers.read"',
    ],
)
def test_what_stands_in_the_place_of_a_code_is_one_though_other_things_are_called_so(text: str) -> None:
    """`timers.read` and `body.json` were on no page: operations and files have such names."""
    assert "timers.read" in {use.code for use in uses_in(text)}


def test_what_only_looks_like_a_code_is_none() -> None:
    assert uses_in('a = ["login.html", "websocket.accept", "wakeful.node", "node.drain", "a sentence. And more"]') == []
