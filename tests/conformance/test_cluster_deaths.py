"""What the others say of a node that died or went silent, and that nothing is said of one that stopped."""

import re

import pytest

from tests.conformance.cluster_stage import Cluster
from wakeful.policy.lease import LEASE_MS


def dead(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "node.dead"]


async def test_each_of_the_others_says_once_who_died_and_what_falls_to_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of a node that took over 85 shards of another said nothing at all."""
    _, world = cluster()
    async with world:
        await world.advance(seconds=2)
        victim = world.members[1]
        assert victim.node is not None
        name, owned = victim.node.name, len(victim.node.epochs)
        assert dead(caplog) == []
        victim.kill()
        await world.advance(milliseconds=2 * LEASE_MS)
        lines = dead(caplog)
        assert len(lines) == 2, lines
        assert all(line.startswith(f"node {name} (") for line in lines)
        assert f"{owned} shards of it have no other owner yet" in lines[0]
        assert sum(int(re.findall(r"and (\d+) of them fall", line)[0]) for line in lines) == owned


async def test_why_it_is_taken_for_dead_is_said(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    _, world = cluster()
    async with world:
        await world.advance(seconds=2)
        frozen = world.members[1]
        frozen.freeze()
        await world.advance(milliseconds=LEASE_MS + 4 * world.lease.round_ms)
        assert any("its lease is over" in line and "frozen" in line for line in dead(caplog))
        frozen.thaw()
        await world.advance(seconds=10)
        caplog.clear()
        await world.members[2].stop()
        await world.advance(seconds=5)
        assert dead(caplog) == []
