"""Identities: the shard of an object never changes, and names are checked before they reach anything."""

from collections import Counter

import pytest

from wakeful.values.errors import BadName
from wakeful.values.ids import KEY_BYTES_MAX, SHARDS, ObjectId, check_class, check_key, shard_of


@pytest.mark.parametrize(
    ("cls", "key", "shard"),
    [
        ("Counter", "bob", 192),
        ("Counter", "alice", 178),
        ("Tenant", "acme/eu", 28),
        ("Möbel", "😀", 76),
        ("a", "b", 113),
    ],
)
def test_the_shard_of_an_object_is_the_same_for_ever(cls: str, key: str, shard: int) -> None:
    assert shard_of(ObjectId(cls, key)) == shard


def test_class_and_key_do_not_run_together() -> None:
    assert shard_of(ObjectId("ab", "c")) != shard_of(ObjectId("a", "bc"))


def test_objects_spread_over_all_shards_evenly() -> None:
    counts = Counter(shard_of(ObjectId("Order", f"o-{n}")) for n in range(51_200))
    assert len(counts) == SHARDS
    assert 120 < min(counts.values()) <= max(counts.values()) < 300


@pytest.mark.parametrize("name", ["", "1abc", "a b", "a/b", "a" * 65, "naïve", None, 5, "a\n", "a'b", "../x"])
def test_a_class_name_that_can_not_be_one_is_refused(name: object) -> None:
    with pytest.raises(BadName, match="use a letter"):
        check_class(name)


@pytest.mark.parametrize("key", ["", None, 5, b"x", "a\0b", "a\nb", "\x7f", "\ud800", "é" * 257])
def test_a_key_that_can_not_be_one_is_refused(key: object) -> None:
    with pytest.raises(BadName):
        check_key("C", key)


def test_the_longest_key_is_taken_and_one_byte_more_says_by_how_much() -> None:
    assert check_key("C", "k" * KEY_BYTES_MAX)
    with pytest.raises(BadName, match="513 bytes, 1 more than the limit of 512"):
        check_key("C", "k" * (KEY_BYTES_MAX + 1))


@pytest.mark.parametrize("key", ["acme/eu", "a b", "😀", "'; drop table", "%", "\\", '"'])
def test_odd_but_harmless_keys_are_taken(key: str) -> None:
    assert check_key("C", key) == key
