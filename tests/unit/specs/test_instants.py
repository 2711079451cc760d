"""Specs that happen once: an instant, and a delay that becomes one."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.specs.instants import After, At, after, at
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput
from wakeful.values.times import LATEST_MS, from_datetime

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
NOON_MS = from_datetime(NOON)


def test_at_is_that_instant_and_no_other() -> None:
    spec = at(NOON)
    assert spec.next_after(NOON - timedelta(milliseconds=1)) == NOON
    assert spec.next_after(NOON) is None
    assert spec.previous_before(NOON) is None
    assert spec.previous_before(NOON + timedelta(milliseconds=1)) == NOON
    assert spec.between(NOON, NOON + timedelta(days=1)) == [NOON]
    assert spec.between(NOON - timedelta(days=1), NOON) == []


def test_at_keeps_milliseconds_and_prints_utc() -> None:
    paris = datetime(2026, 3, 28, 13, 0, 0, 250_999, tzinfo=ZoneInfo("Europe/Paris"))
    assert at(paris).text == "at 2026-03-28T12:00:00.250+00:00"
    assert at(NOON).text == "at 2026-03-28T12:00:00+00:00"
    assert at(NOON).describe() == "once, on 28 March 2026 at 12:00 UTC"
    assert at(paris).describe() == "once, on 28 March 2026 at 12:00:00.250 UTC"


@pytest.mark.parametrize(
    ("when", "code"),
    [
        (datetime(2026, 3, 28), "time.naive"),
        ("2026-03-28", "time.type"),
        (datetime.max.replace(tzinfo=UTC), "time.late"),
    ],
)
def test_at_refuses_what_is_no_instant(when: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        at(when)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_after_counts_from_when_it_is_asked_until_it_is_bound() -> None:
    spec = after("10m")
    assert spec.text == "after 10m"
    assert spec.describe() == "once, 10 minutes after it is added"
    assert spec.next_after(NOON) == NOON + timedelta(minutes=10)
    assert spec.previous_before(NOON) is None
    assert spec.between(NOON, NOON + timedelta(days=1)) == [NOON + timedelta(minutes=10)]
    assert spec.between(NOON, NOON + timedelta(minutes=10)) == []
    bound = spec.bind(added_at=NOON_MS, seed="s", zone="UTC")
    assert bound == at(NOON + timedelta(minutes=10))
    assert bound.bind(added_at=0, seed="t", zone="UTC") == bound


@pytest.mark.parametrize(
    ("delay", "code"),
    [(0, "spec.delay"), ("", "time.text"), (-1, "time.negative"), (True, "time.type"), (1e12, "time.late")],
)
def test_after_refuses_what_is_no_delay(delay: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        after(delay)  # type: ignore[arg-type]
    assert caught.value.code == code


@given(st.integers(-LATEST_MS // 5, LATEST_MS), st.integers(1, LATEST_MS))
def test_text_comes_back(instant: int, delay: int) -> None:
    for spec in (At(instant), After(delay)):
        again = parse_spec(spec.text)
        assert type(again) is type(spec)
        assert again.text == spec.text
    assert parse_spec(At(instant).text).next_ms(instant - 1) == instant
    assert parse_spec(After(delay).text).next_ms(0) == delay
