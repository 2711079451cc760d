"""The short form of `tests/fuzz/held.py`: no request holds the event loop for long, over every way in."""

import asyncio
from collections.abc import Iterable

import pytest

from tests.fuzz import held

SIZE = 100 << 10
LONG = 600 << 10
# What is sent at six times that as well: a hold that grows with the size shows there, whatever the machine does beside it.
HEAVY = ("echo: lists", "echo: deep", "keep: numbers", "mirror: rows", "spread: numbers", "checked: some rows")
ALLOWED_MS = 3 * held.MOST_MS  # generous: the machine that tests is busy


def check(requests: Iterable[held.Request], size: int) -> None:
    long = [row for row in asyncio.run(held.worst(requests, size)) if row.ms > ALLOWED_MS]
    assert not long, "\n".join(map(str, long))


def check_heavy(kind: str) -> None:
    method, _, shape = kind.partition(": ")
    check([held.a_call(method, shape, LONG)], LONG)


@pytest.mark.parametrize("kind", held.KINDS)
def test_no_request_holds_the_loop(kind: str) -> None:
    check(held.KINDS[kind](SIZE), SIZE)


@pytest.mark.parametrize("kind", HEAVY)
def test_nor_does_a_longer_one(kind: str) -> None:
    check_heavy(kind)
