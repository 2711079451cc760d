"""No text from outside holds the event loop: what is read is bounded before it is read, and what is kept is small.

CPU time, not the clock on the wall, and bounds of many times what it takes: before they were kept, each took seconds,
minutes, or for ever.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.garbage import without_collections
from wakeful.compat.workers.config import strip_comments
from wakeful.compat.workers.web import Request
from wakeful.policy import plan
from wakeful.specs import cron_parse
from wakeful.specs.cron import _kept_days, _kept_times, cron
from wakeful.specs.rrule_parts import parse_lines
from wakeful.values import times
from wakeful.values.errors import BadInput, BadSpec, BadTime
from wakeful.values.times import duration_ms


def cpu_s(act: Callable[[], object]) -> float:
    """How long it computes, whatever comes of it."""
    with without_collections():
        begun = time.thread_time()
        with suppress(BadInput):
            act()
        return time.thread_time() - begun


def test_a_long_length_is_refused_before_it_is_read_or_kept() -> None:
    kept = times._length.cache_info().currsize
    with pytest.raises(BadTime, match="has 400000 characters, 1000 at most") as caught:
        duration_ms("1s" * 200_000)
    assert caught.value.code == "time.text"
    assert len(str(caught.value)) < 300
    assert times._length.cache_info().currsize == kept
    assert duration_ms("1w 2d 3h 4m 5s 6ms") == 788_645_006
    assert duration_ms("1s" * 50) == 50_000


def test_long_crons_are_read_and_not_kept() -> None:
    before = cron_parse._kept.cache_info().currsize, cron_parse._kept_field.cache_info().currsize
    dozens = ",".join(map(str, range(60)))
    long = f"{dozens},{dozens} {dozens},{dozens} * * *"
    assert 200 < len(long) <= cron_parse.TEXT_MAX
    days, clock = _kept_days.cache_info().currsize, _kept_times.cache_info().currsize
    assert cron(f"{dozens},{dozens},{dozens} 9 * * *").next_ms(0) == 9 * 3_600_000
    assert cron_parse._kept.cache_info().currsize == before[0]
    assert cron_parse._kept_field.cache_info().currsize <= before[1] + 5  # the short fields beside it
    assert _kept_days.cache_info().currsize <= days + 1
    assert _kept_times.cache_info().currsize == clock


def test_long_specs_are_kept_by_the_handful() -> None:
    plan.forget_specs()
    dates = " ".join(f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 28))
    for minute in range(40):
        plan.spec_of(f"(cron {minute} 9 * * * in UTC) except (holidays {dates} in UTC)")
    assert plan._long_spec.cache_info().currsize <= 16
    assert plan._short_spec.cache_info().currsize == 0
    plan.forget_specs()


COMMENTS = [
    "{" + "," + "/**/" * 40,
    "{" + ",/*" * 100_000,
    "{" + ",//\n" * 50_000,
    '{"' + '\\"' * 100_000,
    "{" + ", " + "/* */ // x\n" * 20_000,
]


@pytest.mark.parametrize("text", COMMENTS, ids=range(len(COMMENTS)))
def test_comments_of_a_wrangler_file_are_read_once(text: str) -> None:
    assert cpu_s(lambda: strip_comments(text)) < 2


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('{"a": 1, /* , */ }', '{"a": 1' + " " * 10 + "}"),
        ('["//", "/*",//]\n]', '["//", "/*"    \n]'),
        ("[1,//]\n2]", "[1,   \n2]"),  # a bracket in a comment ends nothing
        ('{"a": "\\",}"}', '{"a": "\\",}"}'),
        ("[1,,]", "[1, ]"),
    ],
)
def test_what_is_a_comment_and_what_is_not(text: str, bare: str) -> None:
    assert strip_comments(text) == bare


def test_a_url_is_completed_at_its_start_alone() -> None:
    assert Request("http://one").url == "http://one/"
    assert Request("http://one?to=http://two").url == "http://one/?to=http://two"
    assert cpu_s(lambda: Request("http://h/" + "a" * 50_000)) < 1


def test_empty_lines_of_a_rule_are_read_once() -> None:
    assert cpu_s(lambda: parse_lines("RRULE:FREQ=DAILY" + "\n " * 50_000 + "X", None)) < 1
    folded: Any = parse_lines("DTSTART:20260101T000000Z\n \n RRULE:FREQ=DA\n ILY", None)
    assert folded.parts.text == "FREQ=DAILY"
    with pytest.raises(BadSpec):
        parse_lines("FREQ=DAILY\n X", None)
