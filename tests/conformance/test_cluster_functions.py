"""Functions on the deployment's clock: once per occurrence whatever the number of nodes, crashes and versions."""

from collections import Counter
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster
from wakeful import App, Run
from wakeful.schedules.functions import CLASS
from wakeful.testing import World
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import from_datetime

FUNCTION = ObjectId(CLASS, "tick")


def ticking(world: World, ran: list[int]) -> None:
    """Give the world's app a function that runs every ten seconds."""

    @world.app.every(10).seconds
    async def tick(run: Run) -> None:
        ran.append(from_datetime(run.nominal_at))


async def verdicts(world: World) -> Counter[int]:
    """How often each occurrence of the function ran, by the ledger."""
    return Counter(
        from_datetime(run.nominal_at) for run in await world.ledger(_Named, "tick", "tick") if run.verdict == "run"
    )


class _Named:
    """Stands for the class of functions, by its name."""


_Named.__name__ = CLASS


def owner(world: World) -> Any:
    shard = shard_of(FUNCTION)
    return next(one for one in world.members if one.node is not None and shard in one.node.epochs)


async def test_a_function_runs_once_per_occurrence_on_three_nodes(cluster: Cluster) -> None:
    _, world = cluster()
    ran: list[int] = []
    ticking(world, ran)
    async with world:
        await world.advance(seconds=65)
        assert len(ran) == 6
        assert len(set(ran)) == 6
        assert await verdicts(world) == Counter(ran)


async def test_a_function_runs_once_per_occurrence_though_its_owner_is_killed_again_and_again(cluster: Cluster) -> None:
    _, world = cluster()
    ran: list[int] = []
    ticking(world, ran)
    async with world:
        for _ in range(5):
            await world.advance(seconds=11)
            member = owner(world)
            await member.crash()
            await world.advance(seconds=8)
            await member.start()
            await world.balance()
        await world.advance(seconds=12)
        assert set((await verdicts(world)).values()) == {1}
        assert len(set(ran)) == len(ran) >= 9


async def test_a_restart_of_every_node_neither_doubles_nor_loses_an_occurrence(cluster: Cluster) -> None:
    _, world = cluster()
    ran: list[int] = []
    ticking(world, ran)
    async with world:
        for member in world.members:
            await world.advance(seconds=9)
            await member.restart()
        await world.advance(seconds=15)
        began = min(ran)
        assert ran == [began + 10_000 * number for number in range(len(ran))]
        assert len(ran) >= 4


async def start_another_program(world: World, index: int) -> None:
    """That node runs a version of the program without the function."""
    member = world.members[index]
    await member.stop()
    known, world.app = world.app, App()
    try:
        await member.start()
    finally:
        world.app = known
    world.choose_door()
    await world.balance()


async def move_function_to(world: World, index: int) -> None:
    """Have that node own the function's shard."""
    node = world.members[index].node
    assert node is not None
    for member in world.members:
        if member is not world.members[index]:
            await world.store.drain(member.name, True)
    await world.advance(seconds=3)
    assert shard_of(FUNCTION) in node.epochs


async def test_a_node_of_an_older_program_leaves_a_function_that_it_does_not_know(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    _, world = cluster(nodes=2)
    ran: list[int] = []
    ticking(world, ran)
    async with world:
        await world.advance(seconds=11)
        assert len(ran) == 1
        await start_another_program(world, 1)
        await move_function_to(world, 1)
        before = len(ran)
        await world.advance(seconds=35)
        assert len(ran) == before  # it waits
        node = world.members[1].node
        assert node is not None
        assert str(FUNCTION) in node.dispatcher.unknown
        assert f"knows no object '{FUNCTION}'" in caplog.text
        assert [timer.name for timer in await world.due()] == ["schedule:tick"]
        await world.store.drain(world.members[0].name, False)
        await world.store.drain(world.members[1].name, True)
        await world.advance(seconds=25)
        assert len(ran) > before
        assert set((await verdicts(world)).values()) == {1}


async def test_a_new_function_is_put_on_the_clock_once_a_node_that_knows_it_owns_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A rolling deploy: the first new node comes while an older one still owns half of the functions."""
    _, world = cluster(nodes=2)
    ran: list[str] = []
    newer, names = world.app, {f"tick{number}" for number in range(12)}
    world.app = App()
    async with world:
        world.app = newer
        for name in names:
            newer.every(10).seconds(name=name)(_noting(ran, name))
        await world.members[0].restart()
        assert "function.waiting" in {getattr(record, "code", "") for record in caplog.records}
        await world.advance(seconds=25)
        assert 0 < len(set(ran)) < len(names)
        await world.members[1].stop()
        await world.advance(seconds=21)
        assert set(ran) == names


def _noting(ran: list[str], name: str) -> Any:
    async def note() -> None:
        ran.append(name)

    return note


async def test_a_removed_function_is_taken_off_the_clock_through_a_node_that_does_not_know_it(
    cluster: Cluster,
) -> None:
    _, world = cluster(nodes=2)
    ran: list[int] = []
    ticking(world, ran)
    async with world:
        await world.advance(seconds=11)
        await start_another_program(world, 1)
        await move_function_to(world, 1)
        node = world.members[1].node
        assert node is not None
        await node.send(FUNCTION, "schedules.cancel", ("tick",), {})
        assert await world.due() == []
