"""Machines under bad luck: snapshot, timers and ledger always agree, nothing is lost, nothing happens twice."""

import os

import pytest

from tests.sim.machine_life import calm, cluster, live

SEEDS = int(os.environ.get("WAKEFUL_SEEDS", "40"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
async def test_lives_with_troubles(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        assert await live(seed) > 50


@pytest.mark.parametrize("part", range(PARTS))
async def test_lives_on_several_nodes(part: int) -> None:
    for seed in range(part, SEEDS // 3, PARTS):
        await cluster(seed)


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_crash_at_every_probe(part: int) -> None:
    last = await calm()
    assert last > 100
    for probe in range(1 + part, last + 1, PARTS):
        await calm(probe)
