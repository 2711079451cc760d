"""Timers from elsewhere on the stores with disks: many at once, invalid ones among them, two who add the same."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from wakeful.store import Query, Store, open_url
from wakeful.store.postgres import wire
from wakeful.store.postgres.inserter import INSERT_ROWS
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import Fenced, StoreError, WakefulError
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Timer

NOW = 1_700_000_000_000
A, B, C = (ObjectId("Order", key) for key in "abc")
BAD = "job:\ud800"  # no store on disk can hold half a character
MANY = INSERT_ROWS + 1

pytestmark = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open(now=NOW)
    try:
        await store.claim("a", range(SHARDS), now=NOW)
        yield store
    finally:
        await store.close()


def turn(id: ObjectId, **what: Any) -> Commit:
    return Commit(id=id, shard=shard_of(id), epoch=1, now=NOW, **what)


def timer(id: ObjectId, name: str = "job:1", seq: int = 1) -> Timer:
    return Timer(id, name, NOW, NOW, seq)


def many(first: int, count: int) -> list[Timer]:
    return [timer(ObjectId("Job", f"{n % 700}"), f"job:{n}", n) for n in range(first, first + count)]


async def test_a_bulk_insert_is_all_or_none(kind: str, store_of: Callable[[str], Store]) -> None:
    async with opened(store_of(kind)) as store:
        there = many(MANY - 3, 2)
        assert await store.insert(there, now=NOW) == []
        taken = await store.insert(many(0, MANY)[::-1], now=NOW + 1)
        assert [one.timer for one in taken] == there[::-1]
        assert (await store.count("timers"), await store.count("objects")) == (2, 2)
        with pytest.raises(WakefulError):
            await store.insert([*many(MANY, MANY), timer(A, BAD)], now=NOW)
        with pytest.raises(WakefulError, match="twice"):
            await store.insert([*many(MANY, MANY), timer(A), timer(A)], now=NOW)
        assert (await store.count("timers"), await store.count("objects")) == (2, 2)
        assert await store.insert(many(MANY, MANY)[::-1], now=NOW + 1) == []
        assert (await store.count("timers"), await store.count("objects")) == (MANY + 2, 700)
        assert await store.find_timers(Query(limit=2 * MANY)) == [*there, *many(MANY, MANY)]
        known = {info.id.key: info.created_at for info in await store.find_objects(Query(limit=1000))}
        assert (known[there[0].id.key], known["0"]) == (NOW, NOW + 1)


async def test_inserts_of_the_same_names_side_by_side_are_taken_by_one(
    kind: str, store_of: Callable[[str], Store]
) -> None:
    async with opened(store_of(kind)) as store:
        for count in (40, MANY):
            names = many(count * 10, count)
            answers = await asyncio.gather(
                store.insert(names, now=NOW), store.insert(names[::-1], now=NOW), store.insert(names[5:], now=NOW)
            )
            assert sorted(map(len, answers))[0] == 0
            assert sum(not taken for taken in answers) == 1
            winner = next(n for n, taken in enumerate(answers) if not taken)
            assert await store.count("timers") in ((len(names), len(names) - 5)[winner == 2], MANY + 40, MANY + 35)
            for taken in answers:
                assert {one.timer.name for one in taken if one.timer} <= {one.name for one in names}


async def test_a_commit_with_an_invalid_send_fails_alone_with_those_that_build_on_it(
    kind: str, store_of: Callable[[str], Store]
) -> None:
    async with opened(store_of(kind)) as store:
        outcomes = await store.commit(
            "a",
            [
                turn(B, puts={(USER, "x"): b"1"}, sends=[timer(C)]),
                turn(A, puts={(USER, "x"): b"1"}, sends=[timer(C, "job:2"), timer(C, BAD)]),
                turn(C, clears=[("job:1", 0)]),  # apart from the first, which sends it
                turn(A, puts={(USER, "y"): b"1"}),
                turn(B, puts={(USER, "y"): b"1"}),
            ],
        )
        assert [type(outcome) for outcome in (outcomes[0], outcomes[2], outcomes[4])] == [type(None)] * 3
        assert all(isinstance(outcomes[n], StoreError) for n in (1, 3))
        assert await store.find_timers(Query()) == []
        assert [info.id for info in await store.find_objects(Query())] == [B, C]


async def test_a_fenced_commit_of_a_group_that_counts_in_order_leaves_the_others(
    kind: str, store_of: Callable[[str], Store]
) -> None:
    async with opened(store_of(kind)) as store:
        await store.claim("b", [shard_of(C)], now=NOW)
        sent = timer(C)
        outcomes = await store.commit(
            "a", [turn(A, sends=[sent]), turn(C, clears=[("job:1", 0)]), turn(B, sends=[timer(C, seq=2)])]
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), Fenced, type(None)]
        assert await store.find_timers(Query()) == [sent]


async def test_nodes_that_send_to_each_other_s_new_objects_and_inserts_of_them_never_deadlock(
    kind: str, postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind != "postgres":
        pytest.skip("one writer has nobody to wait for")
    monkeypatch.setattr(wire, "_AGAIN", ("none",))  # a deadlock would be tried again, a second late, and go unseen
    dice = Random(1)
    stores = [open_url(postgres_schema_url) for _ in range(3)]
    try:
        for store in stores:
            await store.open(now=NOW)
        await stores[0].claim("a", range(128), now=NOW)
        await stores[1].claim("b", range(128, 256), now=NOW)
        for round in range(40):
            ids = [ObjectId("New", f"{round}-{n}") for n in range(60)]

            def group(is_low: bool, ids: list[ObjectId] = ids, round: int = round) -> list[Commit]:
                mine = [id for id in ids if (shard_of(id) < 128) == is_low]
                dice.shuffle(mine)
                return [turn(id, sends=[timer(to, f"job:{id.key}") for to in dice.sample(ids, 3)]) for id in mine]

            outcomes = await asyncio.gather(
                stores[0].commit("a", group(True)),
                stores[1].commit("b", group(False)),
                stores[2].insert([timer(id, "job:=k") for id in dice.sample(ids, 40)], now=NOW),
            )
            assert {outcome for some in outcomes for outcome in some} == {None}
        assert await stores[0].count("timers") == 40 * (60 * 3 + 40)
        assert await stores[0].count("objects") == 40 * 60
    finally:
        for store in stores:
            await store.close()
