"""Zones by name, their offsets, and the instants of a local time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.specs.cron import cron
from wakeful.specs.zones import check_fold, check_gap, instants_of, spans_of, zone_of
from wakeful.values.errors import BadOption, BadSpec

NAMES = sorted(available_timezones() - {"localtime", "Factory"})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("europe/paris", "did you mean 'Europe/Paris'?"),
        ("Paris", "did you mean 'Europe/Paris'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("Europe/Pariss", "'Europe/Paris'"),
        ("Amerika/New_York", "'America/New_York'"),
        ("Europe", "is not known"),
        ("", "use an IANA name such as 'Europe/Paris' or 'UTC'"),
        ("../../etc/passwd", "is not known"),
        ("\0", "is not known"),
        ("x" * 5000, "is not known"),
        ("right/Europe/Paris", "is not an IANA name"),
        ("localtime", "is not an IANA name"),
        (None, "give an IANA name"),
        (5, "give an IANA name"),
    ],
)
def test_an_unknown_zone_names_the_nearest(name: object, words: str) -> None:
    with pytest.raises(BadSpec) as caught:
        zone_of(name)  # type: ignore[arg-type]
    assert caught.value.code == "spec.zone"
    assert words in caught.value.message
    assert len(caught.value.message) < 300


def test_a_zone_is_made_once() -> None:
    assert zone_of("Europe/Paris") is zone_of("Europe/Paris")
    assert zone_of("Europe/Paris").key == "Europe/Paris"
    assert spans_of(zone_of("Europe/Paris")) is spans_of(zone_of("Europe/Paris"))


def test_policies() -> None:
    assert [check_gap("shift"), check_gap("skip")] == ["shift", "skip"]
    assert [check_fold("first"), check_fold("second"), check_fold("both")] == ["first", "second", "both"]
    for wrong in ("", None, 0, [], "First"):
        with pytest.raises(BadOption, match="is not one of 'shift', 'skip'"):
            check_gap(wrong)
        with pytest.raises(BadOption, match="is not one of 'first', 'second', 'both'"):
            check_fold(wrong)


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("local", "zone", "gap", "fold", "expected"),
    [
        (datetime(2025, 6, 1, 9), "Europe/Berlin", "skip", "first", (at(2025, 6, 1, 7),)),
        (datetime(2025, 6, 1, 9, 0, 0, 250_900), "UTC", "skip", "first", (at(2025, 6, 1, 9) + 250,)),
        (datetime(2025, 3, 30, 2), "Europe/Berlin", "shift", "first", (at(2025, 3, 30, 1),)),
        (datetime(2025, 3, 30, 2, 59, 59, 999_000), "Europe/Berlin", "shift", "first", (at(2025, 3, 30, 1),)),
        (datetime(2025, 3, 30, 2, 30), "Europe/Berlin", "skip", "both", ()),
        (datetime(2025, 3, 30, 3), "Europe/Berlin", "skip", "first", (at(2025, 3, 30, 1),)),
        (datetime(2025, 3, 30, 1, 59, 59), "Europe/Berlin", "skip", "first", (at(2025, 3, 30, 0, 59, 59),)),
        (datetime(2025, 10, 26, 2), "Europe/Berlin", "shift", "first", (at(2025, 10, 26, 0),)),
        (datetime(2025, 10, 26, 2), "Europe/Berlin", "shift", "second", (at(2025, 10, 26, 1),)),
        (datetime(2025, 10, 26, 2), "Europe/Berlin", "shift", "both", (at(2025, 10, 26, 0), at(2025, 10, 26, 1))),
        (datetime(2025, 10, 26, 3), "Europe/Berlin", "shift", "both", (at(2025, 10, 26, 2),)),
        (datetime(2011, 12, 30, 9), "Pacific/Apia", "shift", "first", (at(2011, 12, 30, 10),)),
        (datetime(2011, 12, 30, 9), "Pacific/Apia", "skip", "first", ()),
        (
            datetime(2025, 4, 6, 1, 45),
            "Australia/Lord_Howe",
            "skip",
            "both",
            (at(2025, 4, 5, 14, 45), at(2025, 4, 5, 15, 15)),
        ),
    ],
)
def test_instants_of_a_local_time(local: datetime, zone: str, gap: str, fold: str, expected: tuple[int, ...]) -> None:
    assert instants_of(local, zone_of(zone), gap, fold) == expected  # type: ignore[arg-type]


@settings(max_examples=400)
@given(st.sampled_from(NAMES), st.datetimes(datetime(1840, 1, 1), datetime(2300, 1, 1)), st.booleans())
def test_instants_agree_with_zoneinfo(name: str, local: datetime, near: bool) -> None:
    zone = ZoneInfo(name)
    local = local.replace(microsecond=0)
    if near:  # as near to a change as we can get: a binary search towards one in the following year
        low, high = local, local + timedelta(days=200)
        while high - low > timedelta(minutes=20):
            middle = low + (high - low) / 2
            changed = middle.replace(tzinfo=zone).utcoffset() != low.replace(tzinfo=zone).utcoffset()
            low, high = (low, middle) if changed else (middle, high)
        local = low.replace(microsecond=0)
    passes = sorted({local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)})
    passes = [one for one in passes if one.astimezone(zone).replace(tzinfo=None) == local]
    expected = tuple(int(one.timestamp()) * 1000 for one in passes)
    assert instants_of(local, zone, "skip", "both") == expected
    assert instants_of(local, zone, "skip", "first") == expected[:1]
    assert instants_of(local, zone, "skip", "second") == expected[-1:]
    if not expected:
        (shifted,) = instants_of(local, zone, "shift", "first")
        before, after = (datetime.fromtimestamp(shifted / 1000 - one, zone).replace(tzinfo=None) for one in (1, 0))
        assert before < local < after


@pytest.mark.parametrize("part", range(8))
def test_no_change_of_any_zone_is_missed(part: int) -> None:
    """Every six hours from 1840 to 2100 would take minutes; every zone in the years of its densest changes does not."""
    for name in NAMES[part::8]:
        zone = ZoneInfo(name)
        spans = spans_of(zone)
        for year in (1916, 1939, 1945, 1968 + part, 2000, 2011, 2026):
            start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
            second, changes = start, 0
            while second < start + 366 * 86_400:
                first, end, offset, before, after = spans.at(second)
                assert first <= second < end
                for probe in range(second, end, 36 * 3600):
                    assert datetime.fromtimestamp(probe, zone).utcoffset() == timedelta(seconds=offset), (name, probe)
                assert datetime.fromtimestamp(end - 1, zone).utcoffset() == timedelta(seconds=offset)
                assert datetime.fromtimestamp(end, zone).utcoffset() == timedelta(seconds=after)
                assert datetime.fromtimestamp(first - 1, zone).utcoffset() == timedelta(seconds=before)
                changes += after != offset
                second = end
            assert changes < 12


def test_a_fold_at_the_edge_of_a_piece_is_still_a_fold() -> None:
    """Offsets are learned piece by piece: this one's edge lies inside the hour that Troll repeats."""
    job = cron("50 2 * * *", zone="Antarctica/Troll")
    found = job.between(datetime(2046, 10, 27, tzinfo=UTC), datetime(2046, 10, 30, tzinfo=UTC))
    assert [at.date().day for at in found] == [27, 28, 29]
    assert job.previous_before(found[2]) == found[1]


@pytest.mark.parametrize("name", ["Antarctica/Troll", "Australia/Adelaide", "Europe/Berlin", "Australia/Lord_Howe"])
def test_spans_meet_at_the_changes_and_know_both_sides_wherever_a_piece_ends(name: str) -> None:
    spans = spans_of(zone_of(name))
    for edge in range(1_400_000_000 >> 22, 2_500_000_000 >> 22):
        for second in (edge << 22, (edge << 22) - 1):
            start, end, offset, before, after = spans.at(second)
            assert start <= second < end
            near = 2 * 86_400
            if second - start < near:
                assert spans.at(start - 1)[2] == before
            if end - second < near:
                assert spans.at(end)[2] == after
            assert all(spans.at(at)[2] == offset for at in (max(start, second - near), min(end - 1, second + near)))
