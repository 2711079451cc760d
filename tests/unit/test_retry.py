"""When a failed alarm is tried again, and when it is given up."""

import asyncio  # noqa: F401  (a home of an error)
import json
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.policy.retry import CRASHES_MAX, RetryPolicy, alarm_delay_ms, fixed, platform_delay_ms
from wakeful.values.codec import look_in
from wakeful.values.errors import BadOption

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


class Declined(Exception):
    pass


def is_retried(on: Any, error: BaseException) -> bool:
    return RetryPolicy(max_attempts=3, backoff=fixed("1s"), on=on).delay_ms(1, error, 0.0) is not None


def test_errors_are_matched_by_class_by_full_name_and_pythons_own_by_their_name_alone() -> None:
    assert is_retried(Declined, Declined())
    assert is_retried((f"{__name__}.Declined",), Declined())
    assert is_retried("ValueError", ValueError())
    assert is_retried(("builtins.ValueError",), ValueError())
    assert is_retried("OSError", ConnectionResetError())
    assert not is_retried(("ValueError",), KeyError())
    assert not is_retried("shop.Declined", Declined())


@pytest.mark.parametrize("name", ["Declined", "print", "int", "", ".", ".Declined", "valueerror"])
def test_a_name_that_can_match_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="give the class, or its full name"):
        RetryPolicy(on=(ValueError, name))


def test_a_group_is_tried_again_if_each_error_in_it_is_worth_it() -> None:
    inner = ExceptionGroup("inner", [TimeoutError()])
    assert is_retried((Declined, TimeoutError), ExceptionGroup("all", [Declined(), inner]))
    assert not is_retried((Declined,), ExceptionGroup("some", [Declined(), inner]))
    assert is_retried((ExceptionGroup,), inner)


def test_an_error_of_a_script_is_known_when_the_script_is_imported_and_the_other_way_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_in(__name__)  # as a registered class of this module does
    assert is_retried(("__main__.Declined",), Declined())
    assert not is_retried(("__main__.Other",), Declined())
    foreign = type("Declined", (Exception,), {"__module__": "elsewhere"})
    assert not is_retried(("__main__.Declined",), foreign())

    script = ModuleType("__main__")
    script.__file__ = "/srv/bill.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    own = type("Declined", (Exception,), {"__module__": "__main__"})
    assert is_retried(("bill.Declined",), own())
    assert is_retried(("shop.bill.Declined",), own())
    assert not is_retried(("requests.Declined",), own())


@pytest.mark.parametrize("name", ["json.JSONDecodeError", "asyncio.TimeoutError"])
def test_an_error_may_be_named_by_any_of_its_homes(name: str) -> None:
    kind = json.JSONDecodeError("x", "", 0) if "JSON" in name else TimeoutError()
    assert RetryPolicy(3, fixed("1s"), on=name).delay_ms(1, kind, 0.0) is not None
    assert RetryPolicy(3, fixed("1s"), on=name).delay_ms(1, KeyError(), 0.0) is None
