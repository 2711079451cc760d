"""A job whose owner dies, freezes or stops: cancelled exactly, run to its end elsewhere, and never blamed for it."""

from tests.conformance.cluster_stage import Cluster, Troupe, key_of
from tests.sim.cluster_clients import Door
from wakeful import Job, Limits
from wakeful.jobs.jobs import Jobs
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of


def owner_of(world: World, key: str) -> Member:
    """The member that the object lives on now."""
    shard = shard_of(ObjectId("Cell", key))
    [found] = [one for one in world.members if one.node is not None and shard in one.node.epochs]
    return found


async def begun(troupe: Troupe, world: World, token: str, times: int) -> None:
    """Until it has begun so often."""
    for _ in range(400):
        if len(troupe.runs(token)) >= times:
            return
        await world.advance(milliseconds=50)
    raise AssertionError(f"{token} began {len(troupe.runs(token))} times")


async def test_a_job_of_a_dead_owner_is_cancelled_and_never_runs(cluster: Cluster) -> None:
    """Not False because nobody owns it just then: it would run as soon as somebody did."""
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        jobs = [await troupe.app.jobs.schedule(troupe.cell(key).work, f"t{n}", after="6s") for n in range(3)]
        owner.kill()
        assert await Jobs(Door(asker)).cancel(jobs[1].id) is True
        assert (await troupe.app.jobs.get(jobs[1].id)).state == "cancelled"
        await world.advance(seconds=7)
        assert [what for what, *_ in troupe.ran] == ["t0", "t2"]
        assert await Jobs(Door(asker)).cancel(jobs[0].id) is False


async def test_a_job_of_a_frozen_owner_is_cancelled_and_never_runs(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "never", after="10s")
        owner.freeze()
        assert await Jobs(Door(asker)).cancel(job.id) is True
        owner.thaw()
        await world.advance(seconds=12)
        assert troupe.ran == []
        assert (await troupe.app.jobs.get(job.id)).state == "cancelled"


async def test_a_job_that_runs_on_another_node_is_stopped_there_and_the_answer_is_true(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "long", 600.0)
        await begun(troupe, world, "long", 1)
        assert await Jobs(Door(asker)).cancel(job.id) is True
        await world.advance(seconds=10)
        assert (len(troupe.runs("long")), await world.rows(troupe.Cell, key)) == (1, {})


async def test_a_job_that_ran_when_its_owner_died_is_cancelled_for_good(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "long", 20.0)
        await begun(troupe, world, "long", 1)
        owner.kill()
        assert await Jobs(Door(asker)).cancel(job.id) is True
        runs = len(troupe.runs("long"))
        await world.advance(seconds=25)
        assert (len(troupe.runs("long")), (await troupe.app.jobs.get(job.id)).state) == (runs, "cancelled")
        assert await world.rows(troupe.Cell, key) == {}


async def test_takeovers_while_a_job_runs_are_no_crashes_of_it() -> None:
    """Three crashes park a job; that four nodes froze under it is none of its doing, where the store can tell the two apart."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3)
    async with world:
        key = "patient"
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "long", 30.0)
        for count in range(1, 5):
            await begun(troupe, world, "long", count)
            owner = owner_of(world, key)
            owner.freeze()
            await begun(troupe, world, "long", count + 1)  # elsewhere, when its lease was over
            owner.thaw()
            await world.advance(seconds=2)
        await ends_well(troupe, world, key, job, after_s=35)


async def test_graceful_stops_while_a_job_runs_are_no_crashes_of_it(cluster: Cluster) -> None:
    """A rolling restart: each stop cuts it off when that has taken as long as it may."""
    troupe, world = cluster(limits=Limits(stop_deadline_ms=500))
    async with world:
        key = "patient"
        job = await troupe.app.jobs.schedule(troupe.cell(key).work, "long", 3.0)
        for count in range(1, 5):
            await begun(troupe, world, "long", count)
            owner = owner_of(world, key)
            await owner.stop()
            await begun(troupe, world, "long", count + 1)
            await owner.start()
        await ends_well(troupe, world, key, job, after_s=4)


async def ends_well(troupe: Troupe, world: World, key: str, job: Job, *, after_s: int) -> None:
    """It is done in what is still its first attempt, and happened once."""
    assert len(troupe.runs("long")) == 5
    await world.advance(seconds=after_s)
    found = await troupe.app.jobs.get(job.id)
    assert (found.state, found.attempt, await world.parked()) == ("done", 1, [])
    assert (await world.rows(troupe.Cell, key))["did:long"] == 1
