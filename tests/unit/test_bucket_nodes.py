"""Several nodes on one bucket: each knows what came before what it writes, also when it stood still for long."""

import asyncio
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conformance.cluster_stage import Troupe
from tests.unit.bucket_process import Process, everything, kill, log_of, pass_hours, session_of, two
from wakeful import App
from wakeful.store import open_url
from wakeful.store.bucket import recorder, shared_log
from wakeful.store.bucket.keys import slot_key
from wakeful.store.bucket.store import suspended_s
from wakeful.store.protocol import Hint, NodeRow, Query
from wakeful.store.sqlite.owner import owner_of
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.suites.harness import ALL, NOW, A, entry, timer
from wakeful.values.commits import Commit
from wakeful.values.errors import (
    Fenced,
    OutcomeUnknown,
    StoreDown,
    StoreError,
    Unavailable,
    WrongCluster,
)
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Timer


async def test_what_one_node_writes_the_others_read(tmp_path: Path) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    await first.put("mine")
    assert await second.keys() == ["mine"]
    await second.store.insert([timer(name="job:1")], now=NOW)
    assert [one.name for one in await first.store.find_timers(everything())] == ["job:1"]
    await asyncio.gather(*(one.store.insert([timer(name=f"job:{n}-{one.node}")], now=NOW) for one in (first, second) for n in range(20)))  # fmt: skip
    assert await first.store.count("timers") == await second.store.count("timers") == 41
    assert await second.store.insert([timer(name="job:1")], now=NOW) != []
    for one in (first, second):
        await one.store.close()


async def test_two_that_write_at_once_number_the_ledger_as_one(tmp_path: Path) -> None:
    """Whatever is made of what is there is made of all that is there."""
    first, second = await two(EmulatedBucket(), tmp_path)
    second.epochs = await second.store.claim(second.node, range(128), now=NOW)
    some = [ObjectId("Order", f"{n}") for n in range(20)]
    ids = {
        first.node: next(id for id in some if shard_of(id) >= 128),
        second.node: next(id for id in some if shard_of(id) < 128),
    }

    async def write(one: Process) -> None:
        id = ids[one.node]
        for n in range(15):
            turn = Commit(id=id, shard=shard_of(id), epoch=one.epochs[shard_of(id)], now=NOW, entries=[entry(id, run_id=f"{n}")])  # fmt: skip
            assert await one.store.commit(one.node, [turn]) == [None]

    await asyncio.gather(write(first), write(second))
    found = [await one.store.find_entries(Query(limit=100)) for one in (first, second)]
    assert found[0] == found[1]
    assert [number for number, _ in found[0]] == list(range(30, 0, -1))
    for one in (first, second):
        await one.store.close()


async def test_who_lost_its_shards_is_fenced_by_the_slot_that_took_them(tmp_path: Path) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    await first.put("mine")
    await second.store.claim(second.node, ALL, now=NOW)
    [outcome] = await first.try_to_put("too late")  # which it has not heard of yet
    assert isinstance(outcome, Fenced)
    assert await second.keys() == await first.keys() == ["mine"]
    for one in (first, second):
        await one.store.close()


async def test_a_claim_meets_what_was_claimed_before_it_had_read_that(tmp_path: Path) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    seen = dict.fromkeys(range(9), 1)
    won = await asyncio.gather(*(one.store.claim(one.node, range(9), now=NOW, seen=seen) for one in (first, second)))
    assert sorted(map(len, won)) == [0, 9]
    for one in (first, second):
        await one.store.close()


async def test_a_node_hears_of_timers_and_of_nodes_from_the_log_itself(tmp_path: Path) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    heard: list[list[Hint]] = []
    first.store.watch(lambda hints: heard.append(list(hints)))
    await second.store.insert([timer(name="job:1", due_at=NOW + 7)], now=NOW)
    await first.store.nodes()
    await asyncio.sleep(0)
    assert heard == [[Hint(shard_of(A), NOW + 7, NOW + 7)]]
    row = NodeRow("node-b", "host:1", NOW, NOW + 5, "b")
    await second.store.join(row)
    await first.store.nodes()
    await asyncio.sleep(0)
    await second.store.join(replace(row, lease_until=NOW + 10))  # a renewal, of which nobody has to hear
    await first.store.nodes()
    await asyncio.sleep(0)
    assert heard[1:] == [[]]
    for one in (first, second):
        await one.store.close()


async def test_nodes_and_owners_come_from_one_look(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path).start()
    before = bucket.requests
    await first.store.nodes()
    await first.store.owners()
    assert bucket.requests - before == 1
    await first.store.owners()
    assert bucket.requests - before == 2
    await first.store.close()


async def test_reads_of_what_is_ours_ask_the_bucket_for_nothing(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first, second = await two(bucket, tmp_path)
    await first.put("mine")
    before = bucket.requests
    assert await first.keys() == ["mine"]
    await first.store.load([A])
    await first.store.timers([shard_of(A)], after=None, until=NOW, limit=9)
    assert bucket.requests == before
    await second.keys()
    assert bucket.requests > before
    for one in (first, second):
        await one.store.close()


async def test_processes_of_one_machine_have_a_local_file_each(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    stores = [open_url(bucket.url(cache=tmp_path)) for _ in range(3)]
    for store in stores:
        await store.open(now=NOW)
    paths = [session_of(store).path for store in stores]
    assert len(set(paths)) == 3
    assert {Path(path).parent for path in paths} == {tmp_path}
    for store in stores:
        await store.close()
    again = open_url(bucket.url(cache=tmp_path))
    await again.open(now=NOW)
    assert session_of(again).path == paths[0]
    await again.close()


async def test_a_process_that_died_is_not_waited_for(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    await first.put("written")
    kill(first.store)
    second = await asyncio.wait_for(Process(bucket, tmp_path / "b").start(), 5)
    assert await second.keys() == ["written"]
    await second.store.close()


async def test_a_node_that_died_with_a_local_file_is_known_to_be_dead_to_whoever_has_the_file_next(
    tmp_path: Path,
) -> None:
    bucket = EmulatedBucket()
    row = NodeRow("node-b", "", NOW, NOW + 5, "b")
    for way in ("killed", "stopped in an outage", "left"):
        first = open_url(bucket.url(cache=tmp_path))
        await first.open(now=NOW)
        await first.join(row)
        if way == "left":
            await first.leave(row.node)
        if way == "killed":
            kill(first)
        else:
            await first.close()
        assert ("node" in owner_of(first.path)) == (way != "left")
        second = open_url(bucket.url(cache=tmp_path))
        await second.open(now=NOW)
        assert [one.is_here for one in await second.nodes()] == ([] if way == "left" else [False])
        await second.close()


async def test_who_has_the_file_of_a_node_that_died_tells_the_others_and_believes_one_that_renews_its_lease(
    tmp_path: Path,
) -> None:
    bucket = EmulatedBucket()
    other = open_url(bucket.url(cache=tmp_path / "b"))
    await other.open(now=NOW)
    heard: list[list[Hint]] = []
    other.watch(lambda hints: heard.append(list(hints)))
    first = open_url(bucket.url(cache=tmp_path / "a"))
    await first.open(now=NOW)
    row = NodeRow("node-b", "", NOW, NOW + 5, "b")
    await first.join(row)
    assert [(one.lease_until, one.is_here) for one in await other.nodes()] == [(NOW + 5, None)]
    kill(first)
    second = open_url(bucket.url(cache=tmp_path / "a"))
    await second.open(now=NOW)
    await second.nodes()
    await asyncio.sleep(0)
    heard.clear()
    assert [(one.lease_until, one.is_here) for one in await other.nodes()] == [(NOW + 5, False)]
    await asyncio.sleep(0)
    assert heard == [[]], "it looks at once"
    await other.join(replace(row, lease_until=NOW + 9))  # the file was a copy, and the node lives on another machine
    for store in (other, second, second):
        assert [(one.lease_until, one.is_here) for one in await store.nodes()] == [(NOW + 9, None)]
    await second.close()
    await other.close()


# What others would not read is not written


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may take a hundred thousand instructions, and not a thousand million."""
    monkeypatch.setattr(recorder, "_STEP", 1_000)
    monkeypatch.setattr(recorder, "STEPS_MAX", 100)


def _jobs(first: int, count: int) -> list[Timer]:
    return [timer(name=f"job:{n}") for n in range(first, first + count)]


async def test_a_write_that_others_would_refuse_to_read_is_refused_before_it_is_in_the_bucket(
    tmp_path: Path, narrow: None
) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    slot = log_of(first.store).slot
    with pytest.raises(StoreError, match=r"instructions of SQLite.* write it in parts") as refused:
        await first.store.insert(_jobs(0, 2_000), now=NOW)
    assert refused.value.code == "store.record"
    assert log_of(first.store).slot == slot
    await first.store.insert(_jobs(0, 200), now=NOW)
    assert await second.store.count("timers") == 200
    for one in (first, second):
        await one.store.close()


async def test_writes_that_others_would_not_read_in_one_record_go_into_several(tmp_path: Path, narrow: None) -> None:
    first, second = await two(EmulatedBucket(), tmp_path)
    slot = log_of(first.store).slot
    await asyncio.gather(*(first.store.insert(_jobs(n * 200, 200), now=NOW) for n in range(10)))
    assert log_of(first.store).slot - slot >= 10
    assert await second.store.count("timers") == 2_000
    for one in (first, second):
        await one.store.close()


# Who stood still, while others wrote, and what they wrote was removed


async def _overtake(bucket: EmulatedBucket, folder: Path, count: int) -> Process:
    """Somebody else writes, and makes snapshots that let everything go that was there before."""
    other = await Process(bucket, folder).start()
    for n in range(count):
        await other.put(f"other{n}")
    for _ in range(3):
        await asyncio.to_thread(session_of(other.store).snapshot)
    return other


async def _one_overtaken(folder: Path) -> tuple[EmulatedBucket, Process, Process]:
    """A node that stood still for hours, and the one that went on."""
    bucket = EmulatedBucket()
    pass_hours(bucket)
    first = await Process(bucket, folder / "a").start()
    return bucket, first, await _overtake(bucket, folder / "b", 5)


async def test_who_stood_still_for_long_is_not_deceived_by_a_slot_that_was_removed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    pass_hours(bucket)
    first = await Process(bucket, tmp_path / "a").start()
    await first.put("mine")
    slot = log_of(first.store).slot + 1
    other = await _overtake(bucket, tmp_path / "b", 5)
    assert slot_key(slot) not in bucket.objects, "else nothing is tried here"
    log_of(first.store).proven_at -= 3_600
    with pytest.raises(OutcomeUnknown, match="stood still"):
        await first.try_to_put("too late")
    assert slot_key(slot) not in bucket.objects  # nor is anybody else
    await first.store.open(now=NOW)
    assert isinstance((await first.try_to_put("too late"))[0], Fenced)
    assert (
        await first.keys()
        == await other.keys()
        == [*(f"other{n}" for n in range(5)), "mine"][-1:] + [f"other{n}" for n in range(5)]
    )
    for one in (first, other):
        await one.store.close()


async def test_an_answer_that_came_late_proves_nothing_of_the_time_it_took(tmp_path: Path) -> None:
    """Others went on for an hour after it was done, and when it is heard what comes next has not been removed yet."""
    bucket = EmulatedBucket()
    pass_hours(bucket)
    first, other = await two(bucket, tmp_path)
    mine = ObjectId("Order", "mine")
    loop, log = asyncio.get_running_loop(), log_of(first.store)
    late_s = 0.0
    log._seconds = lambda: loop.time() + late_s

    async def go_on() -> None:
        await other.start()
        for n in range(5):
            await other.put(f"other{n}")
        await asyncio.to_thread(session_of(other.store).snapshot)

    def linger(verb: str, key: str) -> None:
        nonlocal late_s
        if key == slot_key(slot):
            bucket.on_answer = lambda verb, key: None
            asyncio.run_coroutine_threadsafe(go_on(), loop).result()
            late_s += 3_600

    slot = log.slot + 1
    bucket.on_answer = linger
    await first.store.insert([timer(mine)], now=NOW)
    assert slot_key(slot + 1) in bucket.objects
    for _ in range(2):
        await asyncio.to_thread(session_of(other.store).snapshot)
    assert slot_key(slot + 1) not in bucket.objects, "else nothing is tried here"
    with pytest.raises(OutcomeUnknown, match="stood still"):
        await first.store.insert([timer(mine, name="job:2")], now=NOW)
    for one in (first, other):
        await one.store.close()


async def test_a_machine_that_was_suspended_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, other = await _one_overtaken(tmp_path)
    asleep_s = suspended_s()
    monkeypatch.setattr("wakeful.store.bucket.store.suspended_s", lambda: asleep_s + 7_200)
    with pytest.raises(OutcomeUnknown, match="stood still"):
        await first.try_to_put("too late")
    for one in (first, other):
        await one.store.close()


async def test_who_stood_still_for_long_does_not_take_a_gap_for_the_end(tmp_path: Path) -> None:
    _, first, other = await _one_overtaken(tmp_path)
    log_of(first.store).proven_at -= 3_600
    with pytest.raises(StoreDown, match="stood still") as behind:
        await first.store.owners()
    assert behind.value.code == "store.lag"
    await first.store.open(now=NOW)
    assert len(await first.keys()) == 5
    for one in (first, other):
        await one.store.close()


async def test_a_snapshot_of_a_node_that_stood_still_does_not_become_the_newest(tmp_path: Path) -> None:
    bucket, first, other = await _one_overtaken(tmp_path)
    there = [key for key in bucket.objects if key.startswith("snapshots/")]
    await asyncio.to_thread(session_of(first.store).snapshot)
    assert [key for key in bucket.objects if key.startswith("snapshots/")] == there
    third = await Process(bucket, tmp_path / "c").start()
    assert len(await third.keys()) == 5
    for one in (first, other, third):
        await one.store.close()


async def test_what_was_there_for_less_than_an_hour_is_not_removed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    bucket.clock = lambda: 7_000_000 + bucket.requests
    first = await Process(bucket, tmp_path / "a").start()
    slots = {key for key in bucket.objects if key.startswith("slots/")}
    other = await _overtake(bucket, tmp_path / "b", 5)
    assert slots
    assert slots <= bucket.objects.keys()
    log_of(first.store).proven_at -= 3_600  # it looks, and is not behind
    assert isinstance((await first.try_to_put("too late"))[0], Fenced)
    for one in (first, other):
        await one.store.close()


async def test_who_is_quick_asks_for_no_proof(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    first = await Process(bucket, tmp_path / "a").start()
    before = bucket.counts.copy()
    await first.put("one")
    assert (bucket.counts - before)["create"] == 1
    assert (bucket.counts - before)["get"] == 0
    log_of(first.store).proven_at -= shared_log.PROOF_S + 1
    await first.put("two")
    assert (bucket.counts - before)["get"] > 0
    await first.store.close()


async def test_of_records_that_hold_much_few_are_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million timers are a hundred records, which came to 600 MB when they were all read before the first was applied."""
    monkeypatch.setattr(shared_log, "VALUES_MAX", 1)
    first, second = await two(EmulatedBucket(), tmp_path)
    for n in range(6):
        await first.put(f"k{n}")
    slots, is_end = await asyncio.to_thread(log_of(second.store).read)
    assert (len(slots), is_end) == (1, False)
    assert await second.keys() == [f"k{n}" for n in range(6)]
    for one in (first, second):
        await one.store.close()


# Whole nodes


async def test_a_node_of_another_cluster_is_refused_on_the_prefix(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    async with App().run(bucket.url(cache=tmp_path), cluster="blue"):
        with pytest.raises(WrongCluster, match="is of cluster 'blue'"):
            async with App().run(bucket.url(cache=tmp_path), cluster="green"):
                raise AssertionError("it joined")


async def test_a_cluster_whose_credentials_expire_goes_on_by_itself_when_they_are_renewed(tmp_path: Path) -> None:
    bucket = EmulatedBucket()
    troupe = Troupe()
    async with troupe.app.world(nodes=3, store=bucket.url(cache=tmp_path)) as world:
        troupe.world = world
        assert [await troupe.cell(f"k{n}").add() for n in range(6)] == [1] * 6
        bucket.is_forbidden = True
        with pytest.raises(Unavailable):
            await world.get(troupe.Cell, "k1", deadline="3s").add()
        await world.advance(seconds=30)
        bucket.is_forbidden = False
        await world.advance(seconds=30)
        assert [await troupe.cell(f"k{n}").add() for n in range(6)] == [2] * 6


async def test_a_cluster_whose_local_files_are_deleted_makes_them_anew(tmp_path: Path) -> None:
    troupe = Troupe()
    async with troupe.app.world(nodes=3, store=EmulatedBucket().url(cache=tmp_path)) as world:
        troupe.world = world
        assert [await troupe.cell(f"k{n}").add() for n in range(6)] == [1] * 6
        shutil.rmtree(tmp_path)
        await world.advance(seconds=40)
        assert [await troupe.cell(f"k{n}").add() for n in range(6)] == [2] * 6


async def test_all_take_over_at_once_from_a_node_that_died_when_the_next_one_on_its_machine_has_its_file(
    tmp_path: Path,
) -> None:
    troupe = Troupe()
    async with troupe.app.world(nodes=3, store=EmulatedBucket().url(cache=tmp_path)) as world:
        troupe.world = world
        dead = world.members[1]
        await dead.crash()
        await dead.start()
        await world.advance(seconds=5)  # a third of a lease
        sizes = [len(member.node.epochs) for member in world.members if member.node is not None]
        assert sum(sizes) == SHARDS
        assert max(sizes) - min(sizes) <= 1


async def test_a_shard_that_was_busy_is_handed_over_soon_although_the_clock_was_set_back(tmp_path: Path) -> None:
    troupe = Troupe()
    async with troupe.app.world(nodes=3, store=EmulatedBucket().url(cache=tmp_path)) as world:
        troupe.world = world
        busy, other, third = world.members
        await third.stop()
        await world.advance(seconds=5)
        assert busy.node is not None
        busy.clock.step(600_000)
        keys = [f"k{n}" for n in range(400) if shard_of(ObjectId("Cell", f"k{n}")) in busy.node.epochs]
        turns = [asyncio.create_task(troupe.at(busy, key).add(6.0)) for key in keys]
        await world.advance(milliseconds=100)
        await third.start()
        await world.advance(seconds=4)
        assert busy.node.membership._resting, "else nothing is tried here"
        busy.clock.step(-600_000)
        await asyncio.gather(*turns)
        await world.advance(seconds=20)
        sizes = [len(member.node.epochs) for member in (busy, other, third) if member.node is not None]
        assert max(sizes) - min(sizes) <= 1
