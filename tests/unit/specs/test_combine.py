"""Union, exclusion and calendars over specs, against lists of all occurrences."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.specs import combine
from wakeful.specs.build import any_of, except_for, spread, within
from wakeful.specs.calendars import business_hours, holidays
from wakeful.specs.cron import cron
from wakeful.specs.instants import after, at
from wakeful.specs.interval import interval
from wakeful.specs.rrule import rrule
from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput
from wakeful.values.times import from_datetime

START = datetime(2026, 3, 27, tzinfo=UTC)
FIRST = from_datetime(START)
DAY = 86_400_000
OFFICE = business_hours(zone="Europe/Paris")


def hours(spec: Spec, days: int = 4) -> list[str]:
    return [f"{when:%d %H:%M}" for when in spec.between(START, START + timedelta(days=days))]


def test_a_union_names_each_instant_once() -> None:
    spec = any_of(cron("0 */12 * * *"), cron("0 0,6 * * *"))
    assert hours(spec, 1) == ["27 00:00", "27 06:00", "27 12:00"]
    assert spec.text == "(cron 0 */12 * * *) or (cron 0 0,6 * * *)"
    assert spec.describe() == ", and also ".join(cron(text).describe() for text in ("0 */12 * * *", "0 0,6 * * *"))


def test_a_union_of_one_is_that_one_and_of_unions_is_flat() -> None:
    noon, six = cron("0 12 * * *"), cron("0 6 * * *")
    assert any_of(noon, noon) is noon
    assert any_of(any_of(noon, six), noon, "0 7 * * *").text == any_of(noon, six, cron("0 7 * * *")).text


def test_exact_instants_are_left_out() -> None:
    spec = except_for(cron("0 * * * *"), cron("0 */2 * * *"), at(START + timedelta(hours=1)))
    assert hours(spec, 1)[:3] == ["27 03:00", "27 05:00", "27 07:00"]
    assert spec.previous_before(START + timedelta(hours=4)) == START + timedelta(hours=3)
    assert spec.previous_before(START + timedelta(hours=3)) == START - timedelta(hours=1)


def test_holidays_are_left_out() -> None:
    off = holidays(date(2026, 3, 28), name="UK holidays", zone="UTC")
    spec = except_for(cron("0 9 * * *", "UTC"), off)
    assert hours(spec) == ["27 09:00", "29 09:00", "30 09:00"]
    assert spec.describe() == f"{cron('0 9 * * *', 'UTC').describe()}, except on UK holidays"
    assert "except during Monday to Friday" in except_for(cron("0 9 * * *", "UTC"), OFFICE).describe()


def test_only_office_hours_are_kept() -> None:
    spec = within(cron("0 */4 * * *", "Europe/Paris"), OFFICE)
    assert hours(spec) == ["27 11:00", "27 15:00", "30 10:00", "30 14:00"]
    assert spec.describe() == f"{cron('0 */4 * * *', 'Europe/Paris').describe()}, within {OFFICE.describe()}"


def test_several_calendars_must_all_be_open() -> None:
    spec = within(interval("1h", START), OFFICE, business_hours("mon", "12:00-24:00", "UTC"))
    assert hours(spec) == ["30 12:00", "30 13:00", "30 14:00"]


class Counted(Spec):
    """A spec that counts how often it is asked."""

    __slots__ = ("asked", "inner")

    def __init__(self, inner: Spec) -> None:
        self.inner = inner
        self.asked = 0

    @property
    def text(self) -> str:
        return self.inner.text

    def describe(self) -> str:
        return self.inner.describe()

    def next_ms(self, after: int) -> int | None:
        self.asked += 1
        return self.inner.next_ms(after)

    def previous_ms(self, before: int) -> int | None:
        self.asked += 1
        return self.inner.previous_ms(before)


def test_a_closed_calendar_is_jumped_over_not_walked() -> None:
    seconds = Counted(interval("1s", START))
    spec = within(seconds, OFFICE)
    seconds.asked = 0
    friday = from_datetime(datetime(2026, 3, 27, 17, tzinfo=UTC))
    assert spec.next_ms(friday) == from_datetime(datetime(2026, 3, 30, 7, tzinfo=UTC))
    assert spec.previous_ms(from_datetime(datetime(2026, 3, 30, 6, tzinfo=UTC))) == friday - 3_600_000 - 1_000
    assert seconds.asked == 4
    off = except_for(seconds, holidays(*(date(2026, 3, day) for day in range(1, 32)), zone="UTC"))
    seconds.asked = 0
    assert off.next_ms(FIRST) == from_datetime(datetime(2026, 4, 1, tzinfo=UTC))
    assert seconds.asked == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: within(cron("0 3 * * *", "Europe/Paris"), OFFICE),
        lambda: except_for(cron("0 3 * * *", "UTC"), cron("0 * * * *", "UTC")),
        lambda: except_for(at(START), holidays(START.date(), zone="UTC")),
        lambda: within(at(START), business_hours("daily", "0-24", "UTC", holidays=holidays(START.date()))),
        lambda: except_for(cron("0 0 * * *", "UTC"), business_hours("daily", "0-24", "UTC")),
    ],
)
def test_what_keeps_nothing_is_refused_when_it_is_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine, "STEPS_MAX", 2_000)  # as sure, and quicker
    with pytest.raises(BadInput, match=r"never happens.*\[spec.impossible\]"):
        make()


def test_what_waits_for_its_anchor_or_zone_is_refused_when_it_is_bound() -> None:
    """Counted from 1970 it would be at midnight, and in UTC at 18:00 in Tokyo: neither is what it will be."""
    daily = within(interval("1d"), business_hours())
    noon = FIRST + DAY // 2
    assert daily.bind(added_at=noon, seed="", zone="UTC").next_ms(noon) == noon + 3 * DAY
    with pytest.raises(BadInput, match=r"\[spec.impossible\]"):
        daily.bind(added_at=FIRST, seed="", zone="UTC")
    nine = within(cron("0 9 * * *"), business_hours(zone="Asia/Tokyo"))
    assert nine.bind(added_at=0, seed="", zone="Asia/Tokyo").next_ms(FIRST) == FIRST + 3 * DAY
    with pytest.raises(BadInput, match=r"\[spec.impossible\]"):
        nine.bind(added_at=0, seed="", zone="UTC")


def test_the_search_ends_after_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = interval("1s", START)
    spec = except_for(ticks, rrule("FREQ=SECONDLY;BYHOUR=3", "UTC", START))  # every second of an hour
    three = FIRST + 3 * 3_600_000
    assert spec.next_ms(three) == three + 3_600_000
    monkeypatch.setattr(combine, "STEPS_MAX", 100)
    assert spec.next_ms(three) is None


def test_far_ahead_is_not_out_of_reach() -> None:
    once = at(datetime(2900, 1, 6, 12, tzinfo=UTC))
    assert within(once, OFFICE).next_ms(0) == once.at_ms
    assert within(once, OFFICE).previous_ms(10**14) == once.at_ms


def test_binding_goes_all_the_way_in_and_once_is_enough() -> None:
    spec = any_of(
        within(interval("1h"), business_hours("daily", "0-24")),
        except_for(rrule("FREQ=DAILY"), cron("0 9 * * *"), holidays((1, 1))),
        after("10m"),
    )
    bound = spec.bind(added_at=FIRST, seed="s", zone="Europe/Paris")
    assert bound.text == (
        "((every 1h after 2026-03-27T00:00:00+00:00) within (hours mon-sun 00:00-24:00 in Europe/Paris)) or "
        "((rrule FREQ=DAILY from 2026-03-27T01:00:01 in Europe/Paris) except (cron 0 9 * * * in Europe/Paris), "
        "(holidays 01-01 in Europe/Paris)) or (at 2026-03-27T00:10:00+00:00)"
    )
    assert bound.bind(added_at=0, seed="t", zone="UTC") == bound


def test_gaps_are_those_that_would_have_been_kept() -> None:
    gone = cron("30 2 * * *", "Europe/Berlin", "skip")
    jump = from_datetime(datetime(2026, 3, 29, 1, tzinfo=UTC))
    month = (FIRST, FIRST + 30 * DAY)
    assert gone.gaps_ms(*month) == [jump]
    night, office = business_hours("daily", "0-6", "Europe/Berlin"), business_hours(zone="Europe/Berlin")
    noon = cron("0 12 * * *", "Europe/Berlin")
    assert within(gone, night).gaps_ms(*month) == [jump]
    assert within(any_of(gone, noon), office).gaps_ms(*month) == []
    assert except_for(any_of(gone, noon), night).gaps_ms(*month) == []
    assert except_for(gone, office).gaps_ms(*month) == [jump]
    assert except_for(any_of(gone, noon), gone).gaps_ms(*month) == []
    assert any_of(gone, noon, cron("15 2 * * *", "Europe/Berlin", "skip")).gaps_ms(*month) == [jump]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (any_of, "spec.empty"),
        (lambda: except_for("0 9 * * *"), "spec.empty"),
        (lambda: within("0 9 * * *"), "spec.empty"),
        (lambda: within("0 9 * * *", "0 9 * * *"), "spec.type"),  # type: ignore[arg-type]
        (lambda: any_of(business_hours()), "spec.type"),
        (lambda: any_of(None), "spec.type"),
    ],
)
def test_what_is_no_combination(make: Any, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.code == code


def test_nesting_has_an_end() -> None:
    spec: Spec = interval("1h", START)
    for _ in range(combine.DEPTH_MAX):
        spec = except_for(spec, at(START))
    assert parse_spec(spec.text) == spec
    with pytest.raises(BadInput, match=r"\[spec.depth\]"):
        except_for(spec, at(START))


specs = st.sampled_from(
    (
        "cron */30 * * * * in Europe/Berlin",
        "cron 15 2,3 * * * in Europe/Berlin fold=both",
        "cron 0 0 * * 1 in UTC",
        "every 25m from 2026-03-27T00:00:00+00:00",
        "every 3h after 2026-03-26T00:00:01+00:00",
        "at 2026-03-28T03:00:00+00:00",
        "rrule FREQ=HOURLY;INTERVAL=2 from 2026-03-01T00:00:00 in Europe/Berlin",
    )
).map(parse_spec)
CALENDARS = (
    OFFICE,
    business_hours("sat,sun", "22:00-03:00", "Europe/Berlin"),
    holidays(date(2026, 3, 28), (3, 30), zone="Australia/Lord_Howe"),
)


@settings(max_examples=150)
@given(specs, specs, specs, st.sampled_from(CALENDARS), st.integers(0, 4), st.integers(0, 4 * DAY))
def test_agrees_with_lists_of_all(one: Spec, two: Spec, out: Spec, open_: Any, kind: int, more: int) -> None:
    with mock.patch.object(combine, "STEPS_MAX", 2_000):  # more than there are candidates in those days
        check_lists(one, two, out, open_, kind, more)


def check_lists(one: Spec, two: Spec, out: Spec, open_: Any, kind: int, more: int) -> None:
    before, last = FIRST - 2 * DAY, FIRST + 6 * DAY

    def listed(spec: Spec) -> list[int]:
        return spec.between_ms(before, last, 10**6)

    union = sorted({*listed(one), *listed(two)})
    spec: Spec
    if kind == 0:
        spec, expected = any_of(one, two), union
    elif kind == 1:
        expected = [at for at in union if at not in set(listed(out))]
        spec = combine.ExceptFor(any_of(one, two), (out,))
    elif kind == 2:
        expected = [at for at in union if open_.contains(at)]
        spec = combine.Within(any_of(one, two), (open_,))
    elif kind == 3:
        expected = [at for at in union if not open_.contains(at)]
        spec = combine.ExceptFor(any_of(one, two), (open_,))
    else:
        expected = [at for at in union if open_.contains(at) and at not in set(listed(out))]
        spec = combine.ExceptFor(combine.Within(any_of(one, two), (open_,)), (out,))
    assert listed(spec) == expected
    when = FIRST + more
    later = [at for at in expected if at > when]
    assert not later or spec.next_ms(when) == later[0]
    earlier = [at for at in expected if at < when]
    assert not earlier or spec.previous_ms(when) == earlier[-1]


def test_a_combination_catches_up_by_default_as_what_it_is_made_of() -> None:
    often, daily = interval("5m"), cron("0 9 * * *")
    assert (often.catch_up, daily.catch_up) == ("skip", "latest")
    assert any_of(often, interval("7m")).catch_up == "skip"
    assert any_of(often, daily).catch_up == "latest"
    assert within(often, business_hours()).catch_up == "skip"
    assert except_for(daily, holidays(date(2026, 12, 25))).catch_up == "latest"
    assert spread(often, "1m").catch_up == "skip"
