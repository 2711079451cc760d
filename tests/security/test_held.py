"""The short form of `tests/fuzz/held.py`: no request holds the event loop for long, over every way in."""

import asyncio
from collections.abc import Iterable

import pytest

from tests.fuzz import held

SIZE = 100 << 10
LONG = 600 << 10
# What is sent at six times that as well: a hold that grows with the size shows there, whatever the machine does beside it.
HEAVY = ("echo: lists", "echo: deep", "keep: numbers", "mirror: rows", "spread: numbers", "checked: some rows")
FULL = ("echo: ties", "echo: names", "mirror: some rows", "colours: numbers")  # as much as is allowed
FULL_PACKED = ("whole names", "set")
ALLOWED = 3  # times what is allowed: the machine that tests is busy


def check(requests: Iterable[held.Request], size: int) -> None:
    long = [row for row in asyncio.run(held.worst(requests, size, enough=ALLOWED / 2)) if row.share > ALLOWED]
    assert not long, "\n".join(map(str, long))


def check_heavy(kind: str) -> None:
    method, _, shape = kind.partition(": ")
    check([held.a_call(method, shape, LONG)], LONG)


def check_full(kind: str) -> None:
    method, _, shape = kind.partition(": ")
    check([held.a_full_call(method, shape, LONG)], LONG)


@pytest.mark.parametrize("kind", [kind for kind in held.KINDS if kind != "full"])
def test_no_request_holds_the_loop(kind: str) -> None:
    check(held.KINDS[kind](SIZE), SIZE)


@pytest.mark.parametrize("kind", HEAVY)
def test_nor_does_a_longer_one(kind: str) -> None:
    check_heavy(kind)


@pytest.mark.parametrize("kind", FULL)
def test_nor_does_one_with_all_that_is_allowed(kind: str) -> None:
    check_full(kind)


@pytest.mark.parametrize("name", FULL_PACKED)
def test_nor_does_such_a_one_in_our_own_encoding(name: str) -> None:
    check([held.a_full_packed_call(name, LONG)], LONG)
