"""What a cron expression may say, how it prints, and what is wrong with the others."""

import copy
import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.specs.cron import Cron, cron, cron_from_text
from wakeful.specs.zones import Span
from wakeful.values.errors import BadInput, BadOption, BadSpec
from wakeful.values.times import LATEST_MS

JUNE = datetime(2025, 6, 1, tzinfo=UTC)  # a Sunday
CENTURY_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * 1000
JUNE_MS = int(JUNE.timestamp()) * 1000


def following(expression: str, count: int = 3, *, after: datetime = JUNE) -> list[str]:
    spec, found = cron(expression), []
    while len(found) < count:
        at = spec.next_after(after)
        assert at is not None
        found.append(f"{at:%m-%d %H:%M:%S}")
        after = at
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", ["06-01 00:01:00", "06-01 00:02:00", "06-01 00:03:00"]),
        ("* * * * * *", ["06-01 00:00:01", "06-01 00:00:02", "06-01 00:00:03"]),
        ("*/20 * * * * *", ["06-01 00:00:20", "06-01 00:00:40", "06-01 00:01:00"]),
        ("58/1 59 23 * * *", ["06-01 23:59:58", "06-01 23:59:59", "06-02 23:59:58"]),
        ("5/20 * * * *", ["06-01 00:05:00", "06-01 00:25:00", "06-01 00:45:00"]),
        ("0 22-2/2 * * *", ["06-01 02:00:00", "06-01 22:00:00", "06-02 00:00:00"]),
        ("50-10/10 3 * * *", ["06-01 03:00:00", "06-01 03:10:00", "06-01 03:50:00"]),
        ("0 9 * * MON,Wed", ["06-02 09:00:00", "06-04 09:00:00", "06-09 09:00:00"]),
        ("0 9 * JUL-Aug 1", ["07-07 09:00:00", "07-14 09:00:00", "07-21 09:00:00"]),
        ("0 9 * * 6-1", ["06-01 09:00:00", "06-02 09:00:00", "06-07 09:00:00"]),
        ("0 9 * * 7-1", ["06-01 09:00:00", "06-02 09:00:00", "06-08 09:00:00"]),
        ("0 9 31-2 * ?", ["06-01 09:00:00", "06-02 09:00:00", "07-01 09:00:00"]),
        ("0 0 1,L * *", ["06-30 00:00:00", "07-01 00:00:00", "07-31 00:00:00"]),
        ("  0   12 * *  * ", ["06-01 12:00:00", "06-02 12:00:00", "06-03 12:00:00"]),
        ("@HOURLY", ["06-01 01:00:00", "06-01 02:00:00", "06-01 03:00:00"]),
        ("@daily", ["06-02 00:00:00", "06-03 00:00:00", "06-04 00:00:00"]),
        ("@midnight", ["06-02 00:00:00", "06-03 00:00:00", "06-04 00:00:00"]),
        ("@weekly", ["06-08 00:00:00", "06-15 00:00:00", "06-22 00:00:00"]),
        ("@monthly", ["07-01 00:00:00", "08-01 00:00:00", "09-01 00:00:00"]),
        ("@yearly", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
        ("@annually", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
    ],
)
def test_what_it_may_say(expression: str, expected: list[str]) -> None:
    assert following(expression) == expected


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        ("60 * * * *", "spec.field", "minute 60 is out of range 0-59"),
        ("* 24 * * *", "spec.field", "hour 24 is out of range 0-23"),
        ("* * 0 * *", "spec.field", "day-of-month 0 is out of range 1-31"),
        ("* * 32 * *", "spec.field", "day-of-month 32 is out of range 1-31"),
        ("* * * 13 *", "spec.field", "month 13 is out of range 1-12"),
        ("* * * * 8", "spec.field", "day-of-week 8 is out of range 0-7"),
        ("61 * * * * *", "spec.field", "second 61 is out of range 0-59"),
        ("5,1-99 * * * *", "spec.field", "minute 99 is out of range 0-59"),
        ("*/0 * * * *", "spec.field", "minute step 0 in '*/0' is out of range 1-60"),
        ("*/61 * * * *", "spec.field", "minute step 61 in '*/61' is out of range 1-60"),
        ("* * * * */8", "spec.field", "day-of-week step 8"),
        ("1,,2 * * * *", "spec.field", "minute has an empty part in '1,,2'"),
        (", * * * *", "spec.field", "minute has an empty part"),
        ("* * * january *", "spec.field", "month 'january' is not known; use 1-12 or jan-dec"),
        ("mon * * * *", "spec.field", "minute 'mon' is not known; use 0-59"),
        ("* * * * mo", "spec.field", "day-of-week 'mo' is not known"),
        ("1-2-3 * * * *", "spec.field", "minute can't be read: '1-2-3'"),
        ("*-5 * * * *", "spec.field", "minute can't be read: '*-5' is a range from '*'"),
        ("-5 * * * *", "spec.field", "minute can't be read: '-5'"),
        ("5- * * * *", "spec.field", "minute can't be read: '5-'"),
        ("*/ * * * *", "spec.field", "minute can't be read: '*/'"),
        ("1.5 * * * *", "spec.field", "minute can't be read"),
        ("٣ * * * *", "spec.field", "minute can't be read"),
        ("? * * * *", "spec.field", "minute takes '?' only alone, in place of '*' in day-of-month or day-of-week"),
        ("0 0 ?,5 * *", "spec.field", "day-of-month takes '?' only alone"),
        ("0 0 ?/2 * *", "spec.field", "day-of-month takes '?' only alone"),
        ("L * * * *", "spec.field", "minute 'l' is not known"),
        ("0 0 L-31 * *", "spec.field", "day-of-month L-31 is out of range"),
        ("0 0 32W * *", "spec.field", "day-of-month 32 is out of range 1-31"),
        ("0 0 W * *", "spec.field", "day-of-month 'w' is not known"),
        ("0 0 1#2 * *", "spec.field", "day-of-month can't be read: '1#2'"),
        ("0 0 * * L", "spec.field", "day-of-week 'L' needs its day: 5L or friL"),
        ("0 0 * * 8L", "spec.field", "day-of-week 8 is out of range 0-7"),
        ("0 0 * * fri#6", "spec.field", "day-of-week 'fri#6' is out of range: #6 is not in #1 to #5"),
        ("0 0 * * fri#0", "spec.field", "#0 is not in #1 to #5"),
        ("0 0 * * xyz#1", "spec.field", "day-of-week 'xyz' is not known"),
        ("0 0 * * 15W", "spec.field", "day-of-week can't be read: '15w'"),
        ("", "spec.cron", "has 0 fields; give 5"),
        ("* * * *", "spec.cron", "has 4 fields; give 5 (minute hour day-of-month month day-of-week), or 6"),
        ("0 0 0 1 1 ? 2025", "spec.cron", "has 7 fields"),
        ("@reboot", "spec.cron", "names the start of a machine, not a time"),
        ("@every 5m", "spec.cron", "has 2 fields"),
        ("@fortnightly", "spec.cron", "is not one of @yearly"),
        ("0 " * 1000, "spec.cron", "2000 characters; at most 1000"),
        ("0 0 30 2 *", "spec.impossible", "never happens: no year has day 30 of February"),
        ("0 0 31 apr,jun *", "spec.impossible", "no year has day 31 of April and June"),
    ],
)
def test_bad_input_says_what_and_where(expression: str, code: str, words: str) -> None:
    with pytest.raises(BadSpec) as caught:
        cron(expression)
    assert caught.value.code == code
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    if code == "spec.field":
        assert repr(expression) in caught.value.message


@given(st.text(alphabet="0123456789*/-,?#LWlwmonfrijan @é\t\n\0٣\u2028", max_size=24))
@settings(max_examples=300)
def test_any_text_is_a_cron_or_a_typed_error(text: str) -> None:
    try:
        spec = cron(text)
    except BadInput:
        return
    assert cron_from_text(spec.text) == spec


def test_wrong_types_and_options() -> None:
    with pytest.raises(BadSpec, match="give text such as"):
        cron(5)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="gap 'jump' is not one of 'shift', 'skip'"):
        cron("* * * * *", gap="jump")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="fold 'none' is not one of 'first', 'second', 'both'"):
        cron("* * * * *", fold="none")  # type: ignore[arg-type]
    with pytest.raises(BadSpec, match="did you mean 'Europe/Paris'"):
        cron("* * * * *", "europe/paris")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (cron("0 9 * * 1"), "cron 0 9 * * 1"),
        (cron(" 0  9 * JAN MON "), "cron 0 9 * jan mon"),
        (cron("0 9 l * frIL,FRI#2", "UTC"), "cron 0 9 L * friL,fri#2 in UTC"),
        (cron("0 9 lw,l-3,15w * ?"), "cron 0 9 LW,L-3,15W * ?"),
        (cron("0 9 ? jul 5l"), "cron 0 9 ? jul 5L"),
        (cron("@Daily", "Europe/Paris"), "cron @daily in Europe/Paris"),
        (cron("0 9 * * 1", "Europe/Paris", "skip", "both"), "cron 0 9 * * 1 in Europe/Paris gap=skip fold=both"),
        (cron("0 9 * * 1", gap="skip"), "cron 0 9 * * 1 gap=skip"),
        (cron("0 0 9 * * 1", fold="second"), "cron 0 0 9 * * 1 fold=second"),
    ],
)
def test_text_and_back(spec: Cron, text: str) -> None:
    assert spec.text == str(spec) == text
    assert repr(spec) == f"<{text}>"
    back = cron_from_text(text)
    assert back == spec
    assert (back.text, back.expression, back.zone, back.gap, back.fold) == (
        spec.text,
        spec.expression,
        spec.zone,
        spec.gap,
        spec.fold,
    )
    assert hash(back) == hash(spec)
    assert f"cron {spec.expression}" == text.split(" in ")[0].split(" gap=")[0].split(" fold=")[0]


def test_a_cron_can_be_copied_and_pickled() -> None:
    spec = cron("30 2 * * *", "Europe/Berlin", fold="both")
    for other in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert other == spec
        assert other.next_ms(JUNE_MS) == spec.next_ms(JUNE_MS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every 5m",
        "cron",
        "cron * * * *",
        "cron * * * * * at=5",
        "cron * * * * * gap=skip gap=skip",
        "cron * * * * * in",
    ],
)
def test_text_that_is_no_cron(text: str) -> None:
    with pytest.raises(BadSpec):
        cron_from_text(text)


def test_bound_gives_a_zone_to_one_that_has_none() -> None:
    spec = cron("0 9 * * *", gap="skip", fold="both").bind(added_at=0, seed="x", zone="Asia/Tokyo")
    assert spec.text == "cron 0 9 * * * in Asia/Tokyo gap=skip fold=both"
    assert spec.next_after(JUNE) == JUNE.replace(day=2)
    assert spec.bind(added_at=0, seed="y", zone="Europe/Paris") is spec
    with pytest.raises(BadSpec):
        cron("0 9 * * *").bind(added_at=0, seed="x", zone="Nowhere/At_All")


def test_milliseconds_are_strict() -> None:
    spec = cron("* * * * * *")
    assert spec.next_ms(999) == 1000
    assert spec.next_ms(1000) == 2000
    assert spec.next_ms(1001) == 2000
    assert spec.next_ms(-1) == 0
    assert spec.previous_ms(1000) == 0
    assert spec.previous_ms(1001) == 1000
    assert spec.previous_ms(0) == -1000
    assert spec.between_ms(1000, 3000, 10) == [1000, 2000]
    assert spec.between_ms(0, 10**9, 2) == [0, 1000]


def test_the_ends_of_time() -> None:
    spec = cron("0 0 29 2 *", "Pacific/Apia")
    assert spec.next_ms(LATEST_MS) is None
    assert spec.next_ms(LATEST_MS * 2) is None
    assert spec.previous_ms(LATEST_MS * 2) == spec.previous_ms(LATEST_MS)
    assert spec.previous_ms(-(10**17)) is None
    first = spec.next_ms(-(10**17))
    assert first is not None
    assert spec.previous_ms(first) is None
    yearly = cron("@yearly", "America/New_York")
    assert yearly.next_ms(LATEST_MS - 86_400_000 * 300) is None  # the next one would be past the latest time


def test_a_time_that_every_jump_leaves_out_has_no_next() -> None:
    """The last Sunday of March is the 31st only where Berlin jumps over 02:30; before 1981 it did not."""
    spec = cron("30 2 31 3 */7", "Europe/Berlin", gap="skip")
    assert spec.next_ms(JUNE_MS) is None
    assert spec.previous_ms(JUNE_MS) is not None
    assert spec.gaps_ms(JUNE_MS, CENTURY_MS)
    shifted = cron("30 2 31 3 */7", "Europe/Berlin")
    assert shifted.next_ms(JUNE_MS) == spec.gaps_ms(JUNE_MS, CENTURY_MS)[0]


class Counted:
    """Spans that count how often they are asked."""

    def __init__(self, spec: Cron) -> None:
        self.spans = spec._spans
        self.asked = 0

    def at(self, second: int) -> Span:
        self.asked += 1
        return self.spans.at(second)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"])
@pytest.mark.parametrize(
    "expression",
    ["0 0 29 2 *", "0 0 29 2 */7", "59 59 23 31 12 ?", "0 0 L 2 *", "0 12 * 2 mon#5", "0 0 31 * *", "30 2 * * *"],
)
def test_the_rarest_expression_is_found_without_walking(expression: str, zone: str) -> None:
    spec = cron(expression, zone)
    spec._spans = counted = Counted(spec)  # type: ignore[assignment]
    for start in range(JUNE_MS, JUNE_MS + 10**12, 10**10 + 7_654_321):
        counted.asked = 0
        assert spec.next_ms(start)
        assert counted.asked <= 4
        counted.asked = 0
        assert spec.previous_ms(start)
        assert counted.asked <= 4
