"""Calls between nodes: whoever is asked, the object answers from where it lives, and what can't be is said plainly."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from tests.conformance.cluster_stage import Cluster, OwnError, Troupe, key_of, keys_of
from wakeful import App, Unavailable
from wakeful.policy.lease import LEASE_MS
from wakeful.policy.limits import Limits
from wakeful.values.errors import DeadlineExceeded, Reentrancy, TurnFailed


async def test_any_node_calls_any_object(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        for owner in world.members:
            key = key_of(owner)
            for asker in world.members:
                assert await troupe.at(asker, key).where() == owner.name


async def test_a_chain_of_calls_over_three_nodes_is_one_answer(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        first, second, third = (key_of(member) for member in world.members)
        assert await troupe.cell(first).relay([second, third]) == [member.name for member in world.members]


async def test_an_object_that_would_wait_for_itself_over_other_nodes_is_told_so(cluster: Cluster) -> None:
    """A on node 1 → B on node 2 → A."""
    troupe, world = cluster()
    async with world:
        a, b = key_of(world.members[0]), key_of(world.members[1])
        for asker in world.members:
            with pytest.raises(Reentrancy, match="waiting for this very call"):
                await troupe.at(asker, a).relay([b, a])
        assert await troupe.cell(a).add() == 1  # nobody is stuck


async def test_a_deadline_goes_along_and_the_turn_that_misses_it_is_undone(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        key = key_of(world.members[1])
        began = world.warp.now()
        with pytest.raises(DeadlineExceeded):
            await troupe.at(world.members[0], key, deadline="300ms").add(5.0)
        assert 300 <= world.warp.now() - began <= 400
        await world.advance(seconds=6)
        assert "n" not in await world.rows(troupe.Cell, key)


async def test_a_deadline_is_what_is_left_of_it_after_a_hop(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        first, second = key_of(world.members[0]), key_of(world.members[1])
        blocker = asyncio.ensure_future(troupe.cell(second).add(2.0))
        await world.advance(milliseconds=50)
        began = world.warp.now()
        with pytest.raises((DeadlineExceeded, TurnFailed)):
            await troupe.at(world.members[2], first, deadline="400ms").relay([second])
        assert world.warp.now() - began <= 500
        assert await blocker == 1


async def test_a_request_key_is_remembered_whichever_node_is_asked_and_after_a_takeover(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[1]
        key = key_of(owner)
        for asker in world.members:
            assert await troupe.at(asker, key, request_key="r").add() == 1
        await owner.crash()
        await world.advance(seconds=8)
        for asker in (world.members[0], world.members[2]):
            assert await troupe.at(asker, key, request_key="r").add() == 1


async def test_a_call_under_a_key_survives_the_crash_of_the_node_that_ran_it(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[1]
        key = key_of(owner)
        call = asyncio.ensure_future(troupe.at(world.members[0], key, request_key="r", deadline="30s").add(1.0))
        await world.advance(milliseconds=300)
        await owner.crash()
        assert await call == 1
        assert (await world.rows(troupe.Cell, key))["n"] == 1


async def test_a_reader_is_asked_again_when_its_node_dies_and_a_writer_is_not(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[1]
        key = key_of(owner)
        await troupe.cell(key).add()
        look = asyncio.ensure_future(troupe.at(world.members[0], key).value(1.0))
        write = asyncio.ensure_future(troupe.at(world.members[2], key, deadline="30s").add(2.0))
        await world.advance(milliseconds=300)
        await owner.crash()
        assert await look == 1
        with pytest.raises(Unavailable) as caught:
            await write
        assert caught.value.code == "call.unknown"


async def test_a_call_that_has_not_begun_waits_for_the_new_owner(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[1]
        key = key_of(owner)
        await owner.crash()
        assert await troupe.cell(key, deadline="20s").add() == 1


async def test_errors_of_the_object_s_own_code_come_with_their_type_and_undo_the_turn(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        key = key_of(world.members[1])
        with pytest.raises(ValueError, match="mine"):
            await troupe.at(world.members[0], key).raise_("builtin")
        with pytest.raises(OwnError, match="mine"):
            await troupe.at(world.members[0], key).raise_("own")
        with pytest.raises(TurnFailed, match="mine") as caught:  # one that can't be made here
            await troupe.at(world.members[0], key).raise_("hidden")
        assert caught.value.remote_type.endswith("HiddenError")
        assert "raise HiddenError" in caught.value.remote_traceback
        assert "n" not in await world.rows(troupe.Cell, key)


async def test_wakeful_s_own_errors_keep_type_and_code_over_nodes(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        key = key_of(world.members[1])
        assert await troupe.at(world.members[0], key, request_key="r").add() == 1
        with pytest.raises(Exception, match="r") as here:
            await troupe.at(world.members[1], key, request_key="r").where()
        with pytest.raises(type(here.value)) as there:
            await troupe.at(world.members[0], key, request_key="r").where()
        assert there.value.code == here.value.code  # type: ignore[attr-defined]


async def test_what_the_code_of_an_object_raised_is_not_asked_for_again_by_another_node(cluster: Cluster) -> None:
    """With a key it may be repeated, and `Unavailable` is for the asking node; this one is the answer."""
    troupe, world = cluster()
    async with world:
        key = key_of(world.members[1])
        before = troupe.raises
        for asker in world.members:
            with pytest.raises(Unavailable, match="mine") as caught:
                await troupe.at(asker, key, request_key=f"k{asker.name}").raise_("away")
            assert caught.value.is_raised
        assert troupe.raises - before == len(world.members)


async def test_a_full_mailbox_elsewhere_tells_callers_to_back_off_as_one_here_does() -> None:
    """It was waited for, until the deadline: the flood that filled it waited with it, on every other node."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3, limits=Limits(mailbox=2))
    async with world:
        owner, asker, _ = world.members
        key = key_of(owner)
        calls = [asyncio.ensure_future(troupe.at(asker, key).add(0.5)) for _ in range(3)]
        await world.advance(milliseconds=50)
        began = world.now()
        for member in world.members:
            with pytest.raises(Unavailable, match="back off") as full:
                await troupe.at(member, key, request_key=member.name).add()
            assert full.value.code == "object.mailbox"
        assert world.now() - began < timedelta(milliseconds=100)
        assert sorted(await asyncio.gather(*calls)) == [1, 2, 3]


async def test_a_node_that_does_not_know_the_class_leaves_the_call_to_one_that_does(cluster: Cluster) -> None:
    """The owner is of an older program: the call waits for its shard to move, and says why when time is up."""
    troupe, world = cluster(nodes=2)
    async with world:
        old = world.members[1]
        await old.stop()
        known, world.app = world.app, App()
        try:
            await old.start()
        finally:
            world.app = known
        world.choose_door()
        await world.balance()
        key = key_of(old)
        with pytest.raises(DeadlineExceeded, match="does not know the class"):
            await troupe.at(world.members[0], key, deadline="1s").add()
        call = asyncio.ensure_future(troupe.at(world.members[0], key, deadline="20s").add())
        await world.advance(milliseconds=500)
        await old.stop()
        assert await call == 1


async def test_many_calls_from_all_nodes_at_once_are_each_answered_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        keys = [key for member in world.members for key in keys_of(member, 3)]
        calls = [troupe.at(asker, key).add() for asker in world.members for key in keys for _ in range(10)]
        answers = await asyncio.gather(*calls)
        assert sorted(answers) == sorted(number for _ in keys for number in range(1, 31))


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_call_that_may_be_repeated_leaves_a_node_whose_shard_was_taken(
    cluster: Cluster, is_cancelled: bool
) -> None:
    """That node waits for its store and never answers; a task that was told to end may still ask in its `finally`."""
    troupe, world = cluster()
    async with world:
        asker, slow = world.members[:2]
        key = key_of(slow)
        assert await troupe.at(slow, key).add() == 1

        async def asking() -> int:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60 if is_cancelled else 0)
            value: int = await troupe.at(asker, key, deadline="60s", request_key="r").add()
            return value

        slow.stall()
        task = asyncio.ensure_future(asking())
        await world.advance(milliseconds=1)
        if is_cancelled:
            task.cancel()
        await world.advance(milliseconds=LEASE_MS + 3_000)
        assert task.done()
        assert await task == 2
        slow.go_on()
        await world.advance(seconds=1)
        assert await troupe.at(asker, key).value() == 2
