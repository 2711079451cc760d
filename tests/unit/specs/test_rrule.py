"""Recurrence rules: RFC 5545's own examples, what is refused, text, words, and the lines around a rule."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from wakeful.specs import rrule as rrule_module
from wakeful.specs.rrule import Rule, rrule, rule_from_text
from wakeful.values.errors import BadInput
from wakeful.values.times import LATEST_MS, from_datetime, to_datetime

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "rrule.json").read_text(encoding="utf-8"))["rules"]
NEW_YORK = ZoneInfo("America/New_York")


def local(rule: Rule, count: int, zone: str = "UTC") -> list[str]:
    """The first occurrences as local texts."""
    found = rule.between_ms(-(10**13), 10**14, count)
    return [to_datetime(at).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S") for at in found]


def ms(*parts: int) -> int:
    return from_datetime(datetime(*parts, tzinfo=UTC))  # type: ignore[misc, arg-type]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_examples_of_rfc_5545(vector: dict[str, object]) -> None:
    dates = vector["dates"]
    assert isinstance(dates, list)
    rule = rrule(str(vector["lines"]))
    more = [] if vector["complete"] else [local(rule, len(dates) + 1, "America/New_York")[-1]]
    assert local(rule, len(dates) + 1, "America/New_York") == dates + more
    back = [rule.previous_ms(10**14)] if vector["complete"] else []
    while back and back[-1] is not None:
        back.append(rule.previous_ms(back[-1]))
    if back:
        found = [to_datetime(at).astimezone(NEW_YORK).strftime("%Y-%m-%dT%H:%M:%S") for at in back if at is not None]
        assert found == dates[::-1]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_text_comes_back_exactly(vector: dict[str, object]) -> None:
    rule = rrule(str(vector["lines"]), gap="skip", fold="both")
    again = rule_from_text(rule.text)
    assert again.text == rule.text
    assert local(again, 20) == local(rule, 20)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "give text"),
        ("FREQ=SOMETIMES", "FREQ"),
        ("COUNT=3", "FREQ"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0"),
        ("FREQ=DAILY;COUNT=10001", "COUNT=10001"),
        ("FREQ=DAILY;COUNT=x", "COUNT=X"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20260101T000000Z", "COUNT, UNTIL"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL=20260230"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL=-1"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR=24"),
        ("FREQ=DAILY;BYSECOND=60", "leap second"),
        ("FREQ=DAILY;BYMONTH=13", "BYMONTH=13"),
        ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY=367"),
        ("FREQ=YEARLY;BYYEARDAY=0", "BYYEARDAY=0"),
        ("FREQ=MONTHLY;BYMONTHDAY=-32", "BYMONTHDAY=-32"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY=XX"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY=1MO"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY=0MO"),
        ("FREQ=YEARLY;BYDAY=54MO", "BYDAY=54MO"),
        ("FREQ=MONTHLY;BYWEEKNO=3", "BYWEEKNO=3"),
        ("FREQ=DAILY;BYYEARDAY=3", "BYYEARDAY=3"),
        ("FREQ=WEEKLY;BYMONTHDAY=3", "BYMONTHDAY=3"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS=1"),
        ("FREQ=DAILY;WKST=XX", "WKST=XX"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;COLOUR=RED", "COLOUR"),
        ("FREQ=DAILY;COUNT", "COUNT"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "any_of"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "except_for"),
        ("DTSTART:20260101T000000Z", "0 RRULE lines"),
        ("DTSTART;TZID=Europe/Pariss:20260101T000000\nRRULE:FREQ=DAILY", "Europe/Paris"),
        ("DTSTART;TZID=Europe/Paris:20260101T000000Z\nRRULE:FREQ=DAILY", "TZID"),
        ("DTSTART:15000101T000000\nRRULE:FREQ=DAILY", "1600"),
        ("RDATE;VALUE=PERIOD:20260101T000000Z/PT1H\nRRULE:FREQ=DAILY", "VALUE"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(BadInput) as caught:
        rrule(text)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.code in ("spec.rrule", "spec.zone")


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30,31",
        "FREQ=HOURLY;INTERVAL=2;BYHOUR=1",
        "FREQ=HOURLY;INTERVAL=168;BYDAY=FR",
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=1",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=YEARLY;BYWEEKNO=20;BYMONTH=1;BYDAY=MO",
        "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;UNTIL=20251231T000000Z",
    ],
)
def test_an_impossible_rule_is_refused_when_it_is_made(text: str) -> None:
    with pytest.raises(BadInput, match=r"\[spec.impossible\]"):
        rrule(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;UNTIL=20251231T000000Z",
            "ends before it first happens; look at UNTIL",
        ),
        ("DTSTART:99991231T235959Z\nRRULE:FREQ=DAILY", "from DTSTART=99991231T235959 on no time before the year 9999"),
        ("DTSTART:99991231T000000Z\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z", "no time before the year 9999"),
        ("DTSTART:99981231T000000Z\nRRULE:FREQ=YEARLY;BYMONTH=6", "no time before the year 9999"),
        ("DTSTART:99991201T000000Z\nRRULE:FREQ=YEARLY;BYMONTH=1", "no time before the year 9999"),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260101T000000Z", "EXDATE leaves out"),
    ],
)
def test_why_a_rule_never_happens_is_said(text: str, words: str) -> None:
    """UNTIL was blamed for a start at the end of time, in rules without UNTIL."""
    with pytest.raises(BadInput, match=r"\[spec.impossible\]") as caught:
        rrule(text)
    assert words in str(caught.value)
    assert ("look at UNTIL" in str(caught.value)) == ("look at UNTIL" in words)


def test_bound_starts_at_the_next_second_in_the_zone_of_the_schedule() -> None:
    rule = rrule("FREQ=DAILY;COUNT=3").bind(added_at=ms(2026, 3, 28, 8) + 1, seed="s", zone="Europe/Paris")
    assert rule.text == "rrule FREQ=DAILY;COUNT=3 from 2026-03-28T09:00:01 in Europe/Paris"
    assert rule.between_ms(ms(2026, 1, 1), ms(2027, 1, 1), 10) == [
        ms(2026, 3, 28, 8, 0, 1),
        ms(2026, 3, 29, 7, 0, 1),
        ms(2026, 3, 30, 7, 0, 1),
    ]
    assert rule.bind(added_at=5, seed="t", zone="Asia/Tokyo") == rule


def test_a_start_without_a_zone_keeps_its_local_time() -> None:
    rule = rrule("DTSTART:20260101T090000\nRRULE:FREQ=DAILY")
    assert isinstance(rule, Rule)
    assert rule.zone is None
    assert rule.bind(added_at=0, seed="", zone="Asia/Tokyo").text == (
        "rrule FREQ=DAILY from 2026-01-01T09:00:00 in Asia/Tokyo"
    )


def test_start_takes_its_zone_along() -> None:
    assert rrule("FREQ=DAILY", start=datetime(2026, 1, 1, 9, tzinfo=NEW_YORK)).text == (
        "rrule FREQ=DAILY from 2026-01-01T09:00:00 in America/New_York"
    )
    assert rrule("FREQ=DAILY", zone="Asia/Tokyo", start=datetime(2026, 1, 1, tzinfo=UTC)).text == (
        "rrule FREQ=DAILY from 2026-01-01T09:00:00 in Asia/Tokyo"
    )


@pytest.mark.parametrize(
    ("start", "code"),
    [
        (datetime(2026, 1, 1), "time.naive"),
        (datetime.fromisoformat("2026-01-01T00:00:00+02:00"), "time.zone"),
        ("2026-01-01", "time.type"),
    ],
)
def test_a_start_that_says_too_little_is_an_error(start: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        rrule("FREQ=DAILY", start=start)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_zones_and_starts_that_disagree_are_errors() -> None:
    with pytest.raises(BadInput, match="disagree"):
        rrule("DTSTART;TZID=Asia/Tokyo:20260101T000000\nRRULE:FREQ=DAILY", zone="Europe/Paris")
    with pytest.raises(BadInput, match="twice"):
        rrule("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", start=datetime(2026, 1, 1, tzinfo=UTC))


def test_extra_and_excluded_dates_are_not_counted_and_are_counted() -> None:
    rule = rrule(
        "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY;COUNT=4\n"
        "EXDATE:20260102T090000Z\nRDATE:20260101T120000Z,20260110T000000Z"
    )
    assert local(rule, 10) == [
        "2026-01-01T09:00:00",
        "2026-01-01T12:00:00",
        "2026-01-03T09:00:00",
        "2026-01-04T09:00:00",
        "2026-01-10T00:00:00",
    ]
    assert rule.previous_ms(ms(2026, 1, 3)) == ms(2026, 1, 1, 12)
    assert rule.previous_ms(ms(2030, 1, 1)) == ms(2026, 1, 10)
    assert rule_from_text(rule.text) == rule


def test_an_excluded_date_without_a_time_is_the_whole_day() -> None:
    rule = rrule("DTSTART;TZID=Asia/Tokyo:20260101T060000\nRRULE:FREQ=HOURLY;INTERVAL=6\nEXDATE;VALUE=DATE:20260102")
    assert local(rule, 4, "Asia/Tokyo") == [f"2026-01-0{day}:00:00" for day in ("1T06", "1T12", "1T18", "3T00")]


def test_a_folded_line_is_one_line() -> None:
    text = "DTSTART:20260101T090000Z\r\nRRULE:FREQ=WEEKLY;BYDAY=MO,\r\n WE\r\n"
    assert rrule(text).text == "rrule FREQ=WEEKLY;BYDAY=MO,WE from 2026-01-01T09:00:00 in UTC"
    assert rrule("FREQ=WEEKLY;BYDAY=MO,WE").text == "rrule FREQ=WEEKLY;BYDAY=MO,WE"


def test_until_is_inclusive_and_a_date_means_its_whole_day() -> None:
    assert local(rrule("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260102T090000Z"), 9)[-1][:10] == "2026-01-02"
    assert local(rrule("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260103"), 9)[-1][:10] == "2026-01-03"


def test_a_week_number_without_a_day_is_the_day_of_the_start() -> None:
    rule = rrule("DTSTART:19970514T000000Z\nRRULE:FREQ=YEARLY;BYWEEKNO=20")
    assert local(rule, 3) == ["1997-05-14T00:00:00", "1998-05-13T00:00:00", "1999-05-19T00:00:00"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("RRULE:FREQ=DAILY", "every day"),
        ("DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY", "every day at 09:00, UTC, from 1 January 2026"),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0", "every weekday at 09:00"),
        ("RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,TH;COUNT=8", "every 2 weeks on Tuesday and Thursday, 8 times"),
        (
            "RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;UNTIL=20261224",
            "every month on the last Friday of the month at 17:00, until 24 December 2026",
        ),
        (
            "DTSTART;TZID=Europe/Paris:20260115T083000\nRRULE:FREQ=MONTHLY",
            "every month on the 15th at 08:30, Europe/Paris time, from 15 January 2026",
        ),
        ("RRULE:FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12", "every 20 minutes in hour 9 to 12"),
        ("RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=1TU", "every year on the 1st Tuesday of the month in November"),
        (
            "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "every month on weekday, only the last of them in each month",
        ),
    ],
)
def test_rules_in_words(lines: str, said: str) -> None:
    assert rrule(lines).describe() == said


def test_the_distance_from_the_start_costs_nothing() -> None:
    """Counted in days looked at, as time is noisy: a century on, no more years are listed than next door."""
    near = rrule("DTSTART:19000101T090000Z\nRRULE:FREQ=DAILY;INTERVAL=3;BYDAY=MO")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert near.next_after(at) is not None
    assert len(near._walls._days._years) <= 3  # type: ignore[attr-defined]
    far = near.next_after(at + timedelta(days=365_000))
    assert far is not None
    assert (far.date() - datetime(1900, 1, 1).date()).days % 3 == 0


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;COUNT=9000",
        "FREQ=YEARLY;COUNT=300;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=DAILY;INTERVAL=7;COUNT=400;BYMONTH=2;BYMONTHDAY=29",  # thousands of steps from one to the next
        "FREQ=WEEKLY;COUNT=700;BYDAY=MO,SU",
        "FREQ=HOURLY;COUNT=2000;BYHOUR=2",
    ],
)
def test_a_count_is_counted_in_pieces_and_ends_where_it_would_in_one(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime(2026, 1, 1, 2, 30, tzinfo=ZoneInfo("Europe/Paris"))
    rule, same = rrule(text, start=start), rrule(text, start=start)
    monkeypatch.setattr(rrule_module, "COUNT_PIECE", 300)
    anew = rule_from_text(rule.text)
    pieces = sum(1 for _ in anew.count_out())
    assert pieces > 1
    assert list(anew.count_out()) == []  # it is known now
    monkeypatch.setattr(rrule_module, "COUNT_PIECE", 10**9)
    ends = [one.previous_ms(LATEST_MS) for one in (anew, rule_from_text(same.text))]
    assert ends[0] == ends[1] is not None
