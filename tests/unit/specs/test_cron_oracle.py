"""Whatever the expression, the zone and the night: cron says what a walk over every second says."""

from datetime import UTC, date, datetime, timedelta

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.unit.specs.cron_oracle import Oracle
from wakeful.specs.cron import Cron, cron
from wakeful.values.errors import BadSpec

# Nights (and days) on which clocks changed: by 15, 20, 30, 34:39, 44:30, 60 and 120 minutes, 7 and 8 hours, and a day.
CHANGES = [
    ("Europe/Berlin", "2025-03-30T01:00"),
    ("Europe/Berlin", "2025-10-26T01:00"),
    ("America/New_York", "2025-03-09T07:00"),
    ("America/New_York", "2025-11-02T06:00"),
    ("Australia/Lord_Howe", "2025-04-05T15:00"),
    ("Australia/Lord_Howe", "2025-10-04T15:30"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Kwajalein", "1969-09-30T13:00"),
    ("America/Juneau", "1867-10-19T00:31"),
    ("Europe/Dublin", "2025-03-30T01:00"),
    ("Europe/Dublin", "2025-10-26T01:00"),
    ("Europe/Dublin", "1916-10-01T02:25"),
    ("Africa/Casablanca", "2025-02-23T02:00"),
    ("Africa/Casablanca", "2025-04-06T02:00"),
    ("Africa/Monrovia", "1972-01-07T00:44"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("America/Caracas", "2007-12-09T07:00"),
    ("Antarctica/Troll", "2025-03-30T01:00"),
    ("Antarctica/Troll", "2025-10-26T01:00"),
    ("Antarctica/Casey", "1969-01-01T00:00"),
    ("Antarctica/Vostok", "1994-01-31T17:00"),
    ("UTC", "2024-02-29T00:00"),
]
GAPS = st.sampled_from(["shift", "skip"])
FOLDS = st.sampled_from(["first", "second", "both"])


@st.composite
def parts(draw: st.DrawFn, low: int, high: int, names: list[str]) -> str:
    value = st.integers(low, high).map(str)
    word = value | st.sampled_from(names) if names else value
    step = st.integers(1, high - low).map(str)
    kind = draw(st.sampled_from(["one", "one", "range", "range/step", "one/step", "*", "*/step"]))
    found = kind.replace("step", draw(step)).replace("range", f"{draw(word)}-{draw(word)}")
    return found.replace("one", draw(word))


def fields(low: int, high: int, names: str = "", extra: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[str]:
    part = parts(low, high, names.split())
    several = st.lists(part if extra is None else part | extra, min_size=1, max_size=3).map(",".join)
    return st.just("*") | part | several


SECONDS, MINUTES, HOURS = fields(0, 59), fields(0, 59), st.integers(0, 4).map(str) | fields(0, 23)
SPECIAL_DAYS = st.sampled_from(["L", "LW", "1W", "15W", "31W"]) | st.integers(0, 30).map("L-{}".format)
SPECIAL_WEEKDAYS = st.sampled_from(["5L", "sunL", "fri#2", "1#5", "7#1", "0L"])
DAYS = st.sampled_from(["*", "*", "*", "?"]) | fields(1, 31, extra=SPECIAL_DAYS)
MONTHS = st.sampled_from(["*", "*", "*"]) | fields(1, 12, "jan feb mar apr may jun jul aug sep oct nov dec")
WEEKDAYS = st.sampled_from(["*", "*", "*", "?"]) | fields(0, 7, "sun mon tue wed thu fri sat", SPECIAL_WEEKDAYS)
EXPRESSIONS = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)


def second_of(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def size_of(change: tuple[str, str]) -> int:
    """By how many seconds the clocks change there."""
    oracle, middle = Oracle("* * * * *", change[0]), second_of(change[1])
    return abs(int((oracle.shown(middle + 3_600) - oracle.shown(middle - 3_600)).total_seconds()) - 7_200)


def made(expression: str, zone: str | None = None, gap: str = "shift", fold: str = "first") -> Cron:
    """The cron, unless no year has such a day."""
    try:
        return cron(expression, zone, gap, fold)  # type: ignore[arg-type]
    except BadSpec as error:
        assume(error.code != "spec.impossible")
        raise


def check(
    expression: str, zone: str, gap: str, fold: str, first: int, last: int, probes: list[int], margin: int
) -> None:
    """Over `first <= t < last` (seconds): all occurrences, all gaps, and next and previous from each probe (ms)."""
    spec = made(expression, zone, gap, fold)
    oracle = Oracle(expression, zone, gap, fold)
    expected = [t * 1000 for t in oracle.occurrences(first, last, margin)]
    assert spec.between_ms(first * 1000, last * 1000, 10**6) == expected
    gaps = [t * 1000 for t in oracle.gaps(first, last, margin)]
    assert spec.gaps_ms(first * 1000, last * 1000) == gaps
    for gap_at in gaps:
        assert spec.gaps_ms(gap_at, gap_at + 1) == [gap_at]
        assert spec.gaps_ms(gap_at + 1, last * 1000) == [one for one in gaps if one > gap_at]
        assert spec.gaps_ms(first * 1000, gap_at) == [one for one in gaps if one < gap_at]
    for probe in [first * 1000, *expected[:3], *expected[-3:], *probes]:
        later, earlier = [t for t in expected if t > probe], [t for t in expected if t < probe]
        found, back = spec.next_ms(probe), spec.previous_ms(probe)
        assert found == later[0] if later else found is None or found >= last * 1000
        assert back == earlier[-1] if earlier else back is None or back < first * 1000


@settings(max_examples=70)
@given(EXPRESSIONS, st.sampled_from(CHANGES), GAPS, FOLDS, st.lists(st.integers(-14_000_000, 14_000_000), max_size=4))
@example("30 2 * * *", CHANGES[0], "shift", "first", [])
@example("*/15 2 * * *", CHANGES[1], "shift", "first", [0, 1, -1])
@example("0,15,59 0-23 * * *", CHANGES[6], "skip", "both", [])
@example("10 12-3 * * *", CHANGES[8], "shift", "second", [0])
@example("45 1 * * *", CHANGES[4], "shift", "second", [])
def test_every_minute_around_a_change(
    expression: str, change: tuple[str, str], gap: str, fold: str, probes: list[int]
) -> None:
    zone, at = change
    middle, size = second_of(at), size_of(change)
    around = 14_400 + size * 3 // 2
    probes = [middle * 1000 + probe for probe in probes]
    check(expression, zone, gap, fold, middle - around, middle + around, probes, margin=600 + size)


@settings(max_examples=30)
@given(
    SECONDS,
    EXPRESSIONS,
    st.sampled_from(CHANGES),
    GAPS,
    FOLDS,
    st.lists(st.integers(-3_600_000, 3_600_000), max_size=4),
)
@example("*/10", "0,59 1-3 * * *", CHANGES[1], "shift", "both", [0])
@example("*/10", "0,59 1-3 * * *", CHANGES[1], "shift", "first", [0])
@example("*", "30 2 * * *", CHANGES[0], "skip", "first", [0])
def test_every_second_around_a_change(
    seconds: str, expression: str, change: tuple[str, str], gap: str, fold: str, probes: list[int]
) -> None:
    zone, at = change
    middle, size = second_of(at), size_of(change)
    assume(size < 10_000)
    probes = [middle * 1000 + probe for probe in probes]
    check(f"{seconds} {expression}", zone, gap, fold, middle - 4_000, middle + 4_000, probes, margin=600 + size)


@settings(max_examples=30)
@given(DAYS, MONTHS, WEEKDAYS, st.dates(date(1896, 1, 1), date(2104, 1, 1)))
@example("29", "2", "*", date(1896, 3, 1))
@example("29", "2", "*", date(2096, 3, 1))
@example("29", "2", "*/7", date(2004, 2, 29))
@example("*", "2", "mon#5", date(2100, 2, 28))
@example("31W", "*", "?", date(2099, 12, 31))
def test_every_day_for_years(day: str, month: str, weekday: str, start: date) -> None:
    expression = f"0 0 {day} {month} {weekday}"
    spec = made(expression)
    oracle = Oracle(expression, "UTC")
    days = [start + timedelta(days=n) for n in range(-3_000, 3_000)]
    named = [day for day in days if oracle.names_day(day)]
    for at in (start, *(day + timedelta(days=shift) for day in named[:: len(named) // 5 + 1] for shift in (-1, 0, 1))):
        later, earlier = [one for one in named if one > at], [one for one in named if one < at]
        ms = second_of(at.isoformat()) * 1000
        found, back = spec.next_ms(ms), spec.previous_ms(ms)
        assert found is not None
        assert back is not None
        assert (
            found == second_of(later[0].isoformat()) * 1000 if later else found > second_of(days[-1].isoformat()) * 1000
        )
        assert (
            back == second_of(earlier[-1].isoformat()) * 1000
            if earlier
            else back < second_of(days[0].isoformat()) * 1000
        )


@settings(max_examples=200)
@given(EXPRESSIONS, st.sampled_from([zone for zone, _ in CHANGES]), GAPS, FOLDS, st.integers(-(10**13), 10**14))
def test_next_and_previous_are_each_others_mirror(expression: str, zone: str, gap: str, fold: str, at: int) -> None:
    spec = made(expression, zone, gap, fold)
    following = spec.next_ms(at)
    preceding = spec.previous_ms(at)
    if following is not None:
        assert following > at
        assert spec.previous_ms(following + 1) == following
        assert spec.previous_ms(following) in (preceding, at)
    if preceding is not None:
        assert preceding < at
        assert spec.next_ms(preceding - 1) == preceding
        assert spec.next_ms(preceding) in (following, at)
