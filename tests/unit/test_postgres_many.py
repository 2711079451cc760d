"""Many at once on PostgreSQL: objects that are new and objects that are not, and names that are hard to put in a list."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.inserter import INSERT_ROWS, SAMPLE
from wakeful.store.postgres.rows import joined_ids
from wakeful.store.postgres.url import parse_url
from wakeful.store.protocol import Query
from wakeful.values.commits import USER, Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

NOW = 1_700_000_000_000
MANY = INSERT_ROWS + 1  # so that they go by COPY


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    found = PostgresStore.of_url(url)
    await found.open(now=NOW)
    try:
        yield found
    finally:
        await found.close()


def timers(name: str) -> list[Timer]:
    return [Timer(ObjectId("Customer", f"{n:06}"), name, NOW, NOW, n) for n in range(MANY)]


@pytest.mark.parametrize("there", [1, MANY // SAMPLE + 1, MANY - 1], ids=["unseen", "unseen too", "last"])
async def test_one_object_that_is_there_already_is_left_as_it_is(postgres_schema_url: str, there: int) -> None:
    async with opened(postgres_schema_url) as store:
        one = ObjectId("Customer", f"{there:06}")
        await store.insert([Timer(one, "before", NOW, NOW, 1)], now=NOW)
        assert await store.insert(timers("after"), now=NOW + 5) == []
        assert (await store.count("timers"), await store.count("objects")) == (MANY + 1, MANY)
        [info] = await store.find_objects(Query(key=one.key, limit=2))
        assert (info.id, info.created_at) == (one, NOW)


async def test_objects_that_are_all_there_get_more(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        assert await store.insert(timers("one"), now=NOW) == []
        assert await store.insert(timers("two"), now=NOW + 5) == []
        assert (await store.count("timers"), await store.count("objects")) == (2 * MANY, MANY)
        found = await store.find_objects(Query(limit=1))
        assert found[0].created_at == NOW


async def test_a_name_that_is_taken_leaves_neither_timers_nor_objects(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        taken = Timer(ObjectId("Customer", "000007"), "same", NOW, NOW, 99)
        await store.insert([taken], now=NOW)
        [met] = await store.insert(timers("same"), now=NOW + 5)
        assert met.timer == taken
        assert (await store.count("timers"), await store.count("objects")) == (1, 1)


async def undo(url: str, table: str, times: int, *, at_the_end: bool) -> None:
    """Roll back the next transactions that add to the table: as relatives of PostgreSQL do when two collide."""
    schema = parse_url(url).schema
    kind, when = "TRIGGER", "FOR EACH STATEMENT"
    if at_the_end:
        kind, when = "CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
    async with opened(url) as store, store._pools[1].take() as wire:
        await wire.script(
            f'CREATE SEQUENCE "{schema}".tries; CREATE FUNCTION "{schema}".undo() RETURNS trigger LANGUAGE plpgsql AS '
            f"$$BEGIN IF nextval('\"{schema}\".tries') <= {times} THEN "
            "RAISE 'restart transaction' USING ERRCODE = '40001'; END IF; RETURN NULL; END$$; "
            f'CREATE {kind} undo AFTER INSERT ON "{schema}".{table} {when} EXECUTE FUNCTION "{schema}".undo()'
        )


@pytest.mark.parametrize(("timeout", "times"), [("10s", 1), ("10s", 3), ("150ms", 2)])
async def test_many_whose_commit_was_rolled_back_are_sent_again(
    postgres_schema_url: str, timeout: str, times: int
) -> None:
    """A second COMMIT alone would find no transaction, say that all is well, and leave nothing."""
    await undo(postgres_schema_url, "timers", times, at_the_end=True)
    async with opened(f"{postgres_schema_url}&timeout={timeout}") as store:
        assert await store.insert(timers("one"), now=NOW) == []
        assert (await store.count("timers"), await store.count("objects")) == (MANY, MANY)


async def test_many_that_are_rolled_back_in_the_middle_are_sent_again(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be saved of the transaction: CockroachDB does not go back to a part of it."""
    execute = asyncpg.Connection.execute

    async def refusing(self: Any, query: str, *args: Any, **options: Any) -> Any:
        if query.startswith("ROLLBACK TO SAVEPOINT"):
            raise asyncpg.SerializationError("cannot rollback to savepoint after a transaction restart")
        return await execute(self, query, *args, **options)

    await undo(postgres_schema_url, "objects", 1, at_the_end=False)
    monkeypatch.setattr(asyncpg.Connection, "execute", refusing)
    async with opened(postgres_schema_url) as store:
        assert await store.insert(timers("one"), now=NOW) == []
        assert (await store.count("timers"), await store.count("objects")) == (MANY, MANY)


HARD = [ObjectId("Customer", key) for key in ("a\nb\n", "a\n\1b", "\1", "NULL", '{"x",\\}', "ü", " ")]


async def test_objects_with_hard_names_are_loaded_each_as_itself(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        epochs = await store.claim("me", range(256), now=NOW)
        commits = [
            Commit(id=id, shard=shard_of(id), epoch=epochs[shard_of(id)], now=NOW, puts={(USER, "k"): id.key.encode()})
            for id in HARD
        ]
        assert await store.commit("me", commits) == [None] * len(HARD)
        nobody = ObjectId("Customer", "b\n")
        loaded = await store.load([nobody, *HARD])
        assert [found.info and found.info.id for found in loaded] == [None, *HARD]
        assert [found.rows for found in loaded[1:]] == [{(USER, "k"): id.key.encode()} for id in HARD]


def test_what_is_put_between_names_is_in_none_of_them() -> None:
    for ids in (HARD, HARD[:1], [ObjectId("A", "x")]):
        joined = joined_ids(ids)
        assert joined["key"].split(joined["between"]) == [id.key for id in ids]
        assert joined["cls"].split(joined["between"]) == [id.cls for id in ids]
