"""Which way does a store take to a page of what people look for, and does it cost what it should?"""

import sqlite3
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from wakeful.store import Query, open_url
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres import finds as postgres_finds
from wakeful.store.postgres.statements import Statement
from wakeful.store.sqlite import SqliteStore, finds
from wakeful.values.commits import Commit
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Entry, Timer

NOW = 1_760_000_000_000
FEW, MANY = "few/", "many/"


async def filled(url: str) -> Any:
    """A store with 5 timers and ledger rows of the tenant `few`, and 399 of `many`."""
    store = open_url(url)
    await store.open(now=NOW)
    ids = [ObjectId("Order", f"{FEW if n % 100 == 0 else MANY}{n}") for n in range(404)]
    await store.insert([Timer(id, "schedule:a", NOW + n, NOW, n) for n, id in enumerate(ids)], now=NOW)
    epochs = await store.claim("n", range(SHARDS), now=NOW)
    commits = [
        Commit(
            id=id, shard=shard_of(id), epoch=epochs[shard_of(id)], now=NOW,
            entries=[Entry(id, "schedule:a", "r", NOW, NOW, NOW, 0, "run", "n")],
        )
        for id in ids
    ]  # fmt: skip
    assert await store.commit("n", commits) == [None] * len(ids)
    return store


async def both_ways(store: Any) -> None:
    for cls in ("Order", None):
        for prefix, count in ((FEW, 5), (MANY, 399)):
            query = Query(cls=cls, key_prefix=prefix, limit=10)
            timers, entries = await store.find_timers(query), await store.find_entries(query)
            numbers = [n for n in range(404) if (n % 100 == 0) == (prefix == FEW)]
            assert len(numbers) == count
            assert [timer.seq for timer in timers] == numbers[:10]
            assert [entry.id.key for _, entry in entries] == [f"{prefix}{n}" for n in numbers[::-1][:10]]


async def test_sqlite_collects_the_rows_of_few_objects_and_walks_past_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finds, "NARROW_ROWS", 20)
    store = await filled(f"sqlite:{tmp_path}/app.db")
    assert isinstance(store, SqliteStore)
    await both_ways(store)
    seen: list[str] = []
    db: sqlite3.Connection = store._reader.db
    db.set_trace_callback(seen.append)

    async def plan(query: Query, what: str = "timers") -> list[str]:
        """How the last statement of the find was answered."""
        seen.clear()
        await getattr(store, f"find_{what}")(query)
        rows = db.execute(f"EXPLAIN QUERY PLAN {seen[-1]}").fetchall()
        return [row[3] for row in rows if row[1] == 0]

    by_key = "(class=? AND key>? AND key<?)"
    few, many = Query(cls="Order", key_prefix=FEW, limit=1), Query(cls="Order", key_prefix=MANY, limit=1)
    assert await plan(few, "objects") == [f"SEARCH objects USING PRIMARY KEY {by_key}"]
    assert await plan(few) == [f"SEARCH timers USING INDEX timers_name {by_key}", "USE TEMP B-TREE FOR ORDER BY"]
    assert await plan(many) == ["SCAN timers"]
    assert await plan(few, "entries") == [
        f"SEARCH ledger USING INDEX ledger_timer {by_key}",
        "USE TEMP B-TREE FOR ORDER BY",
    ]
    assert await plan(many, "entries") == ["SCAN ledger"]
    assert (await plan(Query(key_prefix=FEW)))[0] == f"SEARCH timers USING INDEX timers_name {by_key}"
    assert (await plan(Query(cls="Order", key="few/0", name_prefix="schedule:")))[0] == (
        "SEARCH timers USING INDEX timers_name (class=? AND key=? AND name>? AND name<?)"
    )
    db.set_trace_callback(None)
    await store.close()


async def test_postgres_collects_the_rows_of_few_objects_and_walks_past_those_of_others(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_finds, "NARROW_ROWS", 20)
    store = await filled(postgres_schema_url)
    assert isinstance(store, PostgresStore)
    await both_ways(store)
    plans: list[str] = []

    async def explained(name: str, values: Any = MappingProxyType({}), parts: Any = ()) -> Any:
        statement = store._statements.get(name, parts)
        assert store._readers is not None
        async with store._readers.take() as wire:
            rows = await wire.run(Statement(f"EXPLAIN {statement.text}", ()), statement.args(values))
        plans.append("\n".join(row[0] for row in rows))
        return await run(name, values, parts)

    run = store._run
    monkeypatch.setattr(store, "_run", explained)
    for query, way in (
        (Query(cls="Order", key_prefix=FEW, limit=1), ("timers_pkey", "ledger_object")),
        (Query(cls="Order", key_prefix=MANY, limit=1), ("timers_due", "ledger_pkey")),
        (Query(key_prefix=FEW, limit=1), ("timers_pkey", "ledger_object")),
        (Query(cls="Order", key="few/0", name="schedule:a"), ("timers_pkey", "ledger_object")),
        (Query(cls="Order", limit=1), ("timers_due", "ledger_pkey")),
    ):
        for index, find in zip(way, (store.find_timers, store.find_entries), strict=True):
            await find(query)
            assert index in plans[-1], (query, plans[-1])
    await store.close()
