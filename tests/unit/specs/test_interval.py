"""Intervals: exact, from an anchor, without drift."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.specs.instants import at
from wakeful.specs.interval import Interval, Start, interval
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput
from wakeful.values.times import LATEST_MS, from_datetime

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_given_anchor_is_the_first_and_nothing_comes_before() -> None:
    spec = interval("5m", NEW_YEAR)
    assert spec.text == "every 5m from 2026-01-01T00:00:00+00:00"
    assert spec.next_after(NEW_YEAR - timedelta(days=9)) == NEW_YEAR
    assert spec.next_after(NEW_YEAR) == NEW_YEAR + timedelta(minutes=5)
    assert spec.previous_before(NEW_YEAR) is None
    assert spec.previous_before(NEW_YEAR + timedelta(minutes=5)) == NEW_YEAR
    assert spec.bind(added_at=0, seed="s", zone="UTC") == spec


def test_a_bound_one_begins_a_length_after_it_was_added() -> None:
    added = from_datetime(NEW_YEAR) + 250
    spec = interval("5m").bind(added_at=added, seed="s", zone="UTC")
    assert spec.text == "every 5m after 2026-01-01T00:00:00.250+00:00"
    assert spec.next_ms(added - 10**9) == added + 300_000
    assert spec.next_ms(added) == added + 300_000
    assert spec.previous_ms(added + 300_000) is None
    assert spec.bind(added_at=0, seed="t", zone="UTC") == spec


def test_unbound_it_is_counted_from_1970_both_ways() -> None:
    spec = interval("1h")
    assert spec.text == "every 1h"
    assert spec.next_ms(0) == 3_600_000
    assert spec.previous_ms(0) == -3_600_000
    assert spec.next_ms(-1) == 0


def test_missed_ones_are_skipped_by_default_only_here() -> None:
    assert interval("1h").catch_up == "skip"
    assert at(NEW_YEAR).catch_up == "latest"


def test_no_drift_in_a_thousand_years() -> None:
    spec = interval("7s", NEW_YEAR)
    start = from_datetime(NEW_YEAR)
    far = start + 7_000 * 4_508_142_857
    assert spec.next_ms(far - 1) == far
    assert spec.next_ms(far) == far + 7_000


@pytest.mark.parametrize(("length", "said"), [("1m", "every minute"), ("90s", "every 1 minute and 30 seconds")])
def test_words(length: str, said: str) -> None:
    assert interval(length).describe() == said
    assert interval(length, NEW_YEAR).describe() == f"{said}, counted from 1 January 2026 at 00:00 UTC"


@pytest.mark.parametrize(
    ("length", "anchor", "code"),
    [
        ("999ms", None, "spec.interval"),
        (0, None, "spec.interval"),
        (1e12, None, "spec.interval"),
        ("soon", None, "time.text"),
        ("5m", datetime(2026, 1, 1), "time.naive"),
        ("5m", "2026-01-01", "time.type"),
    ],
)
def test_what_can_not_be_an_interval(length: object, anchor: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        interval(length, anchor)  # type: ignore[arg-type]
    assert caught.value.code == code


@given(
    st.integers(1_000, 10**9),
    st.integers(-(10**12), 10**13),
    st.sampled_from(("free", "from", "after")),
    st.integers(-20, 20),
    st.integers(-3, 3),
)
def test_agrees_with_a_list_of_all(length: int, anchor: int, start: Start, steps: int, more: int) -> None:
    anchor = 0 if start == "free" else anchor
    spec = Interval(length, anchor, start)
    first = {"free": -60, "from": 0, "after": 1}[start]
    everything = [anchor + step * length for step in range(first, 60)]
    when = anchor + steps * length + more
    assert spec.next_ms(when) == min(one for one in everything if one > when)
    assert spec.previous_ms(when) == max((one for one in everything if one < when), default=None)
    assert spec.between_ms(when, when + 9 * length, 100) == [o for o in everything if when <= o < when + 9 * length]
    assert parse_spec(spec.text) == spec
    assert parse_spec(spec.text).next_ms(when) == spec.next_ms(when)


def test_past_the_latest_time_there_is_none() -> None:
    assert interval("1h", NEW_YEAR).next_ms(LATEST_MS) is None
    assert interval("365d").previous_before(datetime(1, 1, 2, tzinfo=UTC)) is None
    assert interval("365d").previous_before(datetime(3, 1, 2, tzinfo=UTC)) is not None
