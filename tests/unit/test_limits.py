"""Limits: each is named, says by how much it was passed, and refuses nonsense when it is set."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import Limits
from wakeful.logic.limits import (
    STORAGE_KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    check_count,
    check_storage_key,
    check_value_size,
)
from wakeful.values.errors import BadOption, LimitExceeded


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None, True])
def test_every_limit_refuses_what_is_not_a_whole_number_from_one(name: str, value: Any) -> None:
    with pytest.raises(BadOption, match=rf"limit {name} must be a whole number from 1, not"):
        replace(Limits(), **{name: value})
    assert getattr(replace(Limits(), **{name: 1}), name) == 1


def test_the_promised_defaults() -> None:
    limits = Limits()
    assert limits.alarm_deadline_ms == 15 * 60_000
    assert limits.request_keep_ms == 24 * 3_600_000
    assert (STORAGE_KEY_BYTES_MAX, VALUE_BYTES_MAX) == (2 * 1024, 2 * 1024 * 1024)


@given(st.text(max_size=3_000))
def test_a_storage_key_is_judged_by_its_bytes(key: str) -> None:
    size = len(key.encode())
    if size <= STORAGE_KEY_BYTES_MAX:
        assert check_storage_key(key) is key
    else:
        with pytest.raises(LimitExceeded, match=f"{size} bytes, {size - STORAGE_KEY_BYTES_MAX} more"):
            check_storage_key(key)


@pytest.mark.parametrize("char", ["k", "é", "я", "😀"])
def test_the_longest_storage_key_is_taken_and_one_byte_more_is_not(char: str) -> None:
    longest = char * (STORAGE_KEY_BYTES_MAX // len(char.encode()))
    longest += "k" * (STORAGE_KEY_BYTES_MAX - len(longest.encode()))
    assert check_storage_key(longest) == longest
    with pytest.raises(LimitExceeded, match="2049 bytes, 1 more than the limit of 2048"):
        check_storage_key(longest + "k")


@pytest.mark.parametrize("key", [None, 1, b"k", ["k"], "\ud800", "\udfff" * 600])
def test_a_storage_key_must_be_text(key: Any) -> None:
    with pytest.raises(BadOption):
        check_storage_key(key)


def test_a_subclass_of_str_is_no_key() -> None:
    class Text(str):
        pass

    with pytest.raises(BadOption, match="must be text, not Text"):
        check_storage_key(Text("k"))


def test_a_value_too_large_says_which_and_by_how_much_and_what_to_do() -> None:
    check_value_size("k", VALUE_BYTES_MAX)
    with pytest.raises(LimitExceeded, match=r"value of 'k' .* 5 more than the limit of 2097152; split it"):
        check_value_size("k", VALUE_BYTES_MAX + 5)


def test_too_many_at_once_says_by_how_much() -> None:
    check_count("put_many", 10, 10)
    with pytest.raises(LimitExceeded, match="put_many: 12 in one call, 2 more than the limit of 10"):
        check_count("put_many", 12, 10)
