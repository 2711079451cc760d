"""A workflow that is killed at any trip to the store comes to the same answer, by the same results, and leaves nothing waiting."""

import os

import pytest

from tests.sim.workflow_life import calm, unsure

PARTS = 4
STRIDE = int(os.environ.get("WAKEFUL_STRIDE", "1"))


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_crash_at_every_probe(part: int) -> None:
    last = await calm()
    assert last > 50
    for probe in range(1 + part, last + 1, PARTS * STRIDE):
        await calm(probe)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_that_fails_or_whose_answer_is_lost(when: str) -> None:
    last = await unsure(10_000, when)
    assert last > 20
    for n in range(last):
        await unsure(n, when)
