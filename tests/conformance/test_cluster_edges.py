"""Where two things about a cluster meet (a deadline and a link, a stop and a handover, two stores): what holds then."""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, Troupe, key_of
from tests.yardstick import Yardstick
from wakeful import App, DurableObject, RetryPolicy
from wakeful.cli.node_access import connecting
from wakeful.cli.session import reading
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.runtime.links import Links
from wakeful.runtime.node import Node
from wakeful.store.protocol import Query
from wakeful.testing.members import DriftingClock
from wakeful.testing.world import World
from wakeful.transport.tcp import Bounds, SocketTransport
from wakeful.values.errors import DeadlineExceeded, LinkLost, Unreachable, WakefulError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer


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
        for _ in range(20):  # some go before it, as the others take them
            await world.advance(milliseconds=100)
            if shard_of(ObjectId("Cell", key)) in leaver.node.ownership.leaving:
                break
        assert shard_of(ObjectId("Cell", key)) in leaver.node.ownership.leaving
        await leaver.stop()
        assert await call == 1


async def _owned_by(world: World, name: str) -> list[int]:
    """The shards that the store says are that node's, whoever lives."""
    store = world.open_disk(shared=True)
    with world.warp.outside():
        await store.open(now=world.warp.now(), readonly=True)
        try:
            return [row.shard for row in await store.owners() if row.owner == name]
        finally:
            await store.close()


async def test_a_node_that_stops_while_it_claims_hands_that_back_too(cluster: Cluster) -> None:
    """The answer of its claim came when it had said that it has nothing more."""
    _, world = cluster(nodes=2)
    async with world:
        leaver = world.members[0]
        world.members[1].kill()
        leaver.faults.lag_once("claim", "late", 300)
        for _ in range(400):
            await world.advance(milliseconds=50)
            if leaver.faults.lagging:
                break
        assert leaver.faults.lagging, "it claims what was the dead one's"
        leaving = asyncio.ensure_future(leaver.stop())
        await world.advance(milliseconds=600)
        await leaving
        assert not await _owned_by(world, leaver.name)


async def test_a_node_that_stops_while_it_hands_over_forgets_none_of_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop cut the handover off, and the store never heard of shards that the node had let go of by then."""
    _, world = cluster(nodes=2)
    async with world:
        leaver, other = world.members
        assert leaver.node is not None
        release, asked = leaver.node.store.release, []

        async def first_is_stuck(node: str, epochs: Mapping[int, int]) -> None:
            asked.append(epochs)
            if len(asked) == 1:
                await asyncio.Event().wait()
            await release(node, epochs)

        monkeypatch.setattr(leaver.node.store, "release", first_is_stuck)
        await leaver.node.store.drain(leaver.name, True)
        leaver.node.membership.look()
        for _ in range(200):
            await world.advance(milliseconds=2)
            if asked:
                break
        assert len(asked) == 1
        other.kill()  # who would take from a gone one what it finds
        await leaver.stop()
        assert asked[-1].keys() >= asked[0].keys()
        assert not await _owned_by(world, leaver.name)


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


async def test_a_process_that_only_connects_follows_the_clock_as_well() -> None:
    """Else what it schedules after hours of drift is due too early, and its nodes seem dead to it."""
    troupe = Troupe()
    troupe.world = world = troupe.app.world(nodes=3)
    async with world:
        clock = DriftingClock(world.warp)
        client = Node(
            name="client",
            registry=troupe.app.deployment.registry,
            store=world.open_disk(shared=True),
            clock=FollowedClock(clock),
            dice=world.node.dice,
            limits=troupe.app.deployment.limits,
            idle_ms=10_000,
            is_client=True,
            links=Links(world.network.transport("client")),
        )
        troupe.app.deployment.equip(client)
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


async def test_what_is_overdue_and_unknown_is_not_read_again_and_again(cluster: Cluster) -> None:
    """A class that was renamed leaves any number of them: they must not crowd out the timers of the others."""
    troupe, world = cluster()
    async with world:
        now = world.warp.now()
        ghosts = [ObjectId("Ghost", f"g{n}") for n in range(2_000)]
        await world.store.insert([Timer(id, "alarm", now, now, n) for n, id in enumerate(ghosts)], now=now)
        await world.advance(seconds=60)
        read = 0
        for member in world.members:
            assert member.node is not None
            store = member.node.store
            store.timers = counted(store.timers, lambda page: add(len(page)))  # type: ignore[method-assign]

        def add(rows: int) -> None:
            nonlocal read
            read += rows

        for n in range(20):
            await troupe.app.jobs.schedule(troupe.cell(f"k{n}").work, f"job {n}")
            await world.advance(seconds=1)
            assert len(troupe.runs(f"job {n}")) == 1
        await world.advance(seconds=40)
        assert read <= 400
        assert len(await world.store.find_timers(Query(cls="Ghost", limit=5_000))) == len(ghosts)


def counted(timers: Any, note: Any) -> Any:
    async def call(*args: Any, **options: Any) -> Any:
        page, has_more = await timers(*args, **options)
        note(page)
        return page, has_more

    return call


async def test_a_drained_node_takes_nothing_back_when_the_others_are_drained_too(cluster: Cluster) -> None:
    """It is about to be stopped; and nobody gives up what no other may have."""
    _, world = cluster()
    async with world:
        first = world.members[0]
        for member in world.members:
            assert member.node is not None
            await member.node.store.drain(member.name, True)
            await member.node.store.tell([])
            await world.advance(seconds=5)
        assert first.node is not None
        assert len(first.node.epochs) == 0
        assert sum(len(member.node.epochs) for member in world.members if member.node is not None) == 256
        world.members[-1].kill()
        await world.advance(seconds=10)  # what is free is taken all the same
        assert sum(len(member.node.epochs) for member in world.members if member.node is not None) == 256


async def test_a_node_on_the_socket_of_another_machine_is_noticed_before_one_joins(postgres_schema_url: str) -> None:
    """Two machines, and `listen` forgotten: each would own half of the objects, out of the other's reach."""
    app, _ = the_app()
    second, _ = the_app()
    async with app.run(postgres_schema_url) as node:
        os.unlink(node.address.removeprefix("unix:"))  # there, it is not here
        with pytest.raises(Unreachable, match="of another machine"):
            async with second.run(postgres_schema_url):
                pass
        assert len(node.epochs) == 256
        assert len(await node.store.nodes()) == 1


@pytest.mark.parametrize("answers", ["nobody", "itself"])
async def test_a_node_on_the_loopback_of_another_machine_is_noticed_before_one_joins(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    """Two machines with `--listen 127.0.0.1:…`, where the other's address leads nowhere, or to oneself."""
    app, _ = the_app()
    second, _ = the_app()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    async with app.run(postgres_schema_url, listen="127.0.0.1:0") as node:
        node.address = f"tcp:127.0.0.1:{free}"
        await node.membership.renew()
        monkeypatch.setattr("wakeful.lifecycle.platform.node", lambda: "elsewhere")
        with pytest.raises(Unreachable, match="of another machine"):
            async with second.run(postgres_schema_url, listen=f"127.0.0.1:{free if answers == 'itself' else 0}"):
                pass
        assert len(await node.store.nodes()) == 1


async def test_a_node_that_lives_and_can_not_be_called_keeps_others_from_joining_half(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with TLS and one without, say: each owned half of the objects, out of the other's reach."""
    app, _ = the_app()
    second, _ = the_app()
    async with app.run(postgres_schema_url, listen="127.0.0.1:0") as node:
        good, lonely = node.address, "tcp:127.0.0.1:1"
        node.address = lonely
        await node.membership.renew()
        with pytest.raises(Unreachable, match=r"lives, and can't be called from here: nobody answers .* TLS or none"):
            async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
                pass
        assert len(await node.store.nodes()) == 1
        # Where another one answers, it is the trouble of the one that does not.
        node.address = good
        await node.membership.renew()
        third, _ = the_app()
        async with third.run(postgres_schema_url, listen="127.0.0.1:0"):
            node.address = lonely
            await node.membership.renew()
            async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
                assert len(await node.store.nodes()) == 3
        # One that does not renew its lease may be frozen: nobody waits for it longer than its lease lasts.
        monkeypatch.setattr("wakeful.runtime.contacts.looks_max", lambda lease: 2)
        node.address = lonely
        await node.membership.renew()

        async def frozen() -> None: ...

        monkeypatch.setattr(node.membership, "renew", frozen)
        monkeypatch.setattr("wakeful.runtime.contacts.LOOK_MS", 1)
        async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
            assert len(await node.store.nodes()) == 2
        node.address = good


async def test_a_node_that_the_others_can_not_dial_does_not_join(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dialled them, and itself, and joined: calls to what it owned waited everywhere else until their deadline."""
    app, _ = the_app()
    second, _ = the_app()
    async with app.run(postgres_schema_url, listen="127.0.0.1:0") as node:
        links: Any = node.routes._links
        connect = links._transport.connect

        async def cut(address: str, **options: Any) -> Any:
            raise LinkLost(f"nobody answers at {address} (no route); try again", was_sent=False, code="link.connect")

        monkeypatch.setattr(links._transport, "connect", cut)
        with pytest.raises(Unreachable, match=r"can't reach this one at tcp:127.*\(no route\); give the .*--advertise"):
            async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
                pass
        assert len(await node.store.nodes()) == 1
        monkeypatch.setattr(links._transport, "connect", connect)
        async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
            assert len(await node.store.nodes()) == 2
            # One of two gets through: it is their trouble, and not a reason to stay out.
            monkeypatch.setattr(links._transport, "connect", cut)
            third, _ = the_app()
            async with third.run(postgres_schema_url, listen="127.0.0.1:0"):
                assert len(await node.store.nodes()) == 3


async def test_programs_with_a_store_of_their_own_meet_in_the_one_that_they_share(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    """Asked whether it reaches the other, the first answered for its own store, where it calls nobody."""
    apps = [App(stores={"eu/": postgres_schema_url}) for _ in range(2)]
    async with apps[0].run(f"sqlite:{tmp_path}/a.db") as one, apps[1].run(f"sqlite:{tmp_path}/b.db"):
        assert len(await one.homes.of(ObjectId("Cell", "eu/x")).store.nodes()) == 2


async def test_a_node_that_lives_and_is_slow_keeps_nobody_from_joining(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It needs help: its loop took too long for a greeting, and its lease was renewed."""
    app, _ = the_app()
    second, _ = the_app()
    monkeypatch.setattr("wakeful.runtime.contacts.LOOK_MS", 50)
    async with app.run(postgres_schema_url, listen="127.0.0.1:0") as node:
        impatient = Bounds(greeting_ms=400)
        monkeypatch.setattr("wakeful.lifecycle.SocketTransport", partial(SocketTransport, bounds=impatient))
        with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections, and says nothing
            node.address = f"tcp:127.0.0.1:{mute.getsockname()[1]}"
            await node.membership.renew()
            async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
                assert len(await node.store.nodes()) == 2
    assert "did not say who it is in time" in caplog.text


async def test_who_dies_after_it_was_seen_is_not_taken_for_one_that_lives(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is newer than the first look by what it did before it died."""
    app, _ = the_app()
    second, _ = the_app()
    monkeypatch.setattr("wakeful.runtime.contacts.LOOK_MS", 1)
    monkeypatch.setattr("wakeful.runtime.contacts.looks_max", lambda lease: 4)
    async with app.run(postgres_schema_url, listen="127.0.0.1:0") as node:
        node.address = "tcp:127.0.0.1:1"
        renew = node.membership.renew
        await renew()
        greet, first = Links.greet, [True]

        async def dying(self: Links, peers: Any) -> Any:
            if first.pop() if first else False:
                await asyncio.sleep(0.01)
                await renew()  # its last act
            return await greet(self, peers)

        async def frozen() -> None: ...

        monkeypatch.setattr(node.membership, "renew", frozen)
        monkeypatch.setattr(Links, "greet", dying)
        async with second.run(postgres_schema_url, listen="127.0.0.1:0"):
            assert len(await node.store.nodes()) == 2


async def test_one_that_gets_through_is_enough_and_the_frozen_are_not_waited_for(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = the_app()
    second, _ = the_app()
    third, _ = the_app()
    async with (
        app.run(postgres_schema_url, listen="127.0.0.1:0") as node,
        second.run(postgres_schema_url, listen="127.0.0.1:0"),
    ):
        asked: list[str] = []

        async def never(name: str, address: str) -> None:
            asked.append(name)
            await asyncio.sleep(60)

        monkeypatch.setitem(node.routes.requests, "reach", never)
        began = asyncio.get_running_loop().time()
        with Yardstick() as machine:
            async with third.run(postgres_schema_url, listen="127.0.0.1:0"):
                took_s = asyncio.get_running_loop().time() - began
        assert took_s < machine.allows(2.5), machine
        assert asked


async def test_a_redrive_is_of_the_store_that_was_named(tmp_path: Path) -> None:
    """Each store numbers its own: number 1 of the one is another timer than number 1 of the other."""
    main, other = f"sqlite:{tmp_path}/main.db", f"sqlite:{tmp_path}/eu.db"
    app = App(stores={"eu/": other})
    tried: list[str] = []
    again = asyncio.Event()

    @app.object
    class Failing(DurableObject):
        async def work(self) -> None:
            tried.append(self.ctx.key)
            again.set()
            raise ValueError("no")

    async with app.run(main):
        for key in ("us/1", "eu/1"):
            with suppress(WakefulError):
                await app.jobs.wait(await app.jobs.schedule(app.get(Failing, key).work, retry=RetryPolicy(1)))
        tried.clear()
        again.clear()
        async with reading(other) as store, connecting(store) as client:
            assert client is not None
            [row] = await client.redrive([1])
        assert (row["key"], row["ok"]) == ("eu/1", True)
        await asyncio.wait_for(again.wait(), 5)
        assert tried == ["eu/1"]
