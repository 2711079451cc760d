"""A slot goes from one PostgreSQL server to another while everything runs: one owner at every step, nothing lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from uuid import uuid4

import pytest

from tests.spread_stage import BY_SLOT, KEYS, Killed, Servers, Writer
from wakeful.runtime.slot_move import MoveStep
from wakeful.runtime.spread_map import read_map, settle
from wakeful.store.protocol import Receipt, receipt_prefix
from wakeful.store.slots import AWAY, StaleMove
from wakeful.testing.suites.harness import NOW, timer
from wakeful.values.commits import FORGOTTEN_SLOT, USER, Commit
from wakeful.values.errors import BadOption, Conflict, Fenced, SlotMoved
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.times import LATEST_MS

STEPS = ["begin", "seize", "copy", "ask", "fence", "catch", "land", "flip", "clear", "end"]


@pytest.fixture
def urls(postgres_url: str) -> dict[str, str]:
    """Two schemas that count as two servers."""
    with_schema = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema=spread_{uuid4().hex[:12]}"
    return {name: f"{with_schema}_{name}" for name in ("a", "b")}


@asynccontextmanager
async def two(urls: dict[str, str]) -> AsyncIterator[Servers]:
    async with Servers(urls) as servers:
        yield servers


async def test_a_spread_begins_with_its_slots_dealt_evenly_and_each_server_bars_the_others(
    urls: dict[str, str],
) -> None:
    async with two(urls) as servers:
        assert servers.map.counts() == {"a": 128, "b": 128}
        for name, store in servers.stores.items():
            mine = {slot for slot in range(SHARDS) if servers.map.slots[slot] == name}
            assert (await store.claim("n", range(SHARDS), now=NOW)).keys() == mine
            assert {row.shard for row in await store.owners() if row.is_away} == set(range(SHARDS)) - mine
        assert await settle(servers.tables, lambda: "other") == servers.map


async def test_all_that_is_kept_of_an_object_goes_with_its_slot(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        slot, id = next(iter(BY_SLOT.items()))
        await servers.fill(id)
        move = await servers.move_of(slot)
        for _ in range(5):  # its epoch is well above the target's
            await servers.stores[move.source].claim("n", [slot], now=NOW)
        before = await servers.kept(move.source, id)
        assert {table: len(rows) for table, rows in before.items()} == {
            "objects": 1,
            "storage": 5,
            "timers": 3,
            "ledger": 2,
            "parked": 1,
            "requests": 1,
        }
        receipt = Receipt(f"{receipt_prefix(slot)}x", 1, LATEST_MS)
        await servers.stores[move.source].insert([timer(id, "job:1", seq=9)], now=NOW, receipt=receipt)
        before = await servers.kept(move.source, id)
        steps: list[str] = []

        async def heard(step: MoveStep) -> None:
            steps.append(step.step)

        epoch = (await servers.stores[move.source].owners())[slot].epoch
        await servers.mover(heard=heard).move(move)
        assert steps == STEPS
        assert await servers.has(slot) == [move.target]
        assert await servers.kept(move.target, id) == before
        assert await servers.kept(move.source, id) == {}
        [row] = [row for row in await servers.tables[move.source].slots() if row.slot == slot]
        assert (row.state, row.term) == (AWAY, 1)
        target = servers.stores[move.target]
        assert (await target.owners())[slot].epoch > epoch  # so the order of insertion goes on rising
        # What was taken before the slot went is not taken again.
        await target.insert([timer(id, "job:again", seq=10)], now=NOW, receipt=receipt)
        assert "job:again" not in {row[2] for row in (await servers.kept(move.target, id))["timers"]}
        known = await read_map(servers.tables["a"])
        assert known is not None
        assert (known.slots[slot], known.terms[slot], known.moves, known.rests) == (move.target, 1, (), ())


async def test_a_mover_that_is_killed_at_any_trip_is_taken_up_and_nothing_is_lost_or_doubled(
    urls: dict[str, str],
) -> None:
    async with two(urls) as servers:
        kills = 0
        for left, (slot, id) in enumerate(BY_SLOT.items()):
            writer = Writer(servers, id)
            await writer.write()
            move = await servers.move_of(slot)
            try:
                await servers.mover(left, heard=writer.write).move(move)
            except Killed:
                kills += 1
            assert len(await servers.has(slot)) <= 1
            await writer.write()
            await servers.mover(heard=writer.write).resume()
            await writer.write()
            await writer.check()
            known = await read_map(servers.tables["a"])
            assert known is not None
            assert (known.moves, known.rests) == ((), ())
            if left > kills:
                break
        assert kills > 50  # every trip of a whole move, before it and after it


async def test_after_every_step_of_a_killed_mover_the_next_one_goes_on(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        for stop, (slot, id) in zip(STEPS, BY_SLOT.items(), strict=False):
            writer = Writer(servers, id)
            await writer.write()

            async def heard(step: MoveStep, writer: Writer = writer, stop: str = stop) -> None:
                await writer.write()
                if step.step == stop:
                    raise Killed

            with pytest.raises(Killed):
                await servers.mover(heard=heard).move(await servers.move_of(slot))
            await writer.write()
            assert await servers.mover(heard=writer.write).resume() == (stop != "end")
            await writer.write()
            await writer.check()


async def test_objects_that_come_and_go_while_a_slot_is_copied_are_not_overlooked(urls: dict[str, str]) -> None:
    """All names are looked through once, while calls go on; what is new since is found by who wrote it."""
    async with two(urls) as servers:
        slot, old = next(iter(BY_SLOT.items()))
        others = [id for id in (ObjectId("Order", f"new{n}") for n in range(20_000)) if shard_of(id) == slot]
        await servers.fill(old)
        move = await servers.move_of(slot)
        source = servers.stores[move.source]
        came: list[ObjectId] = []
        looks = {"ids": 0, "changes": 0}

        async def heard(step: MoveStep) -> None:
            if step.step not in ("seize", "copy"):
                return
            committed, inserted = others.pop(), others.pop()
            epoch = (await source.claim("n", [slot], now=NOW))[slot]
            new = Commit(
                id=committed, shard=slot, epoch=epoch, now=NOW, puts={(USER, "n"): b"1"}, sets=[timer(committed)]
            )
            assert await source.commit("n", [new]) == [None]
            if step.step == "copy":
                clears = [(str(row[2]), 0) for row in (await servers.kept(move.source, old))["timers"]]
                marked = Commit(id=old, shard=slot, epoch=epoch, now=NOW, puts={FORGOTTEN_SLOT: b"m"}, clears=clears)
                assert await source.commit("n", [marked]) == [None]
                await source.erase("n", old, epoch, now=NOW, limit=1_000)
                assert not await servers.kept(move.source, old)
            assert await source.insert([timer(inserted, "job:1", seq=7)], now=NOW) == []
            came.extend((committed, inserted))

        mover = servers.mover(heard=heard)
        for name in looks:
            tables = mover._servers[move.source]
            verb = getattr(tables, name)

            async def counted(*args: object, verb: Any = verb, name: str = name) -> Any:
                looks[name] += 1
                return await verb(*args)

            setattr(tables, name, counted)
        await mover.move(move)
        assert looks["ids"] == 1
        assert looks["changes"] >= 1
        assert len(came) == 4
        for id in came:
            assert await servers.kept(move.target, id), id
            assert not await servers.kept(move.source, id), id
        assert not await servers.kept(move.target, old)


async def test_people_see_an_object_once_wherever_its_slot_is(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        slot, id = next(iter(BY_SLOT.items()))
        await servers.fill(id)
        await servers.fill(next(one for one in KEYS if shard_of(one) != slot and not one.key.startswith(id.key)))
        writer = Writer(servers, id)
        seen: dict[str, int] = {}

        async def heard(step: MoveStep) -> None:
            seen[step.step] = await writer.seen()

        await servers.mover(heard=heard).move(await servers.move_of(slot))
        # Once it has arrived it is seen twice, until what is left is being removed, which is next.
        assert seen == dict.fromkeys(STEPS, 1) | {"land": 2, "flip": 2}


async def test_two_movers_of_one_slot_do_no_harm(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        slot, id = next(iter(BY_SLOT.items()))
        await servers.fill(id)
        writer = Writer(servers, id)
        await writer.write()
        move = await servers.move_of(slot)
        for stop in STEPS[1:6]:
            # One is frozen after this step, another takes it up and ends it, and then the first goes on.

            async def take_over(step: MoveStep, stop: str = stop) -> None:
                await writer.write()
                if step.step == stop:
                    await servers.mover(heard=writer.write).resume()

            move = await servers.move_of(slot)
            # Whoever has landed it has only to say so, which the other has done for it.
            with pytest.raises(StaleMove) if stop != "land" else nullcontext():
                await servers.mover(heard=take_over).move(move)
            await servers.mover().resume()
            assert await servers.has(slot) == [move.target]
            await writer.check()


async def test_what_is_old_is_refused_at_either_server(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        slot, id = next(iter(BY_SLOT.items()))
        move = await servers.move_of(slot)
        source, target = servers.stores[move.source], servers.stores[move.target]
        epoch = (await source.claim("n", [slot], now=NOW))[slot]
        await servers.mover().move(move)
        late = Commit(id=id, shard=slot, epoch=epoch, now=NOW, puts={(USER, "x"): b"1"})
        assert isinstance((await source.commit("n", [late]))[0], Fenced)
        assert await source.claim("n", [slot], now=NOW) == {}
        with pytest.raises(SlotMoved, match=f"slots {slot} are not on") as caught:
            await source.insert([timer(id)], now=NOW)
        assert caught.value.slots == (slot,)
        assert await target.insert([timer(id)], now=NOW) == []
        tables = servers.tables
        with pytest.raises(StaleMove, match="at term 1, and this move has 1"):
            await tables[move.target].fence(slot, 1)
        assert await tables[move.target].seize(slot, 1, "late") is False
        with pytest.raises(StaleMove, match="another mover"):
            await tables[move.target].write(slot, "late", [id], None)
        with pytest.raises(StaleMove, match="another mover"):
            await tables[move.target].land(slot, 2, "late", above=0)
        assert await tables[move.source].seize_rest(slot, 0, "late") is False
        with pytest.raises(Conflict, match="plan again"):
            await servers.mover().move(move)
        assert await servers.kept(move.target, id) != {}


async def test_an_insert_of_many_meets_a_slot_that_left_as_one_and_leaves_nothing(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        slot = next(slot for slot in BY_SLOT if servers.map.slots[slot] == "a")
        await servers.mover().move(await servers.move_of(slot))
        many = [timer(ObjectId("Order", f"n{n}"), "job:1", seq=n) for n in range(6_000)]
        here = [one for one in many if servers.map.slots[shard_of(one.id)] == "a"]
        there = [one for one in here if shard_of(one.id) != slot]
        store = servers.stores["a"]
        receipt = Receipt("i", 1, NOW + 9_000_000)
        with pytest.raises(SlotMoved):
            await store.insert(here, now=NOW, receipt=receipt)
        assert await store.count("timers") == 0
        assert await store.insert(there, now=NOW, receipt=receipt) == []
        assert await store.insert(there, now=NOW, receipt=receipt) == []
        assert await store.count("timers") == len(there)


async def test_a_server_that_has_objects_keeps_all_slots_until_they_are_moved(urls: dict[str, str]) -> None:
    from wakeful.store import open_url

    store = open_url(urls["a"])
    await store.open(now=NOW)
    await store.insert([timer()], now=NOW)
    await store.close()
    async with two(urls) as servers:
        assert servers.map.counts() == {"a": 256, "b": 0}
    async with Servers({"a": urls["a"]}) as one:
        assert one.map.servers == ("a", "b")


async def test_servers_that_do_not_belong_together_are_refused(urls: dict[str, str]) -> None:
    other = {name: f"{url}2" for name, url in urls.items()}
    async with two(urls) as servers, two(other) as others:
        for wrong in (
            {"a": servers.tables["a"], "b": others.tables["b"]},
            {"a": servers.tables["b"], "b": servers.tables["a"]},
            {"b": servers.tables["b"], "a": servers.tables["a"]},
            {"c": servers.tables["a"], "b": servers.tables["b"]},
        ):
            with pytest.raises(BadOption, match=r"spread|first"):
                await settle(wrong, lambda: "s2")


async def test_only_one_rebalance_at_a_time(urls: dict[str, str]) -> None:
    async with two(urls) as servers:
        again = Servers(urls)
        async with again:
            await servers.mover().take()
            with pytest.raises(Conflict, match="another"):
                await again.mover().take()
