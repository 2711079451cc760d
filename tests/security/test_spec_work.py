"""One look at a spec takes a bounded number of steps, whoever wrote it; and nothing that is kept is jumped over."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.garbage import without_collections
from wakeful.specs import combine
from wakeful.specs.build import any_of, to_spec
from wakeful.specs.combine import ExceptFor
from wakeful.specs.cron import cron
from wakeful.specs.interval import interval
from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec
from wakeful.values.errors import BadInput, BadSpec
from wakeful.values.times import from_datetime

NOW = from_datetime(datetime(2026, 9, 21, 13, 46, 40, tzinfo=UTC))
DAY = 86_400_000


def looked_at(text: str) -> tuple[float, Any]:
    """The CPU time of all that a request may do with a text, and what came of it."""
    with without_collections():
        begun = time.thread_time()
        try:
            spec = to_spec(text).bind(added_at=NOW, seed="x", zone="UTC")
            found: Any = spec.next_ms(NOW), spec.previous_ms(NOW)
        except BadInput as error:
            found = error
        return time.thread_time() - begun, found


HOSTILE = [
    "(cron * * * * * *) except (every 1s)",
    "(cron * * * * * *) except (rrule FREQ=SECONDLY from 2026-01-01T00:00:00 in UTC)",
    "((cron * * * * * *) except (rrule FREQ=SECONDLY from 2026-01-01T00:00:00 in UTC)) except "
    "((cron * * * * * *) except (rrule FREQ=SECONDLY;INTERVAL=7 from 2026-01-01T00:00:00 in UTC))",
    "rrule FREQ=SECONDLY;INTERVAL=86399;BYHOUR=0;BYMINUTE=0;BYSECOND=0 from 2026-01-02T03:04:05 in UTC",
    "rrule FREQ=SECONDLY;INTERVAL=86399;COUNT=10000;BYHOUR=0,1 from 2026-01-01T00:00:00 in Europe/Paris",
    "rrule FREQ=SECONDLY from 2026-01-01T00:00:00 in UTC exdate=20260921,20260922,20260923",
    "(" * 20_000 + ")" * 20_000,
    "(cron 0 9 * * *) or " * 5_000 + "(cron 0 9 * * *)",
    '("' + '\\"' * 200_000,
    " or ".join(f"(every {number}s)" for number in range(1, 3_000)),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_look_is_short(text: str) -> None:
    took, found = looked_at(text)
    assert took < 1, found  # before: from 0.4 to 37 s, or quadratic
    if isinstance(found, BadInput):
        assert found.code in ("spec.work", "spec.impossible", "spec.text", "spec.depth", "spec.parts")


def test_what_leaves_out_too_much_is_refused_when_it_is_added() -> None:
    spec = to_spec("(cron * * * * * *) except (rrule FREQ=SECONDLY from 2026-01-01T00:00:00 in UTC)")
    with pytest.raises(BadSpec, match=r"leaves out each of the next 10000 times.*use a calendar") as caught:
        spec.bind(added_at=NOW, seed="x", zone="UTC")
    assert caught.value.code == "spec.impossible"
    assert spec.next_ms(NOW) is None


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("(cron * * * * * *) except (cron * * * * * 0,6)", 1_000),
        ("(cron * * * * *) except (cron * * * 8,9 *)", from_datetime(datetime(2026, 10, 1, tzinfo=UTC)) - NOW),
        ("(every 1s from 1970-01-01T00:00:00+00:00) except (cron * * 0-22 * * *)", 33_200_000),
        ("(cron * * * * *) except ((cron * 13-20 * * *) or (cron * 21,22 * * *))", 33_200_000),
    ],
)
def test_what_is_left_out_without_a_hole_is_jumped_over(text: str, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sane ones, which took up to 172,800 steps."""
    monkeypatch.setattr(combine, "STEPS_MAX", 100)
    assert to_spec(text).bind(added_at=NOW, seed="x", zone="UTC").next_ms(NOW) == NOW + after


ZONES = st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kolkata"])
FIELD = st.sampled_from(["*", "0", "*/7", "0-30", "5,50", "0-59"])
HOUR = st.sampled_from(["*", "2", "1-3", "0-23", "*/2"])
DAYS = st.sampled_from(["* * *", "* * 0", "29 3 *", "28-31 * *", "* 3 6,0"])
CRONS = st.builds(lambda s, m, h, d, zone: cron(f"{s} {m} {h} {d}", zone), FIELD, FIELD, HOUR, DAYS, ZONES)
OUT = CRONS | st.builds(any_of, CRONS, CRONS) | st.sampled_from([interval("1s"), interval("1m"), interval("7s")])
TIMES = st.integers(
    from_datetime(datetime(2026, 3, 28, 20, tzinfo=UTC)), from_datetime(datetime(2026, 3, 29, 20, tzinfo=UTC))
)


@settings(max_examples=25)
@given(CRONS | st.sampled_from([interval("30s"), interval("1500ms")]), OUT, TIMES)
def test_jumping_finds_what_walking_finds(spec: Spec, out: Spec, at: int) -> None:
    found = ExceptFor(spec, (out,))
    walk, steps = spec.next_ms(at), 0
    while walk is not None and out.next_ms(walk - 1) == walk and steps < 1_000:
        walk, steps = spec.next_ms(walk), steps + 1
    if steps < 1_000:
        assert found.next_ms(at) == walk
    elif (jumped := found.next_ms(at)) is not None:
        assert walk is None or jumped >= walk
    back, steps = spec.previous_ms(at), 0
    while back is not None and out.next_ms(back - 1) == back and steps < 1_000:
        back, steps = spec.previous_ms(back), steps + 1
    if steps < 1_000:
        assert found.previous_ms(at) == back


def test_days_that_are_left_out_of_a_rule_are_jumped_over() -> None:
    rule = parse_spec("rrule FREQ=SECONDLY from 2026-01-01T00:00:00 in Europe/Paris exdate=20260921,20260922")
    night = from_datetime(datetime(2026, 9, 22, 22, tzinfo=UTC))
    assert rule.next_ms(NOW) == night
    assert rule.previous_ms(NOW) == from_datetime(datetime(2026, 9, 20, 21, 59, 59, tzinfo=UTC))


def test_a_count_that_is_left_out_is_counted_with_steps_of_its_own() -> None:
    """Else the first look would spend them all, and so would every later one: what was counted was not kept."""
    spec = to_spec("(every 1h) except (rrule FREQ=DAILY;COUNT=9000 from 2026-01-01T09:00:00 in Europe/Paris)")
    assert spec.bind(added_at=NOW, seed="x", zone="UTC").next_ms(NOW) is not None


def test_few_rules_are_counted_out_in_one_spec() -> None:
    rules = [f"(rrule FREQ=DAILY;COUNT={number} from 2026-01-01T09:00:00 in UTC)" for number in range(100, 111)]
    assert to_spec(" or ".join(rules[:10])).next_ms(NOW) is None
    for text in (" or ".join(rules), f"(every 1h) except {', '.join(rules)}"):
        with pytest.raises(BadSpec, match="11 rules with COUNT") as caught:
            to_spec(text)
        assert caught.value.code == "spec.work"
