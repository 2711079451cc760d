"""Spread: a part of the window that is each schedule's own and stays the same."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.specs.build import spread
from wakeful.specs.combine import Spread
from wakeful.specs.cron import cron
from wakeful.specs.instants import at
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput
from wakeful.values.times import from_datetime

NINE = cron("0 9 * * *", "UTC")
FIRST = from_datetime(datetime(2026, 3, 27, tzinfo=UTC))
DAY = 86_400_000


def bound(seed: str, window: object = "10m") -> Spread:
    found = spread(NINE, window).bind(added_at=FIRST, seed=seed, zone="UTC")  # type: ignore[arg-type]
    assert isinstance(found, Spread)
    return found


def test_unbound_it_moves_nothing() -> None:
    spec = spread("0 9 * * *", "10m")
    assert spec.text == "(cron 0 9 * * *) spread 10m"
    assert spec.next_ms(FIRST) == FIRST + 9 * 3_600_000
    assert spec.describe() == f"{cron('0 9 * * *').describe()}, spread over 10 minutes"


def test_the_part_is_the_same_everywhere_and_for_ever() -> None:
    """A number written down: another hash would move the schedules of everybody who upgrades."""
    assert bound("Report/eu:nightly").text == "(cron 0 9 * * * in UTC) spread 10m seed Report/eu:nightly"
    assert bound("Report/eu:nightly").offset_ms == 149_412


def test_every_occurrence_moves_by_the_same_part() -> None:
    spec = bound("a")
    moved = spec.offset_ms
    assert 0 < moved < 600_000
    assert spec.between_ms(FIRST, FIRST + 3 * DAY, 9) == [FIRST + 9 * 3_600_000 + day * DAY + moved for day in range(3)]
    nine = FIRST + 9 * 3_600_000
    assert spec.next_ms(nine) == nine + moved
    assert spec.previous_ms(nine + moved) == nine - DAY + moved
    assert spec.previous_ms(nine + moved + 1) == nine + moved


def test_many_schedules_fill_the_window_evenly() -> None:
    parts = [bound(f"object/{number}").offset_ms for number in range(10_000)]
    tenths = [sum(tenth * 60_000 <= part < (tenth + 1) * 60_000 for part in parts) for tenth in range(10)]
    assert sum(tenths) == 10_000
    assert all(850 < count < 1150 for count in tenths)


def test_a_bound_one_keeps_its_seed() -> None:
    assert bound("a").bind(added_at=0, seed="b", zone="Asia/Tokyo") == bound("a")
    assert bound("a") != bound("b")


@given(st.text(min_size=1))
def test_any_seed_comes_back(seed: str) -> None:
    again = parse_spec(bound(seed).text)
    assert isinstance(again, Spread)
    assert (again.seed, again.offset_ms, again.text) == (seed, bound(seed).offset_ms, bound(seed).text)


def test_gaps_move_along() -> None:
    gone = cron("30 2 * * *", "Europe/Berlin", "skip")
    jump = from_datetime(datetime(2026, 3, 29, 1, tzinfo=UTC))
    spec = spread(gone, "1h").bind(added_at=0, seed="a", zone="UTC")
    assert isinstance(spec, Spread)
    assert spec.gaps_ms(FIRST, FIRST + 9 * DAY) == [jump + spec.offset_ms]


def test_once_is_moved_too() -> None:
    spec = spread(at(datetime(2026, 3, 27, tzinfo=UTC)), "1m").bind(added_at=0, seed="x", zone="UTC")
    assert isinstance(spec, Spread)
    assert spec.next_ms(FIRST - 1) == FIRST + spec.offset_ms
    assert spec.next_ms(FIRST + spec.offset_ms) is None


@pytest.mark.parametrize(("window", "code"), [(0, "spec.spread"), ("367d", "spec.spread"), ("wide", "time.text")])
def test_windows_that_are_none(window: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        spread(NINE, window)  # type: ignore[arg-type]
    assert caught.value.code == code
