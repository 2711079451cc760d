"""Where a call goes, and what is said when it can't."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful import App, DurableObject, Unavailable, reader
from wakeful.runtime.node import Node
from wakeful.runtime.status import status_of
from wakeful.testing import World
from wakeful.transport.protocol import NotStarted, PeerCall
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadValue, DeadlineExceeded, UnknownMethod
from wakeful.values.ids import ObjectId, shard_of


def world_of(nodes: int = 2, **options: Any) -> World:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def add(self, pause: float = 0.0) -> int:
            value: int = await self.storage.get("n", 0) + 1
            await asyncio.sleep(pause)
            self.storage.put("n", value)
            return value

        @reader
        async def value(self) -> int:
            found: int = await self.storage.get("n", 0)
            return found

    return app.world(nodes=nodes, **options)


def two(world: World) -> tuple[Node, Node]:
    first, second = (member.node for member in world.members[:2])
    assert first is not None
    assert second is not None
    return first, second


def id_in(node: Node) -> ObjectId:
    ids = (ObjectId("Cell", f"k{number}") for number in range(10_000))
    return next(id for id in ids if shard_of(id) in node.epochs)


def peer_call(id: ObjectId, method: str = "add", **options: Any) -> PeerCall:
    return PeerCall(id.cls, id.key, method, encode(()), encode({}), 1_000, **options)


async def test_a_call_of_ones_own_goes_over_no_link() -> None:
    async with world_of() as world:
        first, second = two(world)
        assert await first.send(id_in(first), "add", (), {}) == 1
        assert (first.routes.sent, second.routes.received) == (0, 0)
        assert await first.send(id_in(second), "add", (), {}) == 1
        assert (first.routes.sent, second.routes.received) == (1, 1)


async def test_many_calls_share_one_link() -> None:
    async with world_of() as world:
        first, second = two(world)
        ends = len(world.network._ends)  # of the link by which the second greeted the first
        await asyncio.gather(*(first.send(id_in(second), "add", (), {}) for _ in range(20)))
        assert first.routes.sent == 20
        assert len(world.network._ends) == ends + 2


async def test_a_node_that_is_asked_for_what_it_does_not_own_has_begun_nothing() -> None:
    async with world_of() as world:
        first, second = two(world)
        rounds = first.membership.rounds
        with pytest.raises(NotStarted) as caught:
            await first.routes.handle(peer_call(id_in(second)))
        assert isinstance(caught.value.error, Unavailable)
        assert caught.value.error.code == "shard.moved"
        await world.settle()
        assert first.membership.rounds > rounds  # somebody's map is old; perhaps its own


async def test_an_unknown_method_or_class_elsewhere_is_told_apart() -> None:
    async with world_of() as world:
        first, _ = two(world)
        with pytest.raises(UnknownMethod):
            await first.routes.handle(peer_call(id_in(first), "nonsense"))
        ids = (ObjectId("Stranger", f"k{number}") for number in range(10_000))
        stranger = next(id for id in ids if shard_of(id) in first.epochs)
        with pytest.raises(NotStarted) as caught:
            await first.routes.handle(peer_call(stranger))
        assert isinstance(caught.value.error, Unavailable)
        assert caught.value.error.code == "class.unknown_there"


async def test_arguments_that_are_none_are_refused() -> None:
    async with world_of() as world:
        first, _ = two(world)
        id = id_in(first)
        with pytest.raises(BadValue):
            await first.routes.handle(PeerCall(id.cls, id.key, "add", encode([1]), encode({}), 1_000))


async def test_a_peer_may_ask_how_a_node_is() -> None:
    async with world_of() as world:
        first, _ = two(world)
        answer = decode(await first.routes.handle(PeerCall("", "", "status", b"", b"", 1_000)))
        assert answer.keys() == status_of(first).keys()


async def test_a_call_to_a_node_without_an_address_says_what_to_do() -> None:
    async with world_of() as world:
        first, second = two(world)
        id = id_in(second)
        first.membership.nodes = {
            name: row if name == first.name else _without_address(row) for name, row in first.membership.nodes.items()
        }
        with pytest.raises(DeadlineExceeded, match="--listen"):
            await asyncio.wait_for(_call_with_frozen_map(first, id), 60)


def _without_address(row: Any) -> Any:
    return replace(row, address="")


async def _call_with_frozen_map(node: Node, id: ObjectId) -> Any:
    node.membership.stop()
    return await node.send(id, "add", (), {}, deadline_ms=400)


async def test_nobody_to_ask_is_waited_for_until_the_deadline_and_then_named() -> None:
    async with world_of(sees=False) as world:
        first, second = two(world)
        id = id_in(second)
        await world.members[1].crash()
        began = world.warp.now()
        with pytest.raises(DeadlineExceeded, match=f"{id}.add could not begin within its deadline") as caught:
            await first.send(id, "add", (), {}, deadline_ms=700)
        assert caught.value.code == "call.unrouted"
        assert 700 <= world.warp.now() - began <= 800
        assert first.routes.repeated > 1


async def test_a_call_that_waits_goes_on_as_soon_as_the_map_changes() -> None:
    async with world_of(3) as world:
        first, second = two(world)
        id = id_in(second)
        began = world.warp.now()
        await world.members[1].crash()
        assert await first.send(id, "add", (), {}) == 1
        assert world.warp.now() - began <= 320  # one round, not a chain of backoffs


async def test_a_reader_elsewhere_is_repeated_and_a_writer_of_unknown_fate_is_not() -> None:
    async with world_of(3) as world:
        first, second = two(world)
        id = id_in(second)
        await first.send(id, "value", (), {})
        writer = asyncio.ensure_future(first.send(id, "add", (5.0,), {}))
        await world.advance(milliseconds=50)
        await world.members[1].crash()
        with pytest.raises(Unavailable) as caught:
            await writer
        assert caught.value.code == "call.unknown"
        assert await first.send(id, "value", (), {}) == 0
