"""Cron against facts: the nights of many zones, the days of many years, and what Debian's own cron did."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.specs.cron_oracle import Oracle
from wakeful.specs.cron import cron
from wakeful.values.errors import BadSpec

VECTORS = Path(__file__).parents[2] / "vectors"
DST = json.loads((VECTORS / "cron_dst.json").read_text())
DAYS = json.loads((VECTORS / "cron_days.json").read_text())
DEBIAN = json.loads((VECTORS / "debian_cron.json").read_text())


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00Z").timestamp()) * 1000


@pytest.mark.parametrize(
    "case", DST, ids=lambda case: f"{case['note'][:24]} {case['expression']} {case['gap']} {case['fold']}"
)
def test_the_nights_when_clocks_change(case: dict[str, Any]) -> None:
    spec = cron(case["expression"], case["zone"], case["gap"], case["fold"])
    first, last = ms(case["first"]), ms(case["last"])
    expected = [ms(text) for text in case["expected"]]
    assert spec.between_ms(first, last, 100) == expected
    assert spec.gaps_ms(first, last) == [ms(text) for text in case["gaps"]]
    back = []
    at = spec.previous_ms(last)
    while at is not None and at >= first:
        back.append(at)
        at = spec.previous_ms(at)
    assert back[::-1] == expected


@pytest.mark.parametrize(
    "case", DST, ids=lambda case: f"{case['note'][:24]} {case['expression']} {case['gap']} {case['fold']}"
)
def test_the_oracle_says_so_too(case: dict[str, Any]) -> None:
    oracle = Oracle(case["expression"], case["zone"], case["gap"], case["fold"])
    first, last = ms(case["first"]) // 1000, ms(case["last"]) // 1000
    assert oracle.occurrences(first, last) == [ms(text) // 1000 for text in case["expected"]]
    assert oracle.gaps(first, last) == [ms(text) // 1000 for text in case["gaps"]]


def test_the_nights_are_varied() -> None:
    """Six zones and more, changes of 15, 30 and 60 minutes and of a day, and every policy."""
    assert len({case["zone"] for case in DST}) >= 12
    assert {(case["gap"], case["fold"]) for case in DST} >= {("skip", "first"), ("shift", "second"), ("shift", "both")}


@pytest.mark.parametrize("case", DAYS["next"], ids=lambda case: f"{case['expression']} after {case['after']}")
def test_days(case: dict[str, Any]) -> None:
    spec = cron(case["expression"])
    at: int | None = ms(case["after"])
    for day in case["expected"]:
        assert at is not None
        at = spec.next_ms(at)
        assert at == ms(day)
    for day in [*case["expected"][-2::-1], None]:
        assert at is not None
        at = spec.previous_ms(at)
        assert at == ms(day) if day else at is not None and at <= ms(case["after"])


@pytest.mark.parametrize("expression", DAYS["impossible"])
def test_dates_that_never_come_are_refused(expression: str) -> None:
    with pytest.raises(BadSpec, match="never happens") as caught:
        cron(expression)
    assert caught.value.code == "spec.impossible"


def minutes_of(case: dict[str, Any]) -> list[float]:
    found = cron(case["expression"], case["zone"]).between_ms(case["first"] * 1000, case["last"] * 1000, 100_000)
    return [(at / 1000 - case["first"]) / 60 for at in found]


def test_debian_cron_does_the_same() -> None:
    assert len(DEBIAN["agree"]) > 400
    wrong = [case for case in DEBIAN["agree"] if minutes_of(case) != case["minutes"]]
    assert not wrong, [f"{case['expression']} in {case['zone']} from {case['first']}" for case in wrong]


@pytest.mark.parametrize("case", DEBIAN["departures"], ids=lambda case: f"{case['zone']} {case['expression'][:20]}")
def test_where_we_depart_from_debian(case: dict[str, Any]) -> None:
    """Only where the vectors say why, and then we do what our own rules say."""
    ours = minutes_of(case)
    assert ours != case["minutes"]
    oracle = Oracle(case["expression"], case["zone"])
    assert ours == [(at - case["first"]) / 60 for at in oracle.occurrences(case["first"], case["last"])]


@pytest.mark.parametrize("expression", DEBIAN["refused_by_both"] + DEBIAN["refused_by_us_only"])
def test_what_debian_refuses_too(expression: str) -> None:
    with pytest.raises(BadSpec) as caught:
        cron(expression)
    assert caught.value.code == "spec.field"


@pytest.mark.parametrize("expression", DEBIAN["refused_by_debian_only"])
def test_what_only_we_understand(expression: str) -> None:
    assert cron(expression).next_ms(0)
