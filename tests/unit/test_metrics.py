"""What is counted: plain numbers, bounded families, and what a commit adds to them."""

import pytest

from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId
from wakeful.values.metrics import LATENESS_MS, OTHER, Counter, Family, Gauge, Histogram, Meter, counters
from wakeful.values.timers import Entry, Parked, Timer, Verdict

ID = ObjectId("A", "k")


def entry(name: str = "alarm", verdict: Verdict = "run", covers: int = 1) -> Entry:
    return Entry(
        id=ID, name=name, run_id="r", nominal_at=1, fired_at=1, finished_at=1, attempt=0, verdict=verdict, node="n",
        covers=covers,
    )  # fmt: skip


def commit(*entries: Entry, parks: int = 0) -> Commit:
    parked = [Parked(Timer(ID, "alarm", 1, 1, 1), "r", 1, 1, "failed", "e", "t")] * parks
    return Commit(id=ID, shard=0, epoch=1, now=1, entries=list(entries), parks=parked)


def test_a_counter_rises_and_a_gauge_is_set() -> None:
    counter, gauge = Counter(), Gauge()
    counter.add()
    counter.add(3)
    gauge.set(5)
    gauge.add(-2)
    assert (counter.value, gauge.value) == (4, 3)


def test_a_histogram_counts_each_value_in_the_first_bucket_that_holds_it() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (-7, 0, 1, 2, 3, 5, 6, 1_000):
        histogram.add(value)
    assert histogram.counts == [3, 1, 2, 2]
    assert (histogram.count, histogram.sum) == (8, 1_017)


def test_a_percentile_is_the_bound_that_it_did_not_pass() -> None:
    histogram = Histogram((1, 2, 5))
    assert histogram.percentile(50) is None
    for value in (0, 2, 2, 9):
        histogram.add(value)
    assert [histogram.percentile(part) for part in (25, 26, 75, 99)] == [1, 2, 2, 5]


def test_bounds_rise() -> None:
    assert list(LATENESS_MS) == sorted(set(LATENESS_MS))


def test_a_family_holds_no_more_than_it_may_and_one_for_all_others() -> None:
    family = Family(Counter, "class", most=3)
    for number in range(10):
        family.of(f"C{number}").add()
    family.of("C1").add()
    assert {labels: one.value for labels, one in family.items()} == {
        ("C0",): 1, ("C1",): 2, ("C2",): 1, (OTHER,): 7,
    }  # fmt: skip


def test_a_family_wants_all_its_labels() -> None:
    with pytest.raises(ValueError, match="labels"):
        counters("method", "status").of("GET")


def test_what_a_commit_says_of_runs_is_counted_by_kind_and_verdict() -> None:
    meter = Meter(lambda: 0)
    meter.wrote(commit(entry(), entry("job:work:1"), entry("schedule:nightly", "skipped", covers=12)))
    meter.wrote(commit(entry("job:work:2", "failed")))
    found = {labels: one.value for labels, one in meter.runs.items()}
    assert found == {("alarm", "run"): 1, ("job", "run"): 1, ("schedule", "skipped"): 12, ("job", "failed"): 1}
    assert (meter.retries.value, meter.parked.value) == (1, 0)


def test_an_attempt_that_is_parked_is_no_retry() -> None:
    meter = Meter(lambda: 0)
    meter.wrote(commit(entry(verdict="failed")))
    meter.wrote(commit(entry(verdict="failed"), parks=1))
    assert (meter.retries.value, meter.parked.value) == (1, 1)


def test_waiting_for_a_slot_is_measured_by_the_stopwatch() -> None:
    now = iter([5_000_000])
    meter = Meter(lambda: next(now))
    assert meter.add_wait(2_000_000) == 5_000_000
    assert (meter.slot_waits.count, meter.slot_waits.sum) == (1, 3_000)
