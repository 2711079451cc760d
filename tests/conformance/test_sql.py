"""The database of an object: it commits, is undone, sleeps and moves with everything else, on every store."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Expected, Gate
from tests.conformance.conftest import ENGINES
from wakeful import Limits
from wakeful.sql import feature
from wakeful.values.commits import PAGE_BYTES
from wakeful.values.errors import BadOption, BadSql, ConstraintFailed, LimitExceeded, ReadOnly, TurnOver, Unavailable

MAKE = "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INTEGER)"
pytestmark = pytest.mark.usefixtures("engine")


def add(*names: str, fails: bool = False) -> Any:
    async def body(self: Any) -> Any:
        self.sql(MAKE)
        for name in names:
            self.sql("INSERT INTO items (name, qty) VALUES (?, ?)", name, len(name))
        if fails:
            raise Expected
        return [row["name"] for row in self.sql("SELECT name FROM items ORDER BY id")]

    return body


def run(query: str, *arguments: Any, **named: Any) -> Any:
    async def body(self: Any) -> Any:
        return self.sql(query, *arguments, **named).all()

    return body


async def names(self: Any) -> list[str]:
    return [row["name"] for row in self.sql("SELECT name FROM items ORDER BY id")]


async def size(self: Any) -> int:
    return int(self.sql.size)


# With the turn


async def test_it_commits_with_rows_and_alarm_in_one_group(stage: Any) -> None:
    async with stage.world() as world:
        groups = world.faults.groups

        async def body(self: Any) -> None:
            self.sql(MAKE)
            await self.storage.put("x", 1)
            self.sql("INSERT INTO items (name) VALUES ('cup')")
            await self.storage.set_alarm(SECOND)

        await stage.do(body)
        assert world.faults.groups == groups + 1
        await world.crash()
        await world.restart()
        assert await stage.do(names) == ["cup"]
        assert await world.rows(stage.Bell, "a") == {"x": 1}


async def test_a_turn_that_raises_undoes_its_sql_and_makes_the_object_anew(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))
        with pytest.raises(Expected):
            await stage.do(add("pot", fails=True))
        made = len(stage.news)
        assert await stage.do(names) == ["cup"]
        assert len(stage.news) == made + 1  # its memory may have held what was undone
        assert await stage.do(add("jug")) == ["cup", "jug"]


async def test_turns_behind_one_that_raises_do_not_meet_its_sql(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))
        turns = [add("pot", fails=True), names, add("jug"), add("urn", fails=True), names]
        answers = await asyncio.gather(*(stage.do(turn) for turn in turns), return_exceptions=True)
        assert [answers[n] for n in (1, 2, 4)] == [["cup"], ["cup", "jug"], ["cup", "jug"]]


async def test_an_undone_turn_leaves_the_size_as_it_was(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        before = await stage.do(size)

        async def grow(self: Any) -> None:
            self.sql("INSERT INTO items (name) SELECT hex(randomblob(2000)) FROM (VALUES (1), (2), (3), (4), (5), (6))")
            assert self.sql.size > before
            raise Expected

        with pytest.raises(Expected):
            await stage.do(grow)
        assert await stage.do(size) == before
        await stage.do(add("pot"))
        await world.crash()
        await world.restart()
        assert await stage.do(names) == ["cup", "pot"]
        assert await stage.do(run("PRAGMA integrity_check")) == [{"integrity_check": "ok"}]


async def test_a_turn_whose_commit_fails_leaves_nothing(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        world.faults.is_down = True
        task = asyncio.create_task(stage.do(add("pot"), deadline="5s"))
        with pytest.raises(Unavailable):
            await task
        world.faults.is_down = False
        assert await stage.do(names) == ["cup"]


async def test_the_next_turn_builds_on_a_commit_that_is_on_its_way_and_falls_with_it(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        with Gate(world) as gate:
            first = asyncio.create_task(stage.do(add("pot")))
            await asyncio.sleep(1)
            second = asyncio.create_task(stage.do(add("jug")))
            await asyncio.sleep(1)
            gate.open()
            assert await first == ["cup", "pot"]
            assert await second == ["cup", "pot", "jug"]
        await world.crash()
        await world.restart()
        assert await stage.do(names) == ["cup", "pot", "jug"]


async def test_a_durable_point_keeps_what_came_before_it(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            self.sql(MAKE)
            self.sql("INSERT INTO items (name) VALUES ('kept')")
            await self.ctx.commit()
            self.sql("INSERT INTO items (name) VALUES ('lost')")
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert await stage.do(names) == ["kept"]
        await world.crash()
        await world.restart()
        assert await stage.do(names) == ["kept"]


async def test_a_transaction_spans_rows_and_sql_and_undoes_both(stage: Any) -> None:
    async with stage.world():

        async def body(self: Any) -> Any:
            self.sql(MAKE)
            self.sql("INSERT INTO items (name) VALUES ('one')")
            async with self.ctx.transaction():
                self.sql("INSERT INTO items (name) VALUES ('two')")
                with suppress(Expected):
                    async with self.ctx.transaction():
                        self.sql("INSERT INTO items (name) VALUES ('three')")
                        await self.storage.put("x", 3)
                        raise Expected
                await self.storage.put("y", 2)
            with pytest.raises(BadOption):
                async with self.ctx.transaction():
                    await self.ctx.commit()
            return await names(self), await self.storage.list()

        assert await stage.do(body) == (["one", "two"], {"y": 2})
        assert await stage.do(names) == ["one", "two"]


async def test_a_transaction_in_which_all_of_its_sql_is_undone(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))

        async def body(self: Any) -> Any:
            with suppress(Expected):
                async with self.ctx.transaction():
                    self.sql("DELETE FROM items")
                    await self.storage.delete_all()
                    self.sql(MAKE)
                    self.sql("INSERT INTO items (name) VALUES ('other')")
                    raise Expected
            return await names(self)

        assert await stage.do(body) == ["cup"]
        assert await stage.do(add("pot")) == ["cup", "pot"]


async def test_deferred_foreign_keys_are_checked_at_the_end_of_the_turn(stage: Any) -> None:
    async with stage.world():

        async def make(self: Any) -> None:
            self.sql(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY);"
                "CREATE TABLE lines (of INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)"
            )
            self.sql("INSERT INTO lines VALUES (1)")
            self.sql("INSERT INTO orders VALUES (1)")

        await stage.do(make)
        with pytest.raises(ConstraintFailed):
            await stage.do(run("INSERT INTO lines VALUES (2)"))
        assert await stage.do(run("SELECT of FROM lines")) == [{"of": 1}]


async def test_what_sqlite_gave_up_takes_the_turn_with_it(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))

        async def body(self: Any) -> None:
            self.sql("INSERT INTO items (name) VALUES ('pot')")
            await self.storage.put("x", 1)
            with pytest.raises(ConstraintFailed):
                self.sql("INSERT OR ROLLBACK INTO items (name) VALUES ('cup')")

        with pytest.raises(ConstraintFailed):
            await stage.do(body)
        assert await stage.do(names) == ["cup"]

        async def go_on(self: Any) -> Any:
            with pytest.raises(ConstraintFailed):
                self.sql("INSERT INTO items (name) VALUES ('cup')")  # only this statement is undone
            self.sql("INSERT INTO items (name) VALUES ('jug')")
            return await names(self)

        assert await stage.do(go_on) == ["cup", "jug"]


async def test_a_page_that_comes_and_goes_in_one_turn_is_there_for_the_next(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            self.sql(MAKE)
            self.sql("INSERT INTO items (name, qty) VALUES (?, 7)", "x" * 9000)
            self.sql("DELETE FROM items")

        await stage.do(body)
        assert await stage.do(add("cup")) == ["cup"]
        await world.crash()
        await world.restart()
        assert await stage.do(add("x" * 9000)) == ["cup", "x" * 9000]
        assert await stage.do(run("PRAGMA integrity_check")) == [{"integrity_check": "ok"}]


async def test_reading_writes_nothing(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        groups = world.faults.groups
        assert await stage.do(names) == ["cup"]
        await stage.do(run("UPDATE items SET qty = qty WHERE name = 'nobody'"))
        assert world.faults.groups == groups


async def test_only_changed_pages_are_written(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add(*(f"item {n} {'x' * 500}" for n in range(60))))
        puts: list[int] = []
        commit = world.node.store.commit

        async def counting(node: str, commits: Any) -> Any:
            puts.extend(len(one.puts) for one in commits if one.puts)
            return await commit(node, commits)

        world.node.store.commit = counting
        await stage.do(run("UPDATE items SET qty = 77 WHERE id = 30"))
        assert puts == [1]  # the page with the row: not the first, in which only two counters changed
        await world.crash()
        await world.restart()
        assert await stage.do(run("SELECT id FROM items WHERE qty = 77")) == [{"id": 30}]


# Sleeping, moving, looking


async def test_it_sleeps_and_wakes_with_its_object(stage: Any) -> None:
    async with stage.world(sleep_after_turn=True):
        await stage.do(add("cup"))
        await stage.do(add("pot"))
        assert await stage.do(names) == ["cup", "pot"]


async def test_pages_are_not_among_the_objects_keys(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> Any:
            await self.storage.put("x", 1)
            self.sql(MAKE)
            return await self.storage.list(), await self.storage.count()

        assert await stage.do(body) == ({"x": 1}, 1)
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert info.bytes > PAGE_BYTES  # and they are counted


async def test_delete_all_empties_the_database(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))

        async def wipe(self: Any) -> Any:
            await self.storage.delete_all()
            with pytest.raises(BadSql):
                self.sql("SELECT * FROM items")
            return self.sql.size

        assert await stage.do(wipe) == 0
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert (info.rows, info.bytes) == (0, 0)
        await world.crash()
        await world.restart()
        assert await stage.do(size) == 0
        assert await stage.do(add("pot")) == ["pot"]


async def test_after_delete_all_it_goes_on_from_what_was_made_anew(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))

        async def anew(self: Any) -> Any:
            await self.storage.delete_all()
            return await add("pot")(self)

        assert await stage.do(anew) == ["pot"]
        fill = "INSERT INTO items (name, qty) VALUES (?, 1)"
        seen = [await asyncio.gather(stage.do(run(fill, f"{n} {'x' * 3000}")), stage.peek(names)) for n in range(3)]
        assert [len(found) for _, found in seen] == [1, 2, 3]
        with pytest.raises(Expected):
            await stage.do(add("jug", fails=True))
        assert (await stage.do(names))[0] == "pot"


async def test_delete_all_in_a_turn_that_raises(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))

        async def wipe(self: Any) -> None:
            await self.storage.delete_all()
            self.sql(MAKE)
            raise Expected

        with pytest.raises(Expected):
            await stage.do(wipe)
        assert await stage.do(names) == ["cup"]


async def test_vacuum_gives_back_what_was_deleted(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add(*(f"item {n} {'x' * 500}" for n in range(60))))
        before = await stage.do(size)
        await stage.do(run("DELETE FROM items WHERE id > 1"))
        assert await stage.do(size) == before
        await stage.do(run("VACUUM"))
        assert await stage.do(size) < before
        await world.crash()
        await world.restart()
        assert len(await stage.do(names)) == 1
        assert await stage.do(size) < before
        with pytest.raises(BadSql, match="before"):
            await stage.do(run("DELETE FROM items; VACUUM"))


async def test_either_engine_reads_what_the_other_wrote(
    stage: Any, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    async with stage.world() as world:
        await stage.do(add("cup", *(f"item {n} {'x' * 500}" for n in range(50))))
        other = next(kind for name, kind in ENGINES.items() if name != engine)
        monkeypatch.setattr(feature, "connection_type", lambda: other)
        await world.crash()
        await world.restart()
        assert (await stage.do(add("pot")))[0] == "cup"
        monkeypatch.setattr(feature, "connection_type", lambda: ENGINES[engine])
        await world.crash()
        await world.restart()
        assert (await stage.do(names))[-1] == "pot"
        assert await stage.do(run("PRAGMA integrity_check")) == [{"integrity_check": "ok"}]


# Readers


async def test_a_reader_never_sees_a_turns_uncommitted_pages(stage: Any) -> None:
    async with stage.world():
        await stage.do(add("cup"))
        seen: list[Any] = []

        async def body(self: Any) -> None:
            seen.append(await stage.peek(names))
            self.sql("INSERT INTO items (name) VALUES ('pot')")
            seen.append(await stage.peek(names))
            await self.ctx.commit()
            seen.append(await stage.peek(names))
            await self.storage.delete_all()
            seen.append(await stage.peek(names))
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert seen == [["cup"], ["cup"], ["cup", "pot"], ["cup", "pot"]]
        assert await stage.peek(names) == ["cup", "pot"]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO items (name) VALUES ('x')",
        "WITH n (x) AS (VALUES (1)) DELETE FROM items",
        "WITH n (x) AS (VALUES (1)) REPLACE INTO items (name) SELECT 'a' FROM n",
        "CREATE TABLE other (x)",
        "PRAGMA optimize",
        "VACUUM",
        "SELECT 1; DROP TABLE items",
    ],
)
async def test_a_reader_only_reads(stage: Any, query: str) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        groups = world.faults.groups
        with pytest.raises(ReadOnly):
            await stage.peek(run(query))
        with pytest.raises(BadSql):
            await stage.peek(run("PRAGMA foreign_keys = OFF"))
        assert await stage.peek(run("WITH n AS (SELECT replace(name, 'c', 'C') AS x FROM items) SELECT x FROM n")) == [
            {"x": "Cup"}
        ]
        assert await stage.peek(names) == ["cup"]
        assert world.faults.groups == groups


async def test_a_readers_answer_waits_for_the_commit_that_it_rests_on(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        with Gate(world) as gate:
            turn = asyncio.create_task(stage.do(add("pot")))
            await asyncio.sleep(1)
            look = asyncio.create_task(stage.peek(names))
            await asyncio.sleep(1)
            assert not look.done()
            gate.open()
            assert await look == ["cup", "pot"]
            await turn


# Where it can be used


async def test_alarms_and_wakes_use_it(stage: Any) -> None:
    async def wake(self: Any) -> None:
        self.sql(MAKE)

    async def ring(self: Any, info: Any) -> None:
        self.sql("INSERT INTO items (name) VALUES (?)", f"try {info.retry_count}")
        if info.retry_count == 0:
            raise Expected

    stage.on_wake = wake
    stage.handlers["a"] = ring
    async with stage.world() as world:
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert await stage.do(names) == ["try 1"]


async def test_outside_a_turn_it_is_refused(stage: Any) -> None:
    async with stage.world():
        held: list[Any] = []

        async def body(self: Any) -> None:
            held.append(self)

        await stage.do(body)
        with pytest.raises(TurnOver):
            held[0].sql("SELECT 1")


# Limits and refusals


async def test_a_database_at_its_limit(stage: Any) -> None:
    stage.restock(limits=Limits(sql_bytes=30 * PAGE_BYTES))
    async with stage.world() as world:
        await stage.do(add("cup"))
        fill = run(
            "INSERT INTO items (name) SELECT hex(randomblob(1500)) FROM (VALUES (1), (2), (3), (4), (5), (6), (7))"
        )
        await stage.do(fill)
        with pytest.raises(LimitExceeded) as caught:
            await stage.do(fill)
        assert caught.value.code == "limit.sql_bytes"
        assert await stage.do(size) <= 30 * PAGE_BYTES
        assert (await stage.do(names))[0] == "cup"
        stage.app.deployment.limits = Limits(sql_bytes=PAGE_BYTES)
        await world.crash()
        await world.restart()
        with pytest.raises(LimitExceeded, match="sql_bytes"):
            await stage.do(names)

        async def others(self: Any) -> Any:
            await self.storage.put("x", 1)
            return self.sql.size

        assert await stage.do(others) > PAGE_BYTES

        async def wipe(self: Any) -> None:
            await self.storage.delete_all()

        await stage.do(wipe)
        assert await stage.do(size) == 0
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert info.rows == 0


async def test_a_result_is_bounded(stage: Any) -> None:
    stage.restock(limits=Limits(sql_rows=100, sql_result_bytes=10_000))
    async with stage.world():
        count = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < ?) SELECT {} FROM n"
        assert len(await stage.do(run(count.format("x"), 100))) == 100
        with pytest.raises(LimitExceeded) as caught:
            await stage.do(run(count.format("x"), 101))
        assert caught.value.code == "limit.sql_rows"
        with pytest.raises(LimitExceeded) as caught:
            await stage.do(run(count.format("printf('%200d', x)"), 60))
        assert caught.value.code == "limit.sql_result_bytes"


@dataclass
class StockedItem:
    name: str
    qty: int


async def test_search_json_windows_and_types(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> Any:
            self.sql(
                MAKE + "; CREATE VIRTUAL TABLE words USING fts5 (name, content='items', content_rowid='id');"
                "CREATE TRIGGER index_it AFTER INSERT ON items BEGIN"
                "  INSERT INTO words (rowid, name) VALUES (new.id, new.name);"
                "END"
            )
            for name in ("blue cup", "red pot", "blue jug"):
                self.sql("INSERT INTO items (name, qty) VALUES (:name, :qty)", name=name, qty=len(name))

        await stage.do(body)
        await world.crash()
        await world.restart()

        async def look(self: Any) -> Any:
            found = self.sql("SELECT name FROM words WHERE words MATCH 'blue' ORDER BY rank, rowid").raw()
            ranks = self.sql("SELECT name, rank() OVER (ORDER BY qty) AS place FROM items ORDER BY id").raw()
            json = self.sql("SELECT json_extract(?, '$.a[1]'), sqrt(16.0)", '{"a": [1, 2]}').raw()
            return found, ranks, json, self.sql("SELECT name, qty FROM items WHERE id = 1").all(StockedItem)

        found, ranks, json, items = await stage.peek(look)
        assert found == [("blue cup",), ("blue jug",)]
        assert ranks == [("blue cup", 2), ("red pot", 1), ("blue jug", 2)]
        assert json == [(2, 4.0)]
        assert items == [StockedItem("blue cup", 8)]


async def test_a_setting_lasts_for_its_turn(stage: Any) -> None:
    async with stage.world():

        async def body(self: Any) -> Any:
            self.sql("PRAGMA foreign_keys = OFF")
            self.sql("CREATE TABLE a (x REFERENCES b (y)); INSERT INTO a VALUES (1)")
            return self.sql("PRAGMA foreign_keys").value()

        assert await stage.do(body) == 0
        assert await stage.do(run("PRAGMA foreign_keys")) == [{"foreign_keys": 1}]
        with pytest.raises(BadSql, match="before"):
            await stage.do(run("CREATE TABLE c (x); PRAGMA foreign_keys = OFF"))
        assert await stage.do(run("CREATE TABLE c (x); PRAGMA foreign_keys = ON")) == []  # what they are
        with pytest.raises(BadSql, match="before"):
            await stage.do(run("PRAGMA foreign_keys = OFF; CREATE TABLE d (x); PRAGMA foreign_keys = ON"))


async def test_connections_of_idle_objects_are_closed_when_there_are_many(stage: Any) -> None:
    stage.restock(limits=Limits(sql_open=2))
    async with stage.world():
        for key in "abcdef":
            await stage.do(add(key), key)
        for key in "abcdef":
            assert await stage.do(add("more"), key) == [key, "more"]


async def test_a_class_without_the_base_has_ctx_sql(stage: Any) -> None:
    class Plain:
        def __init__(self, ctx: Any) -> None:
            self.ctx = ctx

        async def add(self) -> int:
            self.ctx.sql("CREATE TABLE IF NOT EXISTS t (x)")
            return int(self.ctx.sql("INSERT INTO t VALUES (1) RETURNING (SELECT count(*) FROM t)").value())

    stage.app.object(Plain)
    async with stage.world():
        await stage.app.get(Plain, "a").add()
        assert await stage.app.get(Plain, "a").add() >= 1


async def test_the_object_is_asleep_after_a_while_and_wakes_with_its_rows(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add("cup"))
        made = len(stage.news)
        await world.advance(timedelta(minutes=1))
        assert await stage.do(names) == ["cup"]
        assert len(stage.news) == made + 1
