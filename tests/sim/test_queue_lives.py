"""Workflows and jobs in queues, from seeds: no limit is passed, no place is lost, all end, whatever dies."""

import os

import pytest

from tests.sim.queue_life import live

SEEDS = int(os.environ.get("WAKEFUL_SEEDS", "8"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
async def test_lives_in_queues_with_crashes(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        await live(seed)


async def test_lives_in_queues_on_several_nodes() -> None:
    for seed in range(max(1, SEEDS // 4)):
        await live(seed, nodes=3)
