"""Limits: each is named, says by how much it was passed, and refuses nonsense when it is set."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import Limits
from wakeful.policy.limits import (
    STORAGE_KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    check_count,
    check_storage_key,
    check_value_size,
)
from wakeful.values.errors import BadName, BadOption, LimitExceeded

SPECIAL = {"class_turns", "processes", "tenant_turns", "turns_of", "slow_start_turns", "slow_start_ms"}


@pytest.mark.parametrize("name", [field.name for field in fields(Limits) if field.name not in SPECIAL])
@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None, True])
def test_every_limit_refuses_what_is_not_a_whole_number_from_one(name: str, value: Any) -> None:
    one: dict[str, Any] = {name: 1}
    with pytest.raises(BadOption, match=rf"limit {name} must be a whole number from 1, not"):
        replace(Limits(), **{name: value})
    assert getattr(replace(Limits(), **one), name) == 1


@pytest.mark.parametrize("name", ["class_turns", "processes", "tenant_turns"])
def test_a_bound_that_may_be_missing_is_none_or_a_whole_number_from_one(name: str) -> None:
    change: dict[str, Any] = {name: 3}
    assert getattr(Limits(), name) is None
    assert getattr(replace(Limits(), **change), name) == 3
    for value in (0, -1, 1.5, "3", True):
        change[name] = value
        with pytest.raises(BadOption, match=rf"limit {name} must be a whole number from 1, not"):
            replace(Limits(), **change)


def test_turns_of_a_class_are_whole_numbers_by_the_name_of_a_class() -> None:
    assert Limits(turns_of={"Mailer": 3}).turns_of == {"Mailer": 3}
    nonsense: Any
    for nonsense in ({"Mailer": 0}, {"Mailer": None}, {"Mailer": True}):
        with pytest.raises(BadOption, match=r"limit turns_of\['Mailer'\] must be a whole number from 1, not"):
            Limits(turns_of=nonsense)
    with pytest.raises(BadName):
        Limits(turns_of={"no class": 3})
    for nonsense in (3, None, ["Mailer"]):
        with pytest.raises(BadOption, match="limit turns_of must map class names to whole numbers"):
            Limits(turns_of=nonsense)


def test_slow_start_may_begin_with_none_only_when_it_is_off() -> None:
    assert Limits(slow_start_turns=0, slow_start_ms=0).slow_start_turns == 0
    with pytest.raises(BadOption, match=r"slow_start_turns must be at least 1 .* slow_start_ms=0 turns slow start off"):
        Limits(slow_start_turns=0, slow_start_ms=1_000)
    changes: list[dict[str, Any]] = [{"slow_start_turns": -1}, {"slow_start_ms": -1}]
    for change in changes:
        with pytest.raises(BadOption, match=r"limit slow_start_\w+ must be a whole number from 0, not -1"):
            replace(Limits(), **change)


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
