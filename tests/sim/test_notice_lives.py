"""Notices in a world with troubles: whatever happens, each parked timer is told of, under one id, and counted once."""

import os

import pytest

from tests.sim.notice_life import live

SEEDS = int(os.environ.get("WAKEFUL_NOTICE_SEEDS", "6"))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_promise_of_notices_holds_on_every_seed(seed: int) -> None:
    await live(seed)
