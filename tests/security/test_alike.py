"""What a stranger chose to hash alike is refused before it is a set or a dict: that would be quadratic."""

import itertools
import time
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import islice, product
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.garbage import without_collections
from wakeful.http.asks import read_msgpack
from wakeful.http.problems import Problem
from wakeful.operations.arguments import Signature
from wakeful.values.codec import _FROZENSET, _MAP, _SET, VERSION, _encoder, _ext, _lower, encode
from wakeful.values.errors import BadValue
from wakeful.values.packed import ALIKE_MAX, check_alike

P = 2**61 - 1
MANY = 15_000
# How many there may be is another limit, which would hide this one.
read_much = partial(read_msgpack, weight_max=100 * MANY)
INTS = [P * number for number in range(1, MANY + 1)]
SMALL = [P * number for number in range(-4, 9)]  # what fits 64 bits
TUPLES = [list(one) for one in islice(product(SMALL, repeat=4), MANY)]
UUIDS = [str(UUID(int=number)) for number in INTS]


@dataclass
class Kept:
    seen: set[int] = field(default_factory=set)


class Takes:
    async def ints(self, it: set[int]) -> None: ...
    async def frozen(self, it: frozenset[int]) -> None: ...
    async def counts(self, it: dict[int, int]) -> None: ...
    async def tuples(self, it: set[tuple[int, ...]]) -> None: ...
    async def ids(self, it: list[set[UUID]]) -> None: ...
    async def kept(self, it: Kept) -> None: ...
    async def anything(self, it: set[Any]) -> None: ...


HOSTILE: dict[str, Any] = {
    "ints": INTS,
    "frozen": INTS,
    "counts": {str(one): 1 for one in INTS},
    "tuples": TUPLES,
    "ids": [UUIDS],
    "kept": {"seen": INTS},
    "anything": INTS,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_arguments_that_hash_alike_are_refused(name: str) -> None:
    signature = Signature("Takes", name, getattr(Takes, name))
    with without_collections():
        begun = time.thread_time()
        with pytest.raises(BadValue, match="more than 64 different members with the same hash") as caught:
            signature.read([HOSTILE[name]])
        took_s = time.thread_time() - begun
    assert caught.value.code == "value.alike"
    assert took_s < 4


@pytest.mark.parametrize("number", [_SET, _FROZENSET])
def test_a_set_in_msgpack_is_looked_at_before_it_is_made(number: int) -> None:
    _refused(_ext(number, list(map(_lower, INTS))))


def test_so_are_the_keys_of_a_dict_in_msgpack() -> None:
    _refused(_ext(_MAP, [(_lower(tuple(one)), 1) for one in TUPLES]))
    _refused(_ext(_SET, [_lower(Decimal(one)) for one in INTS]))


def _refused(value: Any) -> None:
    body = VERSION + _encoder.encode([[value], {}])
    with without_collections():
        begun = time.thread_time()
        with pytest.raises(Problem) as caught:
            read_much(body)
        took_s = time.thread_time() - begun
    assert caught.value.code == "value.alike"
    assert took_s < 4


def test_what_programs_have_passes() -> None:
    values: list[Any] = [
        set(range(100_000)),
        {2.0**number for number in range(-1_000, 1_000)},
        {(one, -one) for one in range(5_000)},
        {UUID(int=one * 7**40 % 2**128): one for one in range(5_000)},
        {Decimal(10) ** one for one in range(-500, 500)},
    ]
    for value in values:
        assert read_much(encode(value)) == value
    read = Signature("Takes", "ints", Takes.ints).read
    assert read([[7] * 100_000 + list(range(100))])[0][0] == set(range(100))
    assert read([INTS[:ALIKE_MAX] * 3])[0][0] == set(INTS[:ALIKE_MAX])


def test_as_many_as_may_be_alike_are() -> None:
    check_alike(INTS[:ALIKE_MAX], "it")
    with pytest.raises(BadValue):
        check_alike(INTS[: ALIKE_MAX + 1], "it")


VALUES = [msgspec.msgpack.encode((2**61 - 1) * number) for number in range(8)]
KEYS = [b"\x95" + b"".join(five) for five in itertools.islice(itertools.product(VALUES, repeat=5), 2_000)]


def a_map(keys: list[bytes]) -> bytes:
    return b"\xde" + len(keys).to_bytes(2, "big") + b"".join(key + b"\x01" for key in keys)


@pytest.mark.parametrize("around", [b"", b"\x91", b"\x92\x01", b"\x81\xa1a", b"\xdc\x00\x01"])
def test_keys_that_are_lists_are_counted_before_they_are_keys(around: bytes) -> None:
    """Lists of five of eight numbers that hash alike: 32,768 keys with one hash, in bytes that the decoder itself reads."""
    body = VERSION + around + a_map(KEYS)
    with without_collections():
        begun = time.thread_time()
        with pytest.raises(Problem, match="a map of 2000 pairs") as caught:
            read_much(body)
        took_s = time.thread_time() - begun
    assert caught.value.code == "value.keys"
    assert took_s < 1


def test_short_maps_and_plain_keys_stay_as_they_are() -> None:
    plain = {str(number): [number, {"a": {number: None}}] for number in range(3_000)} | {"k": {(1, 2): 3}}
    assert read_much(encode(plain)) == plain
    assert read_much(VERSION + b"\x92" + a_map(KEYS[:60]) + b"\xc5\x20\x00" + b"\xde" * 0x2000)[0]
    many = {number: number for number in range(70_000)}
    assert read_much(encode([many])) == [many]
