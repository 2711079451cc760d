"""Shards come, go, are lost and handed over."""

import asyncio
from datetime import timedelta

import pytest

from wakeful import App, DurableObject
from wakeful.runtime import ownership
from wakeful.runtime.node import Node
from wakeful.store.protocol import ShardRow
from wakeful.testing import World
from wakeful.values.errors import Fenced
from wakeful.values.ids import SHARDS, ObjectId, shard_of


def cells() -> App:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def add(self, pause: float = 0.0) -> int:
            value: int = await self.storage.get("n", 0) + 1
            await asyncio.sleep(pause)
            self.storage.put("n", value)
            return value

        async def arm(self) -> None:
            self.storage.set_alarm(timedelta(seconds=60))

        async def alarm(self) -> None:
            pass

    return app


def first(world: World) -> Node:
    node = world.members[0].node
    assert node is not None
    return node


def key_in(node: Node) -> str:
    return next(f"k{number}" for number in range(10_000) if shard_of(ObjectId("Cell", f"k{number}")) in node.epochs)


async def test_the_order_of_insertion_rises_within_a_shard_over_all_its_owners() -> None:
    async with cells().world(nodes=2) as world:
        node = first(world)
        shard = next(iter(node.epochs))
        before = [node.next_seq(shard) for _ in range(3)]
        node.ownership.take({shard: node.epochs[shard] + 1})
        after = [node.next_seq(shard) for _ in range(3)]
        assert before + after == sorted({*before, *after})
        other = next(one for one in node.epochs if one != shard)
        assert node.next_seq(other) not in (*before, *after)


async def test_epochs_of_its_own_and_of_the_silent_are_no_crashes() -> None:
    async with cells().world(nodes=2) as world:
        node = first(world)
        shard = next(iter(node.epochs))
        assert node.ownership.has_held(shard, node.epochs[shard])
        assert not node.ownership.has_held(shard, node.epochs[shard] + 5)
        foreign = next(shard for shard in range(SHARDS) if shard not in node.epochs)
        row = (await node.store.owners())[foreign]
        assert not node.ownership.has_held(foreign, row.epoch)
        assert await node.ownership.claim([foreign], {foreign: row.epoch}, spared=[foreign]) == 1
        assert node.ownership.has_held(foreign, row.epoch)


async def test_a_claim_of_what_somebody_else_claimed_first_takes_nothing() -> None:
    async with cells().world(nodes=2) as world:
        node = first(world)
        foreign = next(shard for shard in range(SHARDS) if shard not in node.epochs)
        row = (await node.store.owners())[foreign]
        assert await node.ownership.claim([foreign], {foreign: row.epoch - 1}) == 0
        assert foreign not in node.epochs
        assert await node.ownership.claim([], {}) == 0


async def test_a_lost_shard_takes_its_objects_and_timers_with_it_and_nothing_else() -> None:
    app = cells()
    async with app.world(nodes=2) as world:
        node = first(world)
        key = key_in(node)
        shard = shard_of(ObjectId("Cell", key))
        other = next(
            f"k{number}"
            for number in range(10_000)
            if shard_of(ObjectId("Cell", f"k{number}")) in node.epochs.keys() - {shard}
        )
        for one in (key, other):
            await node.send(ObjectId("Cell", one), "arm", (), {})
        await world.settle()
        node.ownership.lose(shard, Fenced(shard, node.epochs[shard]))
        assert shard not in node.epochs
        assert list(node.awake) == [ObjectId("Cell", other)]
        assert node.queue.objects() == {ObjectId("Cell", other)}
        assert node.ownership.losses == 1


async def test_what_the_store_says_is_believed_only_when_it_is_newer() -> None:
    async with cells().world(nodes=2) as world:
        node = first(world)
        had = dict(node.epochs)
        node.ownership.compare(await node.store.owners())
        assert node.epochs == had
        shard = next(iter(had))
        await world.store.claim("thief", [shard], now=0)
        node.ownership.compare(await node.store.owners())
        assert node.epochs.keys() == had.keys() - {shard}


async def test_a_busy_shard_is_handed_over_when_its_turn_has_ended() -> None:
    app = cells()
    async with app.world(nodes=2) as world:
        node = first(world)
        key = key_in(node)
        shard = shard_of(ObjectId("Cell", key))
        call = asyncio.ensure_future(node.send(ObjectId("Cell", key), "add", (0.3,), {}))
        await world.advance(milliseconds=20)
        move = asyncio.ensure_future(node.ownership.hand_over([shard], within_ms=1_000))
        await world.advance(milliseconds=20)
        assert shard in node.epochs
        assert shard in node.ownership.leaving
        assert not node.owns(shard, nested=False)
        assert node.owns(shard, nested=True)
        assert await call == 1
        await move
        assert not node.ownership.leaving


async def test_a_shard_that_stays_busy_stays_ours_and_its_timers_are_read_again() -> None:
    app = cells()
    async with app.world(nodes=2) as world:
        node = first(world)
        key = key_in(node)
        shard = shard_of(ObjectId("Cell", key))
        await node.send(ObjectId("Cell", key), "arm", (), {})
        call = asyncio.ensure_future(node.send(ObjectId("Cell", key), "add", (3.0,), {}))
        await world.advance(milliseconds=20)
        epoch = node.epochs[shard]
        await node.ownership.hand_over([shard], within_ms=500)
        assert node.epochs[shard] == epoch
        assert not node.ownership.leaving
        assert await call == 1
        await world.settle()
        assert ObjectId("Cell", key) in node.queue.objects()


async def test_shards_that_are_ours_on_disk_only_are_let_go() -> None:
    async with cells().world(nodes=2) as world:
        node = first(world)
        shard, epoch = next(iter(node.epochs.items()))
        del node.epochs[shard]
        await node.ownership.let_go({shard: epoch})
        assert (await world.store.owners())[shard].owner is None
        await world.advance(seconds=1)
        assert (await world.store.owners())[shard].owner is not None


async def test_shards_that_are_lost_at_once_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "shard.fenced"]
        caplog.clear()
        return found

    async with cells().world(nodes=2) as world:
        node = first(world)
        mine = sorted(node.epochs)
        caplog.clear()
        node.ownership.compare([ShardRow(shard, "other", node.epochs[shard] + 1) for shard in mine[:60]])
        node.ownership.lose(mine[60], Fenced(mine[60], 1))
        await asyncio.sleep(0)
        numbers = ", ".join(map(str, mine[:5]))
        [line] = lines()
        assert line.startswith(
            f"61 shards are no longer owned by this node ({numbers}, …); their objects wake elsewhere"
        )
        node.ownership.lose(mine[61], Fenced(mine[61], 1))
        await asyncio.sleep(0)
        [line] = lines()
        assert line.startswith(f"shard {mine[61]} is no longer owned at epoch 1")


async def test_a_node_with_much_under_way_looks_less_often_whether_a_shard_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look goes through all that runs: every 5 ms it took a fifth of an overloaded node's time."""
    assert ownership.look_ms(0) == ownership.LOOK_MS
    assert ownership.look_ms(13_000) == 70
    looked_at = []
    monkeypatch.setattr(ownership, "look_ms", lambda count: looked_at.append(count) or 5)
    async with cells().world(nodes=2) as world:
        await world.advance(seconds=5)
        node = first(world)
        key = next(key for key in map(str, range(1_000)) if shard_of(ObjectId("Cell", key)) in node.epochs)
        call = asyncio.ensure_future(node.send(ObjectId("Cell", key), "add", (0.1,), {}))
        await world.advance(milliseconds=10)
        await node.ownership.hand_over([shard_of(ObjectId("Cell", key))], within_ms=1_000)
        assert await call == 1
    assert looked_at
    assert set(looked_at) == {1}, "one object awake, and no timer handed out"
