"""One clock for the deployment, whatever the machines' own say. On the memory store, whose clock is the world's."""

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conformance.cluster_stage import Troupe, key_of, keys_of
from tests.conformance.test_cluster_hints import bucket_stage
from tests.sim.cluster_clients import Door
from wakeful.jobs.jobs import Jobs
from wakeful.policy.lease import Lease
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.store.protocol import Store
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.errors import NotRunning
from wakeful.values.ids import SHARDS
from wakeful.values.times import to_datetime

HOUR_MS = 3_600_000


def stage(**options: object) -> tuple[Troupe, World]:
    troupe = Troupe()
    troupe.world = troupe.app.world(nodes=3, **options)  # type: ignore[arg-type]
    return troupe, troupe.world


async def lateness(troupe: Troupe, world: World, member: Member, *, count: int = 30, every_ms: int = 700) -> list[int]:
    """How late, by the world's clock, jobs run that fall due on that node by and by."""
    keys = keys_of(member, count)
    due = {key: world.warp.now() + (index + 1) * every_ms for index, key in enumerate(keys)}
    door = next(one for one in world.members if one is not member)
    for key, at in due.items():
        await troupe.at(door, key).arm(at - world.warp.now())
    await world.advance(milliseconds=(count + 1) * every_ms + 8_000)
    assert sorted(what for what, *_ in troupe.ran) == sorted(f"alarm {key}" for key in keys)
    return [at - due[what.removeprefix("alarm ")] for what, _, at in troupe.ran]


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS, 400, -400, 3])
async def test_a_constant_offset_of_a_node_s_clock_changes_nothing(
    ahead_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    troupe, world = stage()
    async with world:
        wrong = world.members[1]
        await wrong.stop()
        wrong.clock.step(ahead_ms)
        await wrong.start()
        await world.balance()
        late = await lateness(troupe, world, wrong)
        assert (min(late), max(late)) == (0, 0)
        assert {node for _, node, _ in troupe.ran} == {wrong.name}
        assert wrong.node is not None
        assert wrong.node.clock.now() == world.warp.now()
        assert ("clock.offset" in {getattr(record, "code", "") for record in caplog.records}) == (abs(ahead_ms) > 1_000)


@pytest.mark.parametrize("rate", [1.001, 0.999, 1.01, 0.99])
async def test_a_clock_that_drifts_a_little_is_followed_to_within_what_it_gains_between_two_looks(rate: float) -> None:
    troupe, world = stage()
    async with world:
        wrong = world.members[1]
        wrong.clock.drift(rate)
        late = await lateness(troupe, world, wrong)
        gain_ms = abs(rate - 1) * (Lease().renew_ms + 400) + 3
        assert -gain_ms <= min(late)
        assert max(late) <= gain_ms + 1
        assert wrong.node is not None
        assert isinstance(wrong.node.clock, FollowedClock)
        assert wrong.node.clock.doubt is None


@pytest.mark.parametrize("rate", [1.3, 0.7])
async def test_a_clock_that_drifts_wildly_holds_firing_and_says_so_until_it_is_mended(
    rate: float, caplog: pytest.LogCaptureFixture
) -> None:
    troupe, world = stage()
    async with world:
        wrong = world.members[1]
        wrong.clock.drift(rate)
        await world.advance(seconds=4)
        assert wrong.node is not None
        assert isinstance(wrong.node.clock, FollowedClock)
        assert wrong.node.clock.doubt is not None
        assert "clock.doubt" in {getattr(record, "code", "") for record in caplog.records}
        key = key_of(wrong)
        await troupe.at(world.members[0], key).arm(1_000)
        due_at = world.warp.now() + 1_000
        await world.advance(seconds=6)
        assert troupe.ran == []  # it waits; calls are answered all the same
        assert await troupe.at(world.members[0], key).add() == 1
        wrong.clock.drift(1.0)
        await world.advance(seconds=3)
        ((what, node, at),) = troupe.ran
        assert (what, node) == (f"alarm {key}", wrong.name)
        assert at >= due_at
        assert wrong.node.clock.doubt is None


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, 200, -200])
async def test_a_clock_that_is_set_while_the_node_runs_changes_nothing(by_ms: int) -> None:
    troupe, world = stage()
    async with world:
        wrong = world.members[1]
        keys = keys_of(wrong, 6)
        due = {}
        for index, key in enumerate(keys):
            await troupe.at(world.members[0], key).arm(1_000 * (index + 1))
            due[f"alarm {key}"] = world.warp.now() + 1_000 * (index + 1)
        await world.advance(milliseconds=2_500)
        wrong.clock.step(by_ms)
        await world.advance(seconds=8)
        assert {what: at for what, _, at in troupe.ran} == due
        assert wrong.node is not None
        assert wrong.node.clock.now() == world.warp.now()


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, 2_000, -2_000])
async def test_a_step_that_nobody_told_of_holds_firing_until_it_is_measured_twice(
    by_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    troupe, world = stage()
    caplog.set_level(logging.WARNING, "wakeful")
    async with world:
        wrong = world.members[1]
        key, other = keys_of(wrong, 2)
        assert wrong.node is not None
        wrong.clock._own_base += by_ms  # as a virtual machine's clock jumps: no watcher hears of it
        await world.advance(milliseconds=Lease().renew_ms + 50)
        due_at = world.warp.now()
        for target, after_ms in ((key, 100), (other, 2_000)):
            at = to_datetime(due_at + after_ms)
            await troupe.app.jobs.schedule(troupe.cell(target).work, target, at=at)
        await world.advance(seconds=8)
        codes = [getattr(record, "code", "") for record in caplog.records]
        assert "clock.doubt" in codes
        assert "clock.trust" in codes
        ran = {what: at - due_at for what, _, at in troupe.ran}
        assert 100 <= ran[key] <= 1_000
        assert ran[other] == 2_000
        assert {node for _, node, _ in troupe.ran} == {wrong.name}
        assert wrong.node.clock.now() == world.warp.now()


async def test_a_clock_that_can_t_be_measured_holds_firing() -> None:
    troupe, world = stage()
    async with world:
        wrong = world.members[1]
        key = key_of(wrong)
        await troupe.at(world.members[0], key).arm(3_000)
        due_at = world.warp.now() + 3_000
        wrong.cut_off()
        await world.advance(milliseconds=Lease().renew_ms + 100)
        node = wrong.node
        assert node is not None
        assert node.state == "down"
        await world.advance(seconds=8)
        ((_, runner, at),) = troupe.ran
        assert runner != wrong.name
        assert at >= due_at


async def test_leases_and_timers_mean_the_same_instant_on_nodes_whose_clocks_differ_by_hours() -> None:
    troupe, world = stage(sees=False)
    async with world:
        for member, ahead_ms in zip(world.members, (0, HOUR_MS, -HOUR_MS), strict=True):
            await member.stop()
            member.clock.step(ahead_ms)
            await member.start()
        await world.balance()
        before = [dict(member.node.epochs) for member in world.members if member.node is not None]
        await world.advance(seconds=20)
        assert [dict(member.node.epochs) for member in world.members if member.node is not None] == before
        rows = await world.store.nodes()
        assert all(0 < row.lease_until - world.warp.now() <= 5_000 for row in rows)
        assert await troupe.cell("a").add() == 1


async def test_the_deployment_s_clock_may_be_set_ahead_and_nodes_follow() -> None:
    troupe, world = stage()
    async with world:
        await troupe.cell("a").arm(60_000)
        world.warp.step(30_000)
        await world.advance(seconds=20)
        assert troupe.ran == []
        await world.advance(seconds=12)
        assert len(troupe.ran) == 1
        for member in world.members:
            assert member.node is not None
            assert member.node.clock.now() == world.warp.now()


@pytest.mark.parametrize("state", ["new", "stopping", "stopped"])
async def test_a_node_that_is_not_up_takes_no_jobs(state: str) -> None:
    """Before it has looked at the deployment's clock, "now" may be an hour off, and its errands with it."""
    troupe, world = stage()
    async with world:
        door = world.members[1]
        assert door.node is not None
        door.node.state, was = state, door.node.state
        with pytest.raises(NotRunning):
            await Jobs(Door(door)).schedule(troupe.at(world.members[0], key_of(door)).arm, 5)
        door.node.state = was


async def test_a_clock_that_is_set_while_a_node_stops_changes_no_timer_of_its_last_turns() -> None:
    _, world = stage()
    async with world:
        member = world.members[1]
        node = member.node
        assert node is not None
        node.dispatcher.stop()
        node.membership.stop()
        member.clock.step(HOUR_MS)
        assert node.clock.now() == world.warp.now()


async def test_a_node_that_joined_by_a_wrong_clock_gets_its_share_all_the_same() -> None:
    """Seed 12700: its clock was set ahead while it started, so it seemed too young for an hour, and shards had no owner."""
    _, world = stage()
    async with world:
        wrong, dying = world.members[1], world.members[0]
        row = world._disk.nodes[wrong.name]
        world._disk.nodes[wrong.name] = replace(row, joined_at=row.joined_at + HOUR_MS)
        dying.kill()
        await world.advance(seconds=20)
        held = [len(member.node.epochs) for member in world.members if member.node is not None]
        assert sorted(held) == [128, 128]


async def test_a_clock_that_is_set_while_a_node_starts_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, world = stage()
    async with world:
        member = world.members[1]
        await member.stop()
        start = FollowedClock.start

        async def and_then(clock: FollowedClock, store: Store) -> None:
            await start(clock, store)
            member.clock.step(HOUR_MS)

        monkeypatch.setattr(FollowedClock, "start", and_then)
        await member.start()
        assert member.node is not None
        assert member.node.membership.joined_at <= world.warp.now()


# A bucket has no clock that nodes could follow.


async def come_with_a_wrong_clock(world: World, member: Member, ahead_ms: int) -> None:
    """Set it and start the node, which may wait for half a lease."""
    member.clock.step(ahead_ms)
    await asyncio.gather(member.start(), world.advance(seconds=9))


@pytest.mark.parametrize("ahead_ms", [3 * HOUR_MS, -3 * HOUR_MS])
async def test_on_a_bucket_a_node_that_comes_with_a_wrong_clock_takes_nobody_for_dead(
    tmp_path: Path, ahead_ms: int
) -> None:
    _, world = bucket_stage(tmp_path)
    async with world:
        wrong, *others = world.members
        await wrong.stop()
        await world.advance(seconds=9)
        claims = [dict(member.node.epochs) for member in others if member.node is not None]
        await come_with_a_wrong_clock(world, wrong, ahead_ms)
        assert wrong.node is not None
        assert wrong.node.membership.others == {member.name for member in others}
        await world.advance(seconds=30)
        owned = [dict(member.node.epochs) for member in (wrong, *others) if member.node is not None]
        assert sum(map(len, owned)) == SHARDS
        for before, after in zip(claims, owned[1:], strict=True):
            assert after.items() <= before.items(), "nobody had to take back what was taken away"


async def test_on_a_bucket_a_clock_that_is_far_ahead_is_said_when_its_node_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, world = bucket_stage(tmp_path)
    async with world:
        wrong, *others = world.members
        await wrong.stop()
        await come_with_a_wrong_clock(world, wrong, HOUR_MS)
        said = [record for record in caplog.records if getattr(record, "code", "") == "clock.apart"]
        assert [record.args[1] for record in said if isinstance(record.args, tuple)] == [one.name for one in others]
        assert all("about 36" in record.getMessage() for record in said), "seconds, with those since it was renewed"
