"""Which keys a listing means, against the plainest possible listing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.policy.ranges import bounds, merge, past_prefix, within
from wakeful.values.errors import BadOption, LimitExceeded

# Few letters, so that prefixes and bounds meet keys; the edges of the code space, where successors are hard.
LETTERS = st.sampled_from(["\0", "a", "b", "\x7f", "\x80", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])
KEYS = st.text(LETTERS, max_size=4)
MAYBE = st.none() | KEYS


def naive(
    keys: list[str],
    prefix: str,
    start: str | None,
    after: str | None,
    end: str | None,
    reverse: bool,
    limit: int | None,
) -> list[str]:
    found = sorted(
        (
            key
            for key in keys
            if key.startswith(prefix)
            and (start is None or key.encode() >= start.encode())
            and (after is None or key.encode() > after.encode())
            and (end is None or key.encode() < end.encode())
        ),
        key=str.encode,
        reverse=reverse,
    )
    return found[:limit]


@given(st.lists(KEYS, unique=True), KEYS, MAYBE, MAYBE, st.booleans(), MAYBE)
def test_bounds_mean_the_keys_that_a_naive_listing_means(
    keys: list[str], prefix: str, start: str | None, after: str | None, choose: bool, end: str | None
) -> None:
    start, after = (start, None) if choose else (None, after)
    first, last = bounds(prefix, start, after, end, None)
    found = sorted(key for key in keys if within(key, first, last))
    assert found == naive(keys, prefix, start, after, end, False, None)


@given(KEYS, KEYS)
def test_past_prefix_is_just_past_all_that_begin_with_it(prefix: str, key: str) -> None:
    past = past_prefix(prefix)
    if key.startswith(prefix):
        assert past is None or key < past
    elif key > prefix:
        assert past is not None
        assert key >= past
    if past is not None:
        past.encode()  # no surrogates


def test_nothing_comes_after_the_last_code_point() -> None:
    assert past_prefix("") is None
    assert past_prefix("\U0010ffff" * 3) is None
    assert past_prefix("a\U0010ffff") == "b"
    assert past_prefix("\ud7ff") == "\ue000"


@given(
    st.dictionaries(KEYS, st.binary(max_size=2)),
    st.dictionaries(KEYS, st.none() | st.binary(max_size=2)),
    st.booleans(),
    st.none() | st.integers(min_value=1, max_value=10),
)
def test_newer_writes_are_laid_over_stored_rows(
    stored: dict[str, bytes], over: dict[str, bytes | None], reverse: bool, limit: int | None
) -> None:
    rows = [(key, stored[key]) for key in sorted(stored, reverse=reverse)]
    if limit is not None:
        rows = rows[: limit + len(over)]  # as the storage asks for them
    expected = {key: value for key, value in {**stored, **over}.items() if value is not None}
    ordered = sorted(expected, reverse=reverse)[:limit]
    found = merge(rows, over, reverse=reverse, limit=limit)
    assert list(found) == ordered
    assert found == {key: expected[key] for key in ordered}


def test_start_and_start_after_together_are_refused() -> None:
    with pytest.raises(BadOption, match="not both"):
        bounds("", "a", "b", None, None)


@pytest.mark.parametrize("limit", [0, -1, 1.0, "1", True, False])
def test_a_limit_must_be_a_positive_whole_number(limit: Any) -> None:
    with pytest.raises(BadOption, match="positive whole number"):
        bounds("", None, None, None, limit)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("wrong", [1, b"x", "\ud800"])
def test_a_bound_must_be_text(place: int, wrong: Any) -> None:
    given: list[Any] = ["", None, None, None]
    given[place] = wrong
    with pytest.raises(BadOption):
        bounds(*given, None)


def test_a_bound_that_no_key_can_reach_is_refused_as_a_key_is() -> None:
    with pytest.raises(LimitExceeded):
        bounds("", "k" * 2_049, None, None, None)
    assert bounds("", None, "k" * 2_048, None, None)[0] == "k" * 2_048 + "\0"
