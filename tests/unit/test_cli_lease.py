"""What the doctor says of leases and of the store's latency."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.cli import checkups, cluster_access
from wakeful.store.protocol import NodeRow
from wakeful.views.nodes import stand

NOW = 1_000_000


def row(node: str) -> NodeRow:
    return NodeRow(node, "tcp:127.0.0.1:7", NOW - 9_000, NOW + 3_000, f"host {node}")


def leased(*names: str, slack_ms: int = 3_400) -> checkups.Statuses:
    lease = {"lease_ms": 5_000, "slack_ms": slack_ms, "near_ms": 1_000, "trip_us": 12_300}
    return {name: {"lease": lease} for name in names}


def test_how_close_renewals_come_to_the_lease_is_said() -> None:
    rows = (row("a"), row("b"))
    said = leased("a") | leased("b", slack_ms=3_100)
    [fine] = checkups.leases(stand(rows, [], NOW), said)
    assert fine.text == "renewed with 3.1 s of 5.0 s left at the worst of the last hour (node b)"
    assert fine.evidence == "the slowest renewal took the store 12.3 ms"
    near, over = checkups.leases(stand(rows, [], NOW), leased("a", slack_ms=900) | leased("b", slack_ms=-2_000))
    assert (near.status, over.status) == ("warn", "warn")
    assert near.text == "node a nearly lost its lease of 5.0 s in the last hour: 900 ms were left of it"
    assert over.text == "node b lost its lease of 5.0 s in the last hour: it was renewed 2.0 s too late"
    assert "others may take its shards" in over.evidence
    assert "--lease" in near.remedy
    [differ] = checkups.leases(stand((row("a"), replace(row("b"), lease_ms=20_000)), [], NOW), {})
    assert (differ.status, differ.text) == ("fail", "nodes of this store have leases of 5.0 s and 20 s")


def test_what_a_lost_lease_cost_is_said() -> None:
    """It "nearly lost" a lease that had been over, and nobody said what came of that."""
    said = leased("a", slack_ms=-2_000)
    said["a"] |= {"shards_lost": 85, "stood_still": {"for_ms": 1_400, "ago_ms": 3_000}}  # the last, not the longest
    said["a"]["lease"]["stood_ms"] = 6_800
    [over] = checkups.leases(stand((row("a"),), [], NOW), said)
    assert over.text.startswith("node a lost its lease")
    assert over.evidence.startswith("others took 85 shards from it since it was started; it stood still for 6.8 s;")

    said["a"]["lease"]["stood_ms"] = 0
    said["a"] |= {"held_up": {"for_ms": 4_100, "longest_ms": 900, "within_ms": 5_000}}
    [over] = checkups.leases(stand((row("a"),), [], NOW), said)
    assert "since it was started; of the last 5.0 s its loop was held up for 4.1 s;" in over.evidence


def test_the_latency_of_the_store_is_measured() -> None:
    class Slow:
        def __init__(self, trip_s: float) -> None:
            self.trip_s = trip_s

        async def nodes(self) -> list[NodeRow]:
            await asyncio.sleep(self.trip_s)
            return []

    for trip_s, status in ((0.0, "ok"), (0.11, "warn")):
        store: Any = Slow(trip_s)
        [found] = asyncio.run(checkups.latency(store))
        assert (found.check, found.status) == ("latency", status)
        assert bool(found.remedy) == (status == "warn")


def test_the_option_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = cluster_access.Pass(None, None)
    monkeypatch.setenv("WAKEFUL_LEASE", "9s")
    assert cluster_access.join_options("postgresql://db/app", None, None, None, nobody)["lease"] == "9s"
    assert cluster_access.join_options("postgresql://db/app", None, None, None, nobody, lease="3s")["lease"] == "3s"
    monkeypatch.delenv("WAKEFUL_LEASE")
    assert "lease" not in cluster_access.join_options("postgresql://db/app", None, None, None, nobody)
