"""Ramps: a young node takes little, an older one never less than before, and off means all at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.policy.limits import claimable, shards_allowed, turns_allowed
from wakeful.values.errors import BadOption

AGES = st.lists(st.integers(-1_000, 10**12), min_size=2).map(sorted)


@given(AGES, st.integers(1, 300), st.integers(0, 100_000), st.integers(1, 256))
def test_the_claim_budget_never_falls_as_time_passes(ages: list[int], first: int, period: int, total: int) -> None:
    allowed = [shards_allowed(age, first=first, double_every_ms=period, total=total) for age in ages]
    assert all(earlier <= later for earlier, later in pairwise(allowed))
    assert all(min(first, total) <= budget <= total for budget in allowed)


def test_the_claim_budget_doubles_each_period_up_to_all() -> None:
    budgets = [shards_allowed(age, first=16, double_every_ms=1_000, total=256) for age in range(0, 6_000, 500)]
    assert budgets == [16, 16, 32, 32, 64, 64, 128, 128, 256, 256, 256, 256]
    assert shards_allowed(0, first=16, double_every_ms=0, total=256) == 256
    with pytest.raises(BadOption, match="first must be at least 1"):
        shards_allowed(0, first=0, double_every_ms=1_000, total=256)


@given(st.sets(st.integers(0, 255)), st.lists(st.integers(0, 255), unique=True), st.integers(0, 256))
def test_what_a_node_owns_already_is_never_counted_against_it(owned: set[int], wanted: list[int], allowed: int) -> None:
    claims = claimable(owned, wanted, allowed)
    lacking = [shard for shard in wanted if shard not in owned]
    assert claims == lacking[:allowed]
    assert len(claims) == min(allowed, len(lacking))


def test_claims_of_this_ramp_are_counted_when_told() -> None:
    owned = {0, 1, 2, 3}
    assert claimable(owned, range(10), 4) == [4, 5, 6, 7]
    assert claimable(owned, range(10), 4, claimed=2) == [4, 5]
    assert claimable(owned, range(10), 4, claimed=4) == []
    assert claimable(owned, range(10), 4, claimed=9) == []
    # At the end of the ramp nothing is held back, however the shards were come by.
    assert claimable(owned, range(10), 10, claimed=len(owned)) == [4, 5, 6, 7, 8, 9]


@given(AGES, st.integers(1, 2_000), st.integers(1, 2_000), st.integers(0, 100_000))
def test_slow_start_grows_from_its_initial_value_to_the_limit_and_never_above(
    ages: list[int], initial: int, limit: int, over_ms: int
) -> None:
    allowed = [turns_allowed(age, initial=initial, limit=limit, over_ms=over_ms) for age in ages]
    assert all(earlier <= later for earlier, later in pairwise(allowed))
    assert all(min(initial, limit) <= turns <= limit for turns in allowed)
    assert turns_allowed(0, initial=initial, limit=limit, over_ms=over_ms) == (
        min(initial, limit) if over_ms else limit
    )
    assert turns_allowed(over_ms, initial=initial, limit=limit, over_ms=over_ms) == limit


def test_slow_start_off_means_full_at_once() -> None:
    assert turns_allowed(0, initial=0, limit=1_000, over_ms=0) == 1_000
    assert [turns_allowed(age, initial=10, limit=110, over_ms=10_000) for age in (0, 99, 100, 5_000, 9_999, 10_000)] == [
        10, 10, 11, 60, 109, 110,
    ]  # fmt: skip


@pytest.mark.parametrize("initial", [0, -1])
def test_an_initial_value_of_zero_is_accepted_only_when_slow_start_is_off(initial: int) -> None:
    assert turns_allowed(5, initial=initial, limit=7, over_ms=0) == 7
    with pytest.raises(BadOption, match=r"slow_start_turns must be at least 1 .* slow_start_ms=0 turns slow start off"):
        turns_allowed(5, initial=initial, limit=7, over_ms=10)
