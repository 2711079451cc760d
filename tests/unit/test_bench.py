"""The benchmark's own code: every work runs at a tiny size, bars are read and judged, runs are compared."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

from bench import bars, many_nodes, one, report, results  # noqa: E402
from bench.measures import Measure, percentile  # noqa: E402
from bench.runner import Plan, steps  # noqa: E402
from bench.sizes import TINY, short_number  # noqa: E402


@pytest.mark.parametrize(
    ("work", "store"),
    [
        *[(work, store) for work in ("schedule", "fire", "jobs", "calls", "wake") for store in ("memory", "sqlite")],
        *[(work, "sqlite") for work in ("machine", "lateness", "job_lateness", "scale", "recovery", "workflows")],
    ],
)
def test_every_work_runs(work: str, store: str, tmp_path: Path) -> None:
    url = "memory:" if store == "memory" else f"sqlite:{tmp_path}/bench.db"
    measures = one.run(work, url, TINY)
    assert measures
    # What may be nothing: memory that was there before, and by how much a bare timer of uvloop is late.
    may_be_nothing = ("scale.resident", "scale.awake", "lateness.timer")
    assert all(measure.value > 0 or measure.name.startswith(may_be_nothing) for measure in measures)


async def test_a_crowd_is_counted_while_it_is_quiet_and_when_one_dies() -> None:
    crowd = await many_nodes.live_through(3)
    assert crowd.verbs["nodes"] == crowd.verbs["owners"] == pytest.approx(3.3, abs=0.2)
    assert crowd.rows == pytest.approx(3.3 * (3 + 256), rel=0.1), "a look reads each node and each shard"
    assert 0 < crowd.found_ms < 1_000
    assert crowd.death["claim"] == 2, "each of the others takes its part"


def _results(*numbers: tuple[str, str, float]) -> results.Results:
    made = results.Results("2026-01-01T00:00:00", "abc", "short", {}, {}, {})
    for subject, name, value in numbers:
        made.add(subject, "sqlite", Measure(name, value, "ms" if "late" in name else "/s"))
    return made


def test_the_table_of_bars_is_read() -> None:
    found = {(bar.measure, bar.store): bar for bar in bars.load()}
    first = found["schedule.64", "sqlite"].conditions
    assert (first[0].at_least, first[0].factor, first[0].subject) == (True, 15_000, None)
    assert (first[1].factor, first[1].subject, first[1].name) == (0.6, "raw", None)
    assert (first[2].factor, first[2].subject, first[2].name) == (20, "apscheduler", "schedule.1")
    assert not found["lateness.p99", "any"].conditions[0].at_least


def test_a_bar_that_is_not_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not a condition"):
        bars.parse("| schedule.64 | sqlite | fast enough |")


@pytest.mark.parametrize(
    ("bar", "verdict"),
    [
        ("≥ 100", "pass"),
        ("≥ 101", "FAIL"),
        ("≤ 100", "pass"),
        ("≥ 0.5 × raw", "pass"),
        ("≥ 0.6 × raw", "FAIL"),
        ("≥ 10 × huey other", "pass"),
        ("≥ 1 × dbos", "?"),
        ("≤ 2 × self other", "pass"),
    ],
)
def test_a_bar_is_judged_within_the_run(bar: str, verdict: str) -> None:
    run = _results(("wakeful", "w", 100), ("raw", "w", 200), ("huey", "other", 10), ("wakeful", "other", 50))
    [(_, found)] = bars.verdicts(bars.parse(f"| w | any | {bar} |"), run, "w", "sqlite")
    assert found == verdict


def test_numbers_are_medians_of_the_repeats() -> None:
    run = _results(("wakeful", "w", 1), ("wakeful", "w", 100), ("wakeful", "w", 3))
    assert [number.median for number in run.numbers] == [3]
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile([1, 2, 3, 4], 0.99) == 4


def test_better_is_more_for_rates_and_less_for_times() -> None:
    before, after = (
        _results(("wakeful", "w", 10), ("wakeful", "late", 4)),
        _results(("wakeful", "w", 20), ("wakeful", "late", 2)),
    )
    gains = [report.improvement(old, new) for old, new in zip(before.numbers, after.numbers, strict=True)]
    assert gains == [2, 2]
    assert report.compare(before, after).row_count == 2


def test_the_report_names_the_best_peer_and_what_was_not_measured(tmp_path: Path) -> None:
    run = _results(
        ("wakeful", "fire.rate", 900),
        ("huey", "fire.rate", 300),
        ("dbos", "fire.rate", 100),
        ("raw", "fire.rate", 1000),
    )
    run.failures.append(results.Failure("pgqueuer", "peer:pgqueuer", "postgres", "not installed"))
    page = report.markdown(run)
    assert (
        "| fire.rate | sqlite | 900/s |  | 1,000/s | 90% | huey 300/s | 3.0 | FAIL ≥ 8,000<br>pass ≥ 3 × huey |" in page
    )
    assert "- pgqueuer peer:pgqueuer on postgres: not installed" in page
    results.write(run, tmp_path / "a.json")
    assert results.read(tmp_path / "a.json") == run


def test_long_works_run_once_in_the_short_form() -> None:
    def count(plan: Plan, work: str) -> int:
        return sum(step.work == work for step in steps(plan))

    plan = Plan(stores=("sqlite",), peers=False)
    assert (count(plan, "fire"), count(plan, "machine"), count(plan, "scale")) == (3, 3, 1)
    assert count(plan._replace(repeat=2), "scale") == 2


def test_some_works_need_several_nodes_or_minutes() -> None:
    def stores(plan: Plan, work: str) -> list[str]:
        return [step.store for step in steps(plan) if step.work == work]

    short = Plan(peers=False, repeat=1)
    assert stores(short, "cluster") == ["postgres"]
    assert stores(short, "million") == []
    assert stores(short._replace(works=("million",)), "million") == ["sqlite", "postgres"]
    assert stores(short._replace(form="full"), "million") == ["sqlite", "postgres"]


def test_numbers_have_short_names() -> None:
    assert short_number(1_000_000) == "1M"
    assert short_number(20_000) == "20k"
    assert short_number(1_500) == "1500"
