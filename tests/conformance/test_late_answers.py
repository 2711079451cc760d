"""An answer of the store comes when its shard has been lost, or claimed anew: what it says of timers is old by then."""

import asyncio

from tests.conformance.cluster_stage import Cluster, key_of
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of


async def take(shard: int, node: Member, owner: Member) -> None:
    """That node takes the shard, as if its owner had been mute; who is told so, or finds it out, drops it."""
    assert node.node is not None
    assert owner.node is not None
    epoch = owner.node.epochs[shard]
    assert await node.node.ownership.claim([shard], {shard: epoch}) == 1
    owner.node.ownership.compare(await node.node.store.owners())
    assert shard not in owner.node.epochs


async def test_a_timer_that_another_node_ran_is_not_set_again_by_the_late_answer_of_its_commit(
    cluster: Cluster,
) -> None:
    """It ran twice: the shard was back when the commit that had set it was heard of."""
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        assert owner.node is not None
        key = key_of(owner)
        shard = shard_of(ObjectId("Cell", key))
        owner.faults.lag_once("commit", "late", 9_000)
        sending = asyncio.ensure_future(troupe.at(owner, key).send(key, "w", 1_000))
        await world.advance(milliseconds=10)
        await take(shard, other, owner)
        await world.advance(milliseconds=1_100)
        assert [node for node, _ in troupe.runs("w")] == [other.name]
        await take(shard, owner, other)
        await world.advance(seconds=30)
        await asyncio.gather(sending, return_exceptions=True)
        assert [node for node, _ in troupe.runs("w")] == [other.name]


async def test_a_job_that_another_node_cancelled_is_not_run_by_the_late_answer_of_a_read(cluster: Cluster) -> None:
    """The shard went and came back while a page with the job was on its way."""
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        assert owner.node is not None
        key = key_of(owner)
        shard = shard_of(ObjectId("Cell", key))
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "w", after="20s")
        owner.faults.lag_once("timers", "late", 12_000)
        began = world.warp.now()
        owner.node.dispatcher.read_again()
        await world.advance(milliseconds=10)
        await take(shard, other, owner)
        assert await troupe.app.jobs.cancel(job)
        await take(shard, owner, other)
        assert world.warp.now() - began < 12_000
        await world.advance(seconds=40)
        assert troupe.runs("w") == []
