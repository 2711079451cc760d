"""Times at the edge become whole milliseconds, or a typed error that says how to fix it."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wakeful.values.errors import BadTime
from wakeful.values.times import LATEST_MS, duration_ms, from_datetime, instant_ms, to_datetime

NOW = 1_767_225_600_000


IN_2106 = (1 << 32) * 1000


@given(st.integers(min_value=-62_000_000_000_000, max_value=LATEST_MS) | st.integers(0, 2 * IN_2106))
@example(IN_2106 - 1)
@example(IN_2106 + 1)
def test_milliseconds_and_datetimes_are_the_same_instant(ms: int) -> None:
    assert from_datetime(to_datetime(ms)) == ms
    assert to_datetime(ms) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("when", "ms"),
    [
        (NOW + 5, NOW + 5),
        (NOW + 5.9, NOW + 5),
        (NOW - 1, NOW),
        (1, NOW),
        (timedelta(seconds=1.5), NOW + 1500),
        (timedelta(microseconds=1999), NOW + 1),
        (timedelta(days=-1), NOW),
        (datetime(2026, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), NOW + 1),
        (LATEST_MS, LATEST_MS),
    ],
)
def test_an_instant_is_whole_milliseconds_and_the_past_means_now(when: Any, ms: int) -> None:
    assert instant_ms(when, NOW) == ms


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (0, "positive"),
        (-1, "positive"),
        (0.5, "positive"),
        (datetime(1970, 1, 1, tzinfo=UTC), "positive"),
        (math.nan, "is not a time"),
        (math.inf, "is not a time"),
        (-math.inf, "is not a time"),
        ("2026-01-01", "give epoch milliseconds, an aware datetime or a timedelta"),
        (None, "give epoch milliseconds"),
        (True, "give epoch milliseconds"),
        (datetime(2026, 1, 1), r"has no time zone; use datetime.now\(UTC\)"),
        (LATEST_MS + 1, "past the latest time, 9999-01-01"),
        (10**300, "past the latest time"),
        (timedelta.max, "past the latest time"),
    ],
)
def test_a_wrong_time_says_what_to_give(when: Any, words: str) -> None:
    with pytest.raises(BadTime, match=words) as caught:
        instant_ms(when, NOW)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("length", "ms"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        (" 1h 30m ", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("0.5s", 500),
        (1.5, 1500),
        (0, 0),
        (timedelta(minutes=1), 60_000),
    ],
)
def test_a_duration_is_a_timedelta_seconds_or_text(length: Any, ms: int) -> None:
    assert duration_ms(length) == ms


@pytest.mark.parametrize(
    "length", ["", "5", "m", "5 minutes", "5m!", "-5m", -1, math.nan, math.inf, True, None, [], timedelta(-1)]
)
def test_a_wrong_duration_is_a_typed_error(length: Any) -> None:
    with pytest.raises(BadTime):
        duration_ms(length)
