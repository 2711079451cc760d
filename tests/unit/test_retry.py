"""When a failed alarm is tried again, and when it is given up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.logic.retry import CRASHES_MAX, alarm_delay_ms, platform_delay_ms

ROLLS = st.floats(min_value=0, max_value=1, exclude_max=True)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64)])
def test_the_wait_doubles_from_two_seconds(failures: int, seconds: int) -> None:
    assert alarm_delay_ms(failures, 0.0) == seconds * 1_000


@given(st.integers(min_value=1, max_value=6), ROLLS)
def test_jitter_adds_at_most_a_quarter(failures: int, roll: float) -> None:
    delay = alarm_delay_ms(failures, roll)
    assert delay is not None
    assert 2_000 * 2 ** (failures - 1) <= delay <= 2_500 * 2 ** (failures - 1)


@given(st.integers(min_value=7), ROLLS)
def test_after_the_sixth_retry_there_is_no_other(failures: int, roll: float) -> None:
    assert alarm_delay_ms(failures, roll) is None


@given(st.integers(min_value=0, max_value=10_000), ROLLS)
def test_failures_of_ours_wait_a_little_at_first_and_five_seconds_at_most(tries: int, roll: float) -> None:
    assert 37 <= platform_delay_ms(tries, roll) <= 5_000
    assert platform_delay_ms(0, roll) <= 50


def test_three_deaths_are_the_end() -> None:
    assert CRASHES_MAX == 3
