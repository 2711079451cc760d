"""`wakeful cron`: what a spec means in words, and when it is next, the nights of the clock changes included."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage

wakeful = pytest.fixture(make_stage)


def listed(wakeful: Stage, *args: str) -> list[tuple[str, str]]:
    found = wakeful("cron", *args, "--json")
    assert found.code == 0, found.err
    return [(row["local"], row["note"]) for row in found.json["occurrences"]]


def test_words_spec_and_list(wakeful: Stage) -> None:
    wakeful.set_time(datetime(2026, 5, 1, 12, tzinfo=UTC))
    answer = wakeful("cron", "0 9 * * 1", "--zone", "Europe/Paris", "-n", "2")
    assert answer.out.splitlines()[:2] == ["at 09:00 on Monday, Europe/Paris time", "cron 0 9 * * 1 in Europe/Paris"]
    rows = [line.split() for line in answer.out.splitlines()[-2:]]
    assert rows == [
        ["Mon", "2026-05-04", "09:00", "2026-05-04", "07:00", "+02:00", "in", "3", "days"],
        ["Mon", "2026-05-11", "09:00", "2026-05-11", "07:00", "+02:00", "in", "10", "days"],
    ]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("every monday at 9am", "cron 0 9 * * 1"),
        ("every friday at 17:00 in Europe/Paris", "cron 0 17 * * 5 in Europe/Paris"),
        ("90m", "every 1h30m"),
        ("every 5m", "every 5m"),
        ("after 10m", "after 10m"),
        ("FREQ=WEEKLY;BYDAY=MO", "rrule FREQ=WEEKLY;BYDAY=MO"),
        ("at 2030-01-01T00:00Z", "at 2030-01-01T00:00:00+00:00"),
        ("(cron 0 9 * * 1) spread 10m", "(cron 0 9 * * 1) spread 10m"),
    ],
)
def test_every_form_prints_the_spec_it_means(wakeful: Stage, text: str, spec: str) -> None:
    wakeful.set_time(datetime(2026, 5, 1, 12, tzinfo=UTC))
    found = wakeful("cron", text, "--json").json
    assert found["spec"] == spec
    assert found["words"]
    assert found["occurrences"]


def test_a_zone_given_apart_is_part_of_what_it_means(wakeful: Stage) -> None:
    def spec(*args: str) -> Any:
        return wakeful("cron", *args, "--json").json["spec"]

    assert spec("every day at noon", "--zone", "Asia/Tokyo") == "cron 0 12 * * * in Asia/Tokyo"
    assert spec("FREQ=DAILY", "--zone", "Asia/Tokyo", "--gap", "skip") == "rrule FREQ=DAILY in Asia/Tokyo gap=skip"
    assert spec("5m", "--zone", "Asia/Tokyo") == "every 5m"
    assert "default_zone" in wakeful("cron", "0 9 * * *").out
    assert "default_zone" not in wakeful("cron", "0 9 * * *", "--zone", "UTC").out


def test_the_night_without_half_past_two(wakeful: Stage) -> None:
    args = ("30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-28", "-n", "2")
    assert listed(wakeful, *args) == [
        ("2026-03-28T02:30:00+01:00", ""),
        ("2026-03-29T03:00:00+02:00", "moved: 02:30 does not exist that day"),
    ]
    assert listed(wakeful, *args, "--gap", "skip") == [
        ("2026-03-28T02:30:00+01:00", ""),
        ("2026-03-29T03:00:00+02:00", "left out: 02:30 does not exist that day"),
        ("2026-03-30T02:30:00+02:00", ""),
    ]
    assert "left out: 02:30 does not exist that day" in wakeful("cron", *args, "--gap", "skip").out


def test_the_night_with_two_of_them(wakeful: Stage) -> None:
    args = ("30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-10-25", "-n", "2")
    first, second = "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"
    assert listed(wakeful, *args)[0] == (first, "02:30 comes twice: the first time only")
    assert listed(wakeful, *args, "--fold", "second")[0] == (second, "02:30 comes twice: the second time only")
    assert listed(wakeful, *args, "--fold", "both") == [
        (first, "02:30 for the first time"),
        (second, "02:30 for the second time"),
    ]


def test_a_rule_that_follows_elapsed_time_is_not_moved(wakeful: Stage) -> None:
    args = ("0 * * * *", "--zone", "Europe/Berlin", "--from", "2026-03-29T01:00", "-n", "2")
    assert listed(wakeful, *args) == [("2026-03-29T01:00:00+01:00", ""), ("2026-03-29T03:00:00+02:00", "")]


def test_a_day_that_a_zone_left_out(wakeful: Stage) -> None:
    args = ("0 9 * * *", "--zone", "Pacific/Apia", "--from", "2011-12-29", "-n", "2", "--gap", "skip")
    assert listed(wakeful, *args)[1] == ("2011-12-31T00:00:00+14:00", "left out: 09:00 does not exist on 2011-12-30")


def test_what_ends_says_so(wakeful: Stage) -> None:
    assert "never again" in wakeful("cron", "at 2020-01-01T00:00Z").out
    assert "and never again" in wakeful("cron", "after 5m").out
    assert listed(wakeful, "at 2020-01-01T00:00Z") == []
    assert listed(wakeful, "at 2020-01-01T00:00Z", "--from", "2020-01-01") == [("2020-01-01T00:00:00+00:00", "")]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("0 9 * * 8",), "day-of-week 8 is out of range 0-7 [spec.field]"),
        (("0 0 30 2 *",), "[spec.impossible]"),
        (("every mnday at 9",), 'did you mean "monday"?'),
        (("nonsense",), "[spec.phrase]"),
        (("0 9 * * 1", "--zone", "Europe/Pari"), "did you mean 'Europe/Paris'"),
        (("cron 0 9 * * 1 in Europe/Paris", "--zone", "UTC"), "already [schedule.zone]"),
        (("5m", "--gap", "skip"), "[schedule.zone]"),
        (("0 9 * * 1", "--from", "yesterday"), "[time.text]"),
        (("0 9 * * 1", "--gap", "odd"), "[usage]"),
        (("500ms",), "[spec.interval]"),
        ((), "[usage]"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(wakeful: Stage, args: tuple[str, ...], word: str) -> None:
    answer = wakeful("cron", *args)
    assert (answer.code, answer.out) == (2, "")
    assert word in answer.err
    assert answer.err.count("\n") == 1
    assert wakeful("cron", *args, "--json").json["error"]["message"]
