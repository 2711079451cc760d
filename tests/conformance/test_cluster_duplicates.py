"""Two nodes ask for a job under one key at once, and one of them comes to disk when the other has had its run."""

from msgspec.structs import replace

from tests.conformance.cluster_stage import Cluster, Troupe, key_of
from wakeful.jobs.payload import decode_kept, encode_kept
from wakeful.testing import World


async def run_and_insert_again(troupe: Troupe, world: World, key: str) -> str:
    """The id of a job that is done, whose timer is on disk once more, as the second asker's insert leaves it."""
    job = await troupe.app.jobs.schedule(troupe.cell(key).work, "once", key="k", after="1s")
    [timer] = await world.due()
    await world.advance(seconds=3)
    assert (await troupe.app.jobs.get(job)).state == "done"
    other = encode_kept(replace(decode_kept(timer), token="another"))
    at = world.warp.now() + 20_000
    assert await world.store.insert([replace(timer, due_at=at, seq=timer.seq + 1, payload=other)], now=at) == []
    return job.id


async def test_it_is_done_as_far_as_anybody_can_see_and_runs_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        id = await run_and_insert_again(troupe, world, key_of(world.members[1]))
        assert (await troupe.app.jobs.get(id)).state == "done"
        await world.advance(seconds=30)
        assert len(troupe.runs("once")) == 1
        assert await world.due() == []


async def test_cancelling_it_says_that_it_is_over(cluster: Cluster) -> None:
    """Found by the simulation: the answer was True for a job that had run."""
    troupe, world = cluster()
    async with world:
        id = await run_and_insert_again(troupe, world, key_of(world.members[1]))
        assert await troupe.app.jobs.cancel(id) is False


async def test_one_that_depends_on_it_runs(cluster: Cluster) -> None:
    """Found by the simulation: it waited for a run that would never be."""
    troupe, world = cluster()
    async with world:
        id = await run_and_insert_again(troupe, world, key_of(world.members[1]))
        await troupe.app.jobs.schedule(troupe.cell(key_of(world.members[0])).work, "after", depends_on=[id])
        await world.advance(seconds=30)
        assert len(troupe.runs("after")) == 1
