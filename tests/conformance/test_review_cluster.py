"""What a review of the cluster found: each of these was wrong once."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.runtime.following import FollowedClock
from wakeful.runtime.links import Links
from wakeful.runtime.node import Node
from wakeful.testing.drifting import DriftingClock
from wakeful.values.errors import DeadlineExceeded
from wakeful.values.ids import ObjectId, shard_of

sys.path.append(str(Path(__file__).parent))
from cluster_stage import Cluster, key_of


async def test_a_call_without_an_answer_in_time_is_not_said_to_be_undone(cluster: Cluster) -> None:
    """Its answer was lost on the way, and it stands."""
    troupe, world = cluster()
    async with world:
        here, there = world.members[0], world.members[1]
        key = key_of(there)
        call = asyncio.ensure_future(troupe.at(here, key, deadline="500ms").add(0.2))
        await world.advance(milliseconds=100)
        world.network.cut(here.name, there.name)
        with pytest.raises(DeadlineExceeded, match="whether it happened is unknown"):
            await call
        assert await world.rows(troupe.Cell, key) == {"n": 1}
        world.network.heal()


async def test_a_deadline_holds_while_a_link_is_being_made(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        here, there = world.members[0], world.members[1]
        key = key_of(there)
        world.network.cut(here.name, there.name)
        began = world.warp.now()
        with pytest.raises(DeadlineExceeded, match="no link to node"):
            await troupe.at(here, key, deadline="500ms").add()
        assert 500 <= world.warp.now() - began <= 600
        world.network.heal()


async def test_a_stop_amid_a_handover_lets_what_runs_there_end(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        leaver = world.members[1]
        key = key_of(leaver)
        call = asyncio.ensure_future(troupe.at(world.members[0], key).add(3.0))
        await world.advance(milliseconds=50)
        assert leaver.node is not None
        await leaver.node.store.drain(leaver.name, True)
        await leaver.node.store.tell([])
        await world.advance(milliseconds=400)
        assert shard_of(ObjectId("Cell", key)) in leaver.node.ownership.leaving
        await leaver.stop()
        assert await call == 1


async def test_a_shard_that_can_not_go_because_of_a_long_turn_serves_its_other_objects(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        leaver = world.members[1]
        key = key_of(leaver)
        shard = shard_of(ObjectId("Cell", key))
        beside = [f"m{n}" for n in range(10_000) if shard_of(ObjectId("Cell", f"m{n}")) == shard][:20]
        long = asyncio.ensure_future(troupe.cell(key, deadline="200s").add(60.0))
        await world.advance(milliseconds=50)
        assert leaver.node is not None
        await leaver.node.store.drain(leaver.name, True)
        await leaver.node.store.tell([])
        waits = []
        for one in beside:
            began = world.warp.now()
            await troupe.cell(one).add()
            waits.append(world.warp.now() - began)
            await world.advance(seconds=1)
        assert max(waits) <= 1_100
        assert sum(wait > 100 for wait in waits) <= 6  # it is tried now and then
        await long
        await world.advance(seconds=10)
        assert shard not in leaver.node.epochs


async def test_a_process_that_only_connects_follows_the_clock_as_well(cluster: Cluster) -> None:
    """Else what it schedules after hours of drift is due too early, and its nodes seem dead to it."""
    troupe, world = cluster()
    async with world:
        clock = DriftingClock(world.warp)
        client = Node(
            name="client",
            registry=troupe.app.registry,
            store=world.open_disk(shared=True),
            clock=FollowedClock(clock),
            dice=world.node.dice,
            limits=troupe.app.limits,
            idle_ms=10_000,
            is_client=True,
            links=Links(world.network.transport("client")),
        )
        troupe.app.equip(client)
        await client.start()
        clock.drift(0.99)
        await world.advance(seconds=100)
        assert abs(client.clock.now() - world.warp.now()) <= 50
        clock.freeze()
        clock.drift(0.001)  # as when its machine slept: the steady clock stood still
        await world.advance(seconds=3600)
        clock.drift(1.0)
        clock.thaw()
        await world.advance(seconds=5)
        assert abs(client.clock.now() - world.warp.now()) <= 50
        await client.stop()


def the_app(**options: Any) -> tuple[App, Any]:
    app = App(**options)

    @app.object
    class Clerk(DurableObject):
        async def hire(self) -> None:
            await self.schedules.add("every 10 seconds", self.tick, name="tick")

        async def tick(self) -> None:
            await self.storage.put("ticks", await self.storage.get("ticks", 0) + 1)

        async def ticks(self) -> int:
            return int(await self.storage.get("ticks", 0))

    return app, Clerk


async def test_counters_are_those_of_the_store_that_the_object_lives_in() -> None:
    app, clerk = the_app(stores={"eu/": "memory:"})
    async with app.world() as world:
        for key in ("eu/1", "us/1"):
            await app.get(clerk, key).hire()
        await world.advance(seconds=65)
        for tenant in ("eu", "us"):
            assert (await app.counters(clerk, f"{tenant}/1")).runs == 6
            assert (await app.counters(tenant=tenant)).runs == 6


async def test_a_place_with_the_main_stores_url_is_in_the_main_store(store_url: str) -> None:
    """As where all of them are one database while developing; two nodes of one process would take it from each other."""
    app, clerk = the_app(stores={"eu/": store_url})
    async with app.run(store_url) as node:
        assert node.all_homes == [node]
        assert [await app.get(clerk, key).ticks() for key in ("eu/1", "us/1")] == [0, 0]
        await asyncio.sleep(0.7)  # some rounds
        assert len(node.epochs) == 256
        assert node.ownership.losses == 0


async def test_two_urls_of_one_database_are_refused(postgres_schema_url: str) -> None:
    app, _ = the_app(stores={"eu/": f"{postgres_schema_url}&timeout=9s"})
    with pytest.raises(ValueError, match="two stores of this program are one database"):
        async with app.run(postgres_schema_url):
            pass
