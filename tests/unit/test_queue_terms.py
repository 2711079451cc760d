"""What a queue may let go: a rate holds in every stretch of its time, and is used up."""

import random

import pytest

from wakeful.policy.queue_terms import MARKS_MAX, Rate, Starts, add_start, opens_at, parse_rate


@pytest.mark.parametrize("text", ["5/s", "100/m", "1000/h", "10/d", "3/10s", "7/1500ms"])
def test_a_rate_is_said_as_it_is_read(text: str) -> None:
    rate = parse_rate("rate", text)
    assert rate is not None
    assert parse_rate("rate", str(rate)) == rate


@pytest.mark.parametrize("seed", range(20))
def test_no_stretch_has_more_starts_and_what_is_held_back_is_little(seed: int) -> None:
    dice = random.Random(seed)
    rate = Rate(dice.choice([1, 2, 31, 33, 100]), dice.choice([10, 1_000, 60_000]))
    now, starts, begun = 0, Starts(), list[int]()
    for _ in range(500):
        opens = opens_at(rate, starts, now)
        assert not opens or now < opens <= now + rate.period_ms
        now = max(now, opens) if dice.random() < 0.7 else now + dice.randrange(rate.period_ms // 4 + 1)
        if opens_at(rate, starts, now):
            continue
        starts = add_start(rate, starts, now)
        begun.append(now)
        assert len(starts) <= MARKS_MAX
    assert all(late - early >= rate.period_ms for early, late in zip(begun, begun[rate.count :], strict=False))


def test_as_many_go_as_may_when_all_want() -> None:
    rate, now, starts, count = Rate(100, 60_000), 0, Starts(), 0
    while now < 600_000:
        if opens := opens_at(rate, starts, now):
            now = opens
            continue
        starts, count = add_start(rate, starts, now), count + 1
    assert count == 1_000


def test_a_clock_that_was_set_back_holds_up_nobody_for_longer_than_a_period() -> None:
    rate = Rate(1, 1_000)
    starts = add_start(rate, (), 5_000_000)
    assert opens_at(rate, starts, 1_000_000) == 1_001_000
