"""Sockets in a cluster with troubles: whatever happens, each message counts once, in order, and each end is told once."""

import os

import pytest

from tests.sim.socket_life import live

SEEDS = int(os.environ.get("WAKEFUL_SOCKET_SEEDS", "5"))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_promise_of_sockets_holds_on_every_seed(seed: int) -> None:
    await live(seed)
