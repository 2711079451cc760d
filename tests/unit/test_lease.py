"""What follows from a lease, and what is kept of its renewals."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful.policy.lease import BEAT_MS, LEASE_MAX_MS, LEASE_MIN_MS, LEASE_MS, USUAL, Lease, Rhythm, lease_of
from wakeful.runtime.membership import KEPT_MS, PART_MS, Renewals
from wakeful.store import open_url
from wakeful.store.sealed_store import with_keys
from wakeful.testing.faults import Faults, FaultyStore
from wakeful.testing.timewarp import Timewarp
from wakeful.transport.pulse import Pace
from wakeful.values.errors import BadOption, BadTime
from wakeful.values.seals import KeyRing


def test_the_usual_lease_has_the_intervals_that_were_measured_with_it() -> None:
    usual = Lease()
    assert (usual.ms, usual.renew_ms, usual.slow_ms, usual.settle_ms, usual.forget_ms) == (
        5_000,
        1_500,
        1_000,
        3_000,
        60_000,
    )
    assert (usual.lock_wait_ms, usual.known_ms, usual.beats) == (2_000, 6_500, 8)
    assert Pace() == (500, 8, True)


@pytest.mark.parametrize("ms", [LEASE_MIN_MS, 3_333, LEASE_MS, 17_001, LEASE_MAX_MS])
def test_whatever_it_is_the_rest_fits_into_it(ms: int) -> None:
    lease = Lease(ms)
    assert 3 * lease.renew_ms < lease.ms, "two renewals may fail"
    assert lease.renew_ms <= 1_500, "with it the clock is measured, by which timers begin"
    assert lease.lock_wait_ms + lease.renew_ms < lease.ms, "one that waits for the lock is in time"
    assert lease.slow_ms < lease.settle_ms < lease.ms
    assert BEAT_MS * lease.beats < lease.ms, "a link that is cut is noticed before its node is given up"
    assert lease.forget_ms > lease.known_ms > lease.ms


def test_a_store_where_looks_cost_has_a_rhythm_of_its_own() -> None:
    slow = Rhythm(lease_ms=15_000, round_ms=2_000)
    usual = lease_of(None, slow)
    assert (usual.ms, usual.renew_ms, usual.round_ms) == (15_000, 4_500, 2_000)
    assert 3 * usual.renew_ms < usual.ms, "two renewals may fail"
    short = lease_of("5s", slow)
    assert (short.ms, short.renew_ms, short.round_ms) == (5_000, 1_500, 750), "what is asked for is kept with"
    assert (Lease().round_ms, Lease(2_000).round_ms) == (300, 300)
    with pytest.raises(BadOption, match="usually 15s"):
        lease_of("1s", slow)


@pytest.mark.parametrize(
    ("url", "rhythm"),
    [
        ("memory:", USUAL),
        ("sqlite:a.db", USUAL),
        ("postgresql://one/a", USUAL),
        ("bucket:a", Rhythm(lease_ms=15_000, round_ms=2_000)),
    ],
)
def test_the_rhythm_of_each_store_is_kept_by_what_is_around_it(url: str, rhythm: Rhythm, tmp_path: Path) -> None:
    """A store made from another kind of store once had the other's: lookups that cost seven times as much."""
    store = open_url(url.replace(":a", f":{tmp_path}/a"))
    assert store.rhythm == rhythm
    layers = (
        with_keys(store, None),
        with_keys(store, KeyRing([bytes(32)], bytes)),
        FaultyStore(store, Faults(), Timewarp(0)),
    )
    for layer in layers:
        assert (layer.rhythm, layer.needs_looks) == (rhythm, url == "bucket:a")


@pytest.mark.parametrize(
    ("given", "ms"), [("2s", 2_000), (60, 60_000), (timedelta(seconds=7.5), 7_500), (None, 5_000), ("5000ms", 5_000)]
)
def test_lengths_that_it_may_have(given: Any, ms: int) -> None:
    assert lease_of(given).ms == ms


@pytest.mark.parametrize("given", ["1s", 61, 0, "1999ms", 60.001])
def test_one_that_is_too_short_or_too_long_names_the_bounds(given: Any) -> None:
    with pytest.raises(BadOption, match="from 2s to 60s") as raised:
        lease_of(given)
    assert raised.value.code == "lease.option"


def test_what_is_no_length_is_refused_as_elsewhere() -> None:
    for given in ("soon", True, b"5s", -5):
        with pytest.raises(BadTime):
            lease_of(given)  # type: ignore[arg-type]


def test_the_worst_of_an_hour_is_kept_and_not_longer() -> None:
    kept = Renewals(Lease(10_000))
    now = 1_000_000
    kept.add(0, now, trip_us=9_000_000)  # entered: there was nothing to renew
    assert kept.summary(now + 10_000, now)["slack_ms"] == 10_000
    kept.add(now + 1_500, now, trip_us=400)
    for _ in range(3_600 // 3):
        now += 3_000
        kept.add(now + 7_000, now, trip_us=500)
    said = kept.summary(now + 10_000, now)
    assert (said["slack_ms"], said["trip_us"], said["lease_ms"]) == (1_500, 9_000_000, 10_000)
    assert kept.slack_ms(now + 10_000, now, 300_000) == 7_000
    now += 2 * PART_MS
    kept.add(now + 6_000, now, trip_us=500)
    said = kept.summary(now + 10_000, now)
    assert (said["slack_ms"], said["trip_us"]) == (6_000, 500)
    assert len(kept._parts) <= KEPT_MS // PART_MS + 1


def test_a_renewal_that_is_waited_for_counts_before_it_is_there() -> None:
    kept = Renewals(Lease(10_000))
    kept.add(0, 0, trip_us=1)
    assert kept.slack_ms(10_000, 1_400) == 10_000, "it is not late"
    assert kept.slack_ms(10_000, 9_000) == 1_000
    assert kept.slack_ms(10_000, 14_000) == -4_000


def test_a_clock_that_was_set_back_breaks_nothing() -> None:
    kept = Renewals(Lease())
    for now in (10**12, 10**12 + 1, 10**9, 10**12 + 2):
        kept.add(now + 3_500, now, trip_us=1)
    assert kept.slack_ms(10**9 + 5_000, 10**9) == 3_500


def test_a_renewal_that_failed_says_how_long_the_store_took() -> None:
    renewals = Renewals(Lease())
    renewals.add(0, 1_000, trip_us=300)
    renewals.failed(31_000, trip_us=30_000_000)
    renewals.add(6_000, 79_000, trip_us=400)
    said = renewals.summary(84_000, 79_000)
    assert (said["trip_us"], said["slack_ms"], said["renewals"]) == (30_000_000, -73_000, 2)
