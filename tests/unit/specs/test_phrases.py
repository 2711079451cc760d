"""What people type means what they would say it means, or is refused with what was understood and what was not."""

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wakeful.specs import phrase_words
from wakeful.specs.cron import cron_from_text
from wakeful.specs.phrase_words import clock_of
from wakeful.specs.phrases import PHRASE_MAX, parse_phrase, read_phrase
from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput, BadOption, BadSpec, LimitExceeded

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "phrases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", VECTORS["read"], ids=lambda case: case["phrase"])
def test_a_phrase_is_this_spec(case: dict[str, str]) -> None:
    spec = parse_phrase(case["phrase"])
    assert spec.text == case["spec"]
    assert parse_spec(spec.text) == spec


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["phrase"])
def test_a_phrase_is_refused_in_one_line_with_what_was_understood(case: dict[str, Any]) -> None:
    with pytest.raises(BadSpec) as refused:
        parse_phrase(case["phrase"])
    assert refused.value.code == case["code"]
    assert refused.value.message.startswith(f"phrase {case['phrase']!r}: ")
    assert "\n" not in str(refused.value)
    for words in case["says"]:
        assert words in refused.value.message


def test_the_vectors_are_many_and_none_is_there_twice() -> None:
    read, refused = ([case["phrase"] for case in VECTORS[kind]] for kind in ("read", "refused"))
    assert len(set(read)) == len(read) >= 150
    assert len(set(refused)) == len(refused) >= 40
    assert not set(read) & set(refused)


def test_an_example_in_a_refusal_can_be_read_itself() -> None:
    for case in VECTORS["refused"]:
        with pytest.raises(BadSpec) as refused:
            parse_phrase(case["phrase"])
        _, found, example_ = refused.value.message.rpartition('; write it like "')
        if found and case["code"] == "spec.phrase" and "0 minutes" not in example_:
            parse_phrase(example_.removesuffix('"'))


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_phrase_is_refused(text: str) -> None:
    with pytest.raises(BadSpec, match="is empty"):
        parse_phrase(text)


@pytest.mark.parametrize("value", [None, 5, b"every day", timedelta(1)])
def test_what_is_not_text_is_refused(value: Any) -> None:
    with pytest.raises(BadSpec, match="is not text"):
        parse_phrase(value)


def test_a_phrase_has_a_length_limit() -> None:
    longest = "every day at 9 am" + " " * 500 + " and 6pm" + ", 6pm" * 35
    assert len(" ".join(longest.split())) == PHRASE_MAX  # spaces that say nothing don't count
    assert parse_phrase(longest).text == "cron 0 9,18 * * *"
    with pytest.raises(LimitExceeded, match="1 more than the limit of 200") as refused:
        parse_phrase("x" * (PHRASE_MAX + 1))
    assert refused.value.code == "limit.phrase"


def test_zone_gap_and_fold_may_be_given_beside_the_phrase() -> None:
    assert parse_phrase("every day at 9am", zone="Europe/Paris").text == "cron 0 9 * * * in Europe/Paris"
    assert parse_phrase("every day at 9am UTC", zone="UTC").text == "cron 0 9 * * * in UTC"
    spec = parse_phrase("every day at 2:15 and 3:40", zone="Europe/Paris", gap="skip", fold="both")
    assert spec.text == (
        "(cron 15 2 * * * in Europe/Paris gap=skip fold=both) or (cron 40 3 * * * in Europe/Paris gap=skip fold=both)"
    )
    with pytest.raises(BadSpec, match=r"is in UTC, and zone='Europe/Paris' is given too"):
        parse_phrase("every day at 9am UTC", zone="Europe/Paris")
    with pytest.raises(BadSpec, match="not known") as refused:
        parse_phrase("every day at 9am", zone="Mars/Olympus")
    assert refused.value.code == "spec.zone"
    with pytest.raises(BadOption, match="gap"):
        parse_phrase("every day at 9am", gap="leap")  # type: ignore[arg-type]
    with pytest.raises(BadSpec, match="neither gap nor fold"):
        parse_phrase("every 7 minutes", gap="skip")


def test_a_step_in_a_window_begins_with_it_and_has_both_ends() -> None:
    day = datetime(2026, 6, 3, tzinfo=UTC)
    found = parse_phrase("every 25 minutes between 9:10 and 11:15").between(day, day + timedelta(days=1))
    assert [f"{at:%H:%M}" for at in found] == ["09:10", "09:35", "10:00", "10:25", "10:50", "11:15"]
    night = parse_phrase("every 2 hours from 11pm to 4am").between(day + timedelta(hours=12), day + timedelta(days=2))
    assert [f"{at:%d %H}" for at in night] == ["03 23", "04 01", "04 03", "04 23"]


def test_catch_up_follows_the_kind_of_spec() -> None:
    assert parse_phrase("every 5 minutes").catch_up == "latest"
    assert parse_phrase("every 5m").catch_up == "skip"
    assert parse_phrase("every 7 minutes").catch_up == "skip"


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("9", 32_400),
        (9, 32_400),
        (0, 0),
        ("12 AM", 0),
        ("12:01 p.m.", 43_260),
        (time(18, 30, 5), 66_605),
        ("Noon", 43_200),
    ],
)
def test_a_time_of_day_is_read(when: Any, seconds: int) -> None:
    assert clock_of(when).seconds == seconds


@pytest.mark.parametrize(
    "when", [24, -1, True, None, 9.5, "", "9 0", "nine", "9:00:00:00", time(9, tzinfo=UTC), time(9, 0, 0, 1), "٩"]
)
def test_a_wrong_time_of_day_is_refused(when: Any) -> None:
    with pytest.raises(BadSpec) as refused:
        clock_of(when)
    assert refused.value.code == "spec.time"


def read_or_refused(text: str) -> Spec | BadInput:
    try:
        return parse_phrase(text)
    except BadInput as error:
        return error


# Phrases made from a grammar, with the meaning they were made from.

DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october"]
MONTHS += ["november", "december"]


def typed(draw: st.DrawFn, word: str) -> str:
    """A word as people might type it."""
    return draw(st.sampled_from([word, word.upper(), word.capitalize()]))


def listed(draw: st.DrawFn, words: list[str]) -> str:
    joint = draw(st.sampled_from([" and ", ", ", " & ", ", and "]))
    return joint.join(words)


@st.composite
def day_parts(draw: st.DrawFn) -> tuple[str, str]:
    """A text about days, and the day-of-month, month and day-of-week fields it means."""
    kind = draw(st.sampled_from(["all", "week", "month", "nth", "year", "set"]))
    if kind == "all":
        return draw(st.sampled_from(["every day", "daily", "each day", "everyday"])), "* * *"
    if kind == "set":
        name, field = draw(st.sampled_from([("weekday", "1-5"), ("weekend", "0,6")]))
        return draw(st.sampled_from([f"every {name}", f"on {name}s", f"each {name}", f"{name}s"])), f"* * {field}"
    if kind == "week":
        # Never three in a row, so that the field is a plain list.
        chosen = sorted(draw(st.sets(st.sampled_from([0, 1, 3, 5]), min_size=1)))
        forms = [draw(st.sampled_from([DAYS[day], DAYS[day][:3], DAYS[day] + "s"])) for day in chosen]
        start = draw(st.sampled_from(["every ", "on ", "", "each "]))
        return start + listed(draw, [typed(draw, form) for form in forms]), f"* * {','.join(map(str, chosen))}"
    if kind == "month":
        chosen = sorted(draw(st.sets(st.sampled_from([1, 3, 8, 12, 15, 22, 31]), min_size=1)))
        endings = {1: "st", 3: "rd", 22: "nd", 31: "st"}
        text = listed(draw, [f"{day}{endings.get(day, 'th')}" for day in chosen])
        end = draw(st.sampled_from(["", " of the month", " of every month", " of each month"]))
        start = draw(st.sampled_from(["every month on the ", "monthly on the ", "on the "]))
        return f"{start}{text}{end}", f"{','.join(map(str, chosen))} * *"
    if kind == "nth":
        day, nth = draw(st.integers(0, 6)), draw(st.sampled_from([1, 2, 3, 4, 0]))
        name = ["last", "first", "second", "third", "fourth"][nth]
        text = f"on the {name} {typed(draw, DAYS[day])} of the month"
        return text, f"* * {day}{f'#{nth}' if nth else 'L'}"
    month, day = draw(st.integers(1, 12)), draw(st.integers(1, 28))
    name = draw(st.sampled_from([MONTHS[month - 1], MONTHS[month - 1][:3]]))
    text = draw(st.sampled_from([f"on {name} {day}", f"every year on {day} {name}", f"every {name} {day}"]))
    return text, f"{day} {month} *"


@st.composite
def clock_texts(draw: st.DrawFn, hour: int, minute: int) -> str:
    forms = [f"{hour}:{minute:02}", f"{hour:02}:{minute:02}"]
    half, twelve = ("am" if hour < 12 else "pm"), (hour % 12 or 12)
    forms += [f"{twelve}:{minute:02}{half}", f"{twelve}:{minute:02} {half.upper()}"]
    if minute == 0:
        forms += [f"{twelve}{half}", f"{twelve} {half}"]
    if (hour, minute) in ((0, 0), (12, 0)):
        forms.append("midnight" if hour == 0 else "noon")
    return draw(st.sampled_from(forms))


@st.composite
def phrases(draw: st.DrawFn) -> tuple[str, str]:
    days, fields = draw(day_parts())
    hours = sorted(draw(st.sets(st.sampled_from([0, 2, 4, 9, 12, 14, 18, 23]), max_size=3)))
    minute = draw(st.sampled_from([0, 0, 5, 30, 59]))
    parts, clock = [days], f"{minute} {','.join(map(str, hours))}"
    if hours:
        parts.append("at " + listed(draw, [draw(clock_texts(hour, minute)) for hour in hours]))
    else:
        clock = "0 0"
    expected = f"cron {clock} {fields}"
    zone = draw(st.sampled_from([None, "UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"]))
    if zone is not None:
        parts.append(draw(st.sampled_from([f"in {zone}", f"{zone} time", zone.lower(), f"({zone})"])))
        expected += f" in {zone}"
    ordered = draw(st.permutations(parts))
    return draw(st.sampled_from([" ", "  ", ", "])).join(ordered), expected


@given(phrases())
@settings(max_examples=200)
def test_a_phrase_made_from_a_meaning_has_that_meaning(made: tuple[str, str]) -> None:
    text, expected = made
    assert parse_phrase(text).text == expected


@given(st.sampled_from(["second", "minute", "hour"]), st.integers(1, 200))
def test_a_step_is_a_cron_exactly_where_the_clock_repeats_with_it(unit: str, count: int) -> None:
    """What the spec names in two days of UTC is what counting from midnight gives, wherever it is a cron."""
    step = timedelta(**{f"{unit}s": count})
    spec = parse_phrase(f"every {count} {unit}s")
    clock = [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)]
    divides = any(
        size % step == timedelta(0) and step % below == timedelta(0)
        for below, size in zip([timedelta(seconds=1), *clock], clock, strict=False)
    )
    assert spec.text.startswith("cron ") is divides
    if divides:
        start = datetime.combine(date(2026, 6, 3), time(), UTC)
        expected = [start + step * number for number in range(50)]
        assert spec.between(start, start + timedelta(days=99), limit=50) == expected


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 1439), st.integers(1, 300))
@settings(max_examples=200)
@example(9, 0, 480, 15)
@example(0, 0, 1439, 1)
def test_a_window_has_exactly_the_times_that_counting_gives(hour: int, minute: int, length: int, step: int) -> None:
    start = hour * 60 + minute
    end = (start + length) % 1440
    text = f"every {step} minutes between {hour}:{minute:02} and {end // 60}:{end % 60:02}"
    if end == start and end:
        with pytest.raises(BadSpec, match="window is empty"):
            parse_phrase(text)
        return
    reach = length if end != start else 1440
    expected = sorted({(start + past) % 1440 for past in range(0, reach + 1, step)})
    spec = read_or_refused(text)
    if isinstance(spec, BadInput):
        assert "crons to say exactly" in spec.message
        return
    day = datetime(2026, 6, 3, tzinfo=UTC)
    found = spec.between(day, day + timedelta(days=1), limit=2000)
    assert [at.hour * 60 + at.minute for at in found] == expected


WORDS = [*sorted(phrase_words._KNOWN), *sorted(phrase_words.UNCLEAR), "the", "9am", "18:30", "25:00", "13pm", "9", "31"]
WORDS += [
    "1st",
    "31st",
    "99th",
    ":15",
    ":99",
    "5m",
    "0s",
    "1.5",
    "0",
    "2027",
    "Europe/Paris",
    "UTC",
    "a/b",
    "est",
    ",",
    "-",
]
WORDS += ["&", "(", "*", "€", "٣", "²", "'", '"', "\\", "\x00"]


@given(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.text(max_size=60))
@settings(max_examples=600)
@example("zone")
@example("sep 1st & august")
@example("every 99999999999999999999999999 minutes")
def test_whatever_is_typed_is_read_or_refused_with_a_typed_error_of_one_line(text: str) -> None:
    found = read_or_refused(text)
    if isinstance(found, BadInput):
        assert "\n" not in str(found)
        assert found.code
        return
    for part in found.text.removeprefix("(").removesuffix(")").split(") or ("):
        assert part.startswith("every ") or cron_from_text(part).text == part


def test_what_a_phrase_says_can_be_had_without_its_spec() -> None:
    assert read_phrase("every weekday at 18:30").times == (66_600,)
    with pytest.raises(BadSpec, match=r"^step 3: understood"):
        read_phrase("every mondey", "step 3")
