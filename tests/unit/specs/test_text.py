"""Every spec comes back from its text, and whatever people give becomes a spec."""

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.specs import combine
from wakeful.specs.build import to_spec
from wakeful.specs.calendars import Calendar, business_hours, holidays
from wakeful.specs.combine import AnyOf, ExceptFor, Spread, Within
from wakeful.specs.cron import cron
from wakeful.specs.instants import After, At, after, at
from wakeful.specs.interval import Interval, interval
from wakeful.specs.rrule import rrule
from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput
from wakeful.values.times import from_datetime

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
WHEN = from_datetime(NOON)

zones = st.sampled_from((None, "UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+3"))
gaps = st.sampled_from(("shift", "skip"))
folds = st.sampled_from(("first", "second", "both"))
instants = st.integers(0, 4 * WHEN)
leaves = st.one_of(
    instants.map(At),
    st.integers(1, 10**10).map(After),
    st.builds(Interval, st.integers(1000, 10**10), instants, st.sampled_from(("from", "after"))),
    st.integers(1000, 10**10).map(lambda length: Interval(length, 0, "free")),
    st.builds(cron, st.sampled_from(("0 9 * * *", "*/5 8-18 * * mon-fri", "0 0 L * *", "@daily")), zones, gaps, folds),
    st.builds(
        lambda text, zone, gap, fold: rrule(text, zone, gap=gap, fold=fold),
        st.sampled_from(
            (
                "FREQ=DAILY",
                "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,MO;WKST=SU",
                "DTSTART:20260101T093015\nRRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=9\nEXDATE:20260130T093015",
                "RRULE:FREQ=HOURLY;UNTIL=20300101T000000Z\nRDATE:20260101T001122",
            )
        ),
        zones,
        gaps,
        folds,
    ),
)
calendars: st.SearchStrategy[Calendar] = st.one_of(
    st.builds(business_hours, st.sampled_from(("mon-fri", "sat,sun")), st.sampled_from(("9-17", "22-6,7-8")), zones),
    st.builds(
        lambda name, zone: holidays((12, 25), date(2026, 4, 3), name=name, zone=zone),
        st.sampled_from(("", "UK", "a) or (b", "within (x) in y", "§ 1")),
        zones,
    ),
    st.just(business_hours({"mon": "9-12", "tue-thu": "9-17"}, holidays=holidays((1, 1), name="in (winter)"))),
)


def combined(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    lists = st.lists(inner, min_size=2, max_size=3, unique_by=lambda spec: spec.text)
    plain = lists.filter(lambda parts: not any(isinstance(part, AnyOf) for part in parts))
    return st.one_of(
        plain.map(lambda parts: AnyOf(tuple(parts))),
        st.builds(
            lambda spec, out: ExceptFor(spec, tuple(out)), inner, st.lists(inner | calendars, min_size=1, max_size=3)
        ),
        st.builds(lambda spec, open_: Within(spec, tuple(open_)), inner, st.lists(calendars, min_size=1, max_size=2)),
        st.builds(Spread, inner, st.integers(1, 10**9), st.none() | st.text(min_size=1, max_size=8)),
    )


nested: st.SearchStrategy[Spec] = st.recursive(leaves, combined, max_leaves=6)


@settings(max_examples=300)
@given(nested)
def test_every_spec_comes_back_exactly(spec: Spec) -> None:
    again = parse_spec(spec.text)
    assert type(again) is type(spec)
    assert again.text == spec.text
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.describe() == spec.describe()
    assert "\n" not in spec.text


@settings(max_examples=150)
@given(leaves | combined(leaves))
def test_what_comes_back_says_the_same_and_binds_once(spec: Spec) -> None:
    with mock.patch.object(combine, "STEPS_MAX", 200):  # what keeps nothing is found out sooner
        check_bound(spec)


def check_bound(spec: Spec) -> None:
    try:
        bound = spec.bind(added_at=WHEN, seed="some seed", zone="Asia/Tokyo")
        # Looked at from another instant, what has an occurrence soon may have none within so few steps.
        bound_again, again = bound.bind(added_at=5, seed="other", zone="UTC"), parse_spec(bound.text)
    except BadInput as error:
        if error.code != "spec.impossible":
            raise
        return
    assert bound_again == bound
    assert again == bound
    assert again.between_ms(WHEN, WHEN + 10**9, 5) == bound.between_ms(WHEN, WHEN + 10**9, 5)
    assert again.previous_ms(WHEN) == bound.previous_ms(WHEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "at noon",
        "after",
        "every 5m until 2026-01-01T00:00:00+00:00",
        "cron",
        "rrule",
        "rrule FREQ=DAILY sometimes",
        "(at 2026-01-01T00:00:00+00:00",
        "(at 2026-01-01T00:00:00+00:00) and (after 5m)",
        "(after 5m) or",
        "(after 5m) or (after 6m) (after 7m)",
        "(after 5m) within (after 6m)",
        "(after 5m) within (hours mon)",
        "(after 5m) within (hours mon 9-17 except (hours mon 9-17))",
        '(after 5m) except (holidays "x 12-25)',
        "(after 5m) except",
        "(after 5m) spread",
        "(after 5m) spread 5m seed",
        '(after 5m) spread 5m seed "a',
        "(after 5m) spread 5m salt a",
        "(" * 5000 + "after 5m" + ")" * 5000,
        5,
    ],
)
def test_texts_of_nothing_are_one_line_errors(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_spec(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, at(NOON)),
        (timedelta(minutes=5), after("5m")),
        (90, after("90s")),
        (0.25, after("250ms")),
        (interval("5m"), interval("5m")),
        (SimpleNamespace(spec=interval("5m")), interval("5m")),
        ("every 5m", interval("5m")),
        ("0 9 * * mon", cron("0 9 * * mon")),
        ("30 0 9 * * mon", cron("30 0 9 * * mon")),
        ("@daily", cron("@daily")),
        ("cron 0 9 * * mon in Europe/Paris", cron("0 9 * * mon", "Europe/Paris")),
        ("FREQ=DAILY;BYHOUR=9", rrule("FREQ=DAILY;BYHOUR=9")),
        ("(after 5m) or (after 6m)", AnyOf((after("5m"), after("6m")))),
    ],
)
def test_what_people_give_becomes_a_spec(value: object, expected: Spec) -> None:
    assert to_spec(value) == expected


def test_other_words_are_phrases() -> None:
    assert to_spec("every 5 minutes").next_after(NOON) == NOON + timedelta(minutes=5)
    assert to_spec("every monday at 9am").next_after(NOON) == datetime(2026, 3, 30, 9, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, True, False, object(), [], b"0 9 * * *", business_hours()])
def test_anything_else_is_refused_with_what_is_accepted(value: object) -> None:
    with pytest.raises(BadInput, match=r"datetime.*timedelta.*cron expression.*phrase") as caught:
        to_spec(value)
    assert caught.value.code == "spec.type"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("every 10ms", "spec.interval"),
        ("61 * * * *", "spec.field"),
        ("FREQ=DAILY;BYHOUR=24", "spec.rrule"),
        ("(cron 0 3 * * * in UTC) except (cron 0 3 * * * in UTC)", "spec.impossible"),
        (float("nan"), "time.finite"),
        (datetime(2026, 1, 1), "time.naive"),
    ],
)
def test_what_was_understood_and_is_wrong_says_so(value: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        to_spec(value)
    assert caught.value.code == code
