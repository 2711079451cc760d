"""Which pages of an object's database are read, and when; whatever is read late is what finished turns of its own left."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.acts import Expected, Gate
from tests.conformance.cluster_stage import Cluster, key_of
from tests.conformance.test_sql_carried import OLD, ring
from wakeful import App, DurableObject
from wakeful.store.protocol import WAKE_PAGES
from wakeful.store.sealed_store import SealedStore
from wakeful.values.commits import PAGE_BYTES, Commit, page_slot
from wakeful.values.errors import Unavailable, Undecodable
from wakeful.values.ids import ObjectId, shard_of

pytestmark = pytest.mark.usefixtures("engine")
MAKE = "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, pad TEXT)"
ROWS = 3 * WAKE_PAGES  # one to a page


def say(word: str) -> str:
    return f"{word} {'x' * (PAGE_BYTES // 2 + 1000)}"


async def fill(self: Any) -> None:
    self.sql(MAKE)
    for number in range(ROWS):
        self.sql("INSERT INTO items VALUES (?, ?)", number, say("first"))


async def words(self: Any) -> dict[str, int]:
    return dict(Counter(row["pad"].split()[0] for row in self.sql("SELECT pad FROM items")))


async def last(self: Any) -> str:
    return str(self.sql("SELECT pad FROM items WHERE id = ?", ROWS - 1).value().split()[0])


def change(word: str, *numbers: int, fails: bool = False) -> Any:
    async def body(self: Any) -> None:
        for number in numbers:
            self.sql("UPDATE items SET pad = ? WHERE id = ?", say(word), number)
        if fails:
            raise Expected

    return body


async def check(self: Any) -> str:
    return str(self.sql("PRAGMA integrity_check").value())


class Reads:
    """What a node asks its store for."""

    def __init__(self, node: Any) -> None:
        self.counted: Counter[str] = Counter()
        store = node.store
        for verb in ("load", "scan", "read"):
            self._count(store, verb)
        if store.local:
            self._count(store, "read_now")

    def _count(self, store: Any, verb: str) -> None:
        ask = getattr(store, verb)

        def counting(*given: Any) -> Any:
            self.counted[verb] += 1
            return ask(*given)

        setattr(store, verb, counting)


async def anew(world: Any) -> None:
    await world.crash()
    await world.restart()


def is_lazy(world: Any, engine: str) -> bool:
    return engine == "apsw" and bool(world.node.store.local and not world.node.store.shared)


async def test_one_read_wakes_an_object_of_ordinary_size(stage: Any) -> None:
    async with stage.world() as world:

        async def half(self: Any) -> int:
            self.sql(MAKE)
            for number in range(WAKE_PAGES - 4):
                self.sql("INSERT INTO items VALUES (?, ?)", number, say("first"))
            return int(self.sql.size)

        assert 16_384 < await stage.do(half) <= WAKE_PAGES * PAGE_BYTES
        await anew(world)
        reads = Reads(world.node)
        assert await stage.do(words) == {"first": WAKE_PAGES - 4}
        assert reads.counted == {"load": 1}


async def test_of_a_larger_one_pages_come_when_they_are_asked_for_or_all_before_its_code_runs(
    stage: Any,
    engine: str,
) -> None:
    """With apsw and a store that answers at once; else in one read more."""
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)
        reads = Reads(world.node)
        assert await stage.do(last) == "first"
        if is_lazy(world, engine):
            assert reads.counted == {"load": 1, "read_now": reads.counted["read_now"]}
            assert 0 < reads.counted["read_now"] <= 3  # of some 140 that did not come along
        else:
            assert reads.counted == {"load": 1, "scan": 1}
        assert await stage.do(check) == "ok"
        before = reads.counted.copy()
        assert await stage.do(words) == {"first": ROWS}
        assert reads.counted == before  # nothing is read twice


async def test_what_a_turn_changed_is_not_read_from_the_store(stage: Any) -> None:
    """Its commit is still on its way there, and SQLite has forgotten what it wrote, since another turn failed."""
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)
        with Gate(world) as gate:
            acts = (change("second", 1, ROWS - 1), change("never", 1, fails=True), words)
            turns = [asyncio.create_task(stage.do(act)) for act in acts]
            await asyncio.sleep(1)
            gate.open()
            answers = await asyncio.gather(*turns, return_exceptions=True)
            assert answers[2] == {"first": ROWS - 2, "second": 2}
        await anew(world)
        assert await stage.do(words) == {"first": ROWS - 2, "second": 2}


async def test_what_is_read_after_an_undone_turn_is_as_it_was(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)
        with pytest.raises(Expected):
            await stage.do(change("never", 0, ROWS - 2, ROWS - 1, fails=True))
        assert await stage.do(last) == "first"
        await stage.do(change("second", ROWS - 2))
        assert await stage.do(words) == {"first": ROWS - 1, "second": 1}
        await anew(world)
        assert await stage.do(words) == {"first": ROWS - 1, "second": 1}


async def test_a_page_that_was_given_back_is_written_again(stage: Any) -> None:
    """The database shrinks, and grows to what it was, while the store still has what was there."""
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)

        async def shrink(self: Any) -> None:
            self.sql("DELETE FROM items")

        async def vacuum(self: Any) -> None:
            self.sql("VACUUM")

        with Gate(world) as gate:
            turns = [asyncio.create_task(stage.do(act)) for act in (shrink, vacuum, fill, check, words)]
            await asyncio.sleep(1)
            gate.open()
            assert (await asyncio.gather(*turns))[3:] == ["ok", {"first": ROWS}]
        await anew(world)
        assert await stage.do(check) == "ok"
        assert await stage.do(words) == {"first": ROWS}


async def test_a_reader_beside_a_turn_reads_pages_of_before_it(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def body(self: Any) -> None:
            await change("second", ROWS - 1)(self)
            begun.set()
            await go_on.wait()

        turn = asyncio.create_task(stage.do(body))
        await begun.wait()
        assert await stage.peek(words) == {"first": ROWS}
        go_on.set()
        await turn
        assert await stage.peek(words) == {"first": ROWS - 1, "second": 1}


async def test_a_store_that_is_away_when_a_page_is_asked_for_fails_the_turn(stage: Any, engine: str) -> None:
    """Even if its code goes on as if nothing had happened."""
    async with stage.world() as world:
        await stage.do(fill)
        await anew(world)
        if not is_lazy(world, engine):
            return

        async def body(self: Any) -> None:
            self.sql("UPDATE items SET pad = 'never' WHERE id = 0")
            world.faults.is_down = True
            with pytest.raises(Unavailable):
                await words(self)
            world.faults.is_down = False

        with pytest.raises(Unavailable):
            await stage.do(body, deadline="5s")
        await world.advance(seconds=30)
        assert await stage.do(words) == {"first": ROWS}


async def test_a_page_that_is_gone_fails_the_turn_that_needs_it(stage: Any) -> None:
    """Even if its code goes on: SQLite has given up all that it did."""
    async with stage.world() as world:
        await stage.do(fill)
        await world.sleep_all()
        id = ObjectId("Bell", "a")
        shard = shard_of(id)
        epoch = world.node.epochs[shard]
        commit = Commit(id=id, shard=shard, epoch=epoch, now=1, deletes=[page_slot(ROWS - 2)])
        assert await world.store.commit(world.node.name, [commit]) == [None]

        async def body(self: Any) -> None:
            self.sql("UPDATE items SET pad = 'never' WHERE id = 0")
            with suppress(Undecodable):
                self.sql("UPDATE items SET pad = 'never'")

        with pytest.raises(Undecodable, match="page"):
            await stage.do(body)


class Cell(DurableObject):
    """Has a database that does not come with it whole."""

    async def fill(self) -> None:
        await fill(self)

    async def change(self, word: str) -> None:
        self.sql("UPDATE items SET pad = replace(pad, 'first', ?)", word)

    async def words(self, pause: float = 0.0) -> Any:
        self.sql("SELECT count(*) FROM sqlite_schema")
        if pause:
            await asyncio.sleep(pause)
        seen = [await check(self), await words(self)]
        SEEN.append(seen)
        return seen


SEEN: list[Any] = []


async def test_a_node_that_lost_its_shard_never_meets_the_pages_of_the_next_owner(cluster: Cluster) -> None:
    troupe, world = cluster()
    troupe.app = world.app = app = App()
    app.object(Cell)
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        id = ObjectId("Cell", key)
        await app.get(Cell, key).fill()
        owner.node.hibernation.sleep_all()
        SEEN.clear()
        call = asyncio.ensure_future(app.get(Cell, key, deadline="2s").words(0.2))
        await world.advance(milliseconds=50)
        shard = shard_of(id)
        epochs = await world.store.claim("thief", [shard], now=world.warp.now(), seen={shard: owner.node.epochs[shard]})
        pages = {page_slot(number): bytes(PAGE_BYTES) for number in range(WAKE_PAGES + 1, ROWS)}
        commit = Commit(id=id, shard=shard, epoch=epochs[shard], now=1, puts=pages)
        assert await world.store.commit("thief", [commit]) == [None]
        await world.advance(seconds=1)
        assert SEEN == [["ok", {"first": ROWS}]]
        assert await call == SEEN[0]  # it was true while the lease ran


async def test_pages_that_are_read_late_are_unsealed(new_store: Any) -> None:
    app, inner = App(), new_store()
    app.object(Cell)
    async with app.run(SealedStore(inner, ring(OLD))):
        await app.get(Cell, "a").fill()
    async with app.run(SealedStore(inner, ring(OLD))):
        await app.get(Cell, "a").change("second")
        assert await app.get(Cell, "a").words() == ["ok", {"second": ROWS}]
