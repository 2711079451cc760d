"""Random lives of the databases of two objects, each step compared with plain SQLite: answers, contents, soundness.

On one node, whose store may answer at once (then pages are read late), and on two that take objects from each other.
"""

import asyncio
import sqlite3
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.teeth.broken import swapped
from wakeful import App, DurableObject, Unavailable, reader
from wakeful.sql import feature
from wakeful.sql.connection import ImageConnection
from wakeful.sql.paged_connection import PagedConnection
from wakeful.values.commits import FIRST_PAGE, PAGES, Loaded
from wakeful.values.errors import ConstraintFailed
from wakeful.values.ids import ObjectId, shard_of

ENGINES: list[Any] = [ImageConnection, PagedConnection]
SCHEMA = """
CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INTEGER CHECK (b < 90));
CREATE INDEX IF NOT EXISTS t_b ON t (b);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (a);
"""
LOOK = "SELECT id, a, b FROM t ORDER BY id"
LOOK_WORDS = "SELECT rowid, a FROM words WHERE words MATCH 'x OR y' ORDER BY rowid"


class Oops(Exception):
    pass


class Book(DurableObject):
    """Does what it is told, in one turn."""

    async def do(self, ops: list[Any]) -> list[Any]:
        return [await self._apply(op) for op in ops]

    @reader
    async def look(self) -> Any:
        if not self.sql("SELECT 1 FROM sqlite_schema WHERE name = 't'"):
            return []
        return self.sql(LOOK).raw()

    @reader
    async def check(self) -> Any:
        return self.sql("PRAGMA integrity_check").raw()

    async def _apply(self, op: Any) -> Any:
        match op:
            case ("run", query, *arguments):
                self.sql(SCHEMA)
                try:
                    return self.sql(query, *arguments).raw()
                except ConstraintFailed:
                    return "constraint"
            case ("wipe",):
                await self.storage.delete_all()
            case ("commit",):
                await self.ctx.commit()
            case ("pause",):
                for _ in range(5):
                    await asyncio.sleep(0)
            case ("raise",):
                raise Oops
            case ("transaction", ops):
                try:
                    async with self.ctx.transaction():
                        return [await self._apply(inner) for inner in ops]
                except Oops:
                    return "undone"
        return None


class PlainBook:
    """The same on a connection of its own, with its own BEGIN and SAVEPOINT."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute("PRAGMA foreign_keys = ON")
        self.depth = 0

    def turn(self, ops: list[Any]) -> list[Any]:
        self.db.execute("BEGIN")
        try:
            answers = [self._apply(op) for op in ops]
        except Oops:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return answers

    def look(self) -> list[Any]:
        is_there = self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchall()
        return self.db.execute(LOOK).fetchall() if is_there else []

    def _apply(self, op: Any) -> Any:
        match op:
            case ("run", query, *arguments):
                for statement in SCHEMA.split(";")[:-1]:
                    self.db.execute(statement)
                try:
                    return self.db.execute(query, arguments).fetchall()
                except sqlite3.IntegrityError:
                    return "constraint"
            case ("wipe",):
                for table in ("t", "words"):
                    self.db.execute(f"DROP TABLE IF EXISTS {table}")
            case ("commit",):
                self.db.execute("COMMIT")
                self.db.execute("BEGIN")
            case ("raise",):
                raise Oops
            case ("transaction", ops):
                return self._nested(ops)
        return None

    def _nested(self, ops: list[Any]) -> Any:
        self.depth += 1
        name = f"s{self.depth}"
        self.db.execute(f"SAVEPOINT {name}")
        try:
            return [self._apply(op) for op in ops]
        except Oops:
            self.db.execute(f"ROLLBACK TO {name}")
            return "undone"
        finally:
            self.db.execute(f"RELEASE {name}")
            self.depth -= 1


def _with_one_page(load: Any) -> Any:
    """As if the database were large: only its first page comes with the object, where the others can come late."""

    async def broken(self: Any, activation: Any, loaded: Loaded) -> Loaded:
        rows = {slot: data for slot, data in loaded.rows.items() if slot[0] != PAGES or slot == FIRST_PAGE}
        short = Loaded(loaded.info, loaded.alarm, rows, loaded.complete)
        found: Loaded = await load(self, activation, short if self._is_lazy else loaded)
        return found

    return broken


BOOKS = st.sampled_from(["one", "two"])
TEXTS = st.sampled_from(["x", "y", "z", "x y", ""]) | st.sampled_from([300, 1200]).map(lambda n: "long " * n)
NUMBERS = st.integers(0, 99)
RAISE = ("raise",)


def _run(query: str, *arguments: Any) -> Any:
    return st.tuples(st.just("run"), st.just(query), *arguments)


SIMPLE = st.one_of(
    _run("INSERT INTO t (a, b) VALUES (?, ?)", TEXTS, NUMBERS),
    _run("INSERT INTO t (a, b) VALUES (? || random(), ?)", TEXTS, NUMBERS).map(
        lambda op: ("run", "INSERT INTO t (a, b) VALUES (?, ?)", f"{op[2]}{op[3]}", op[3] % 90)
    ),
    _run("INSERT OR REPLACE INTO t (a, b) VALUES (?, ?) RETURNING id", TEXTS, NUMBERS),
    _run("INSERT INTO words (a) VALUES (?)", TEXTS),
    _run("UPDATE t SET b = b + 1 WHERE b < ?", NUMBERS),
    _run("DELETE FROM t WHERE b > ?", NUMBERS),
    _run("DELETE FROM words WHERE rowid % 2 = ?", st.integers(0, 1)),
    _run(LOOK),
    _run(LOOK_WORDS),
    _run("SELECT count(*), total(b), max(length(a)) FROM t"),
    st.just(("wipe",)),
    st.just(("pause",)),
)
INSIDE = st.recursive(
    st.lists(SIMPLE | st.just(RAISE), max_size=4),
    lambda inner: st.tuples(st.just("transaction"), inner).map(lambda op: [op]),
    max_leaves=3,
)
OPS = st.lists(
    st.one_of(SIMPLE, SIMPLE, SIMPLE, st.just(("commit",)), st.tuples(st.just("transaction"), INSIDE)),
    min_size=1,
    max_size=6,
)
PLAIN_OPS = st.lists(SIMPLE, min_size=1, max_size=4)


class SqlModel(RuleBasedStateMachine):
    """Two objects, one world, an event loop of its own."""

    url = "memory:"
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.app = App()
        self.app.object(Book)
        self.world: Any = None
        self.books = {"one": PlainBook(), "two": PlainBook()}
        self.requests = 0
        self.engine: Any = ImageConnection
        self.patches = ExitStack()
        self.patches.enter_context(swapped(feature, "connection_type", lambda _: lambda: self.engine))

    @initialize(paranoid=st.booleans(), engine=st.sampled_from(ENGINES), late=st.booleans())
    def begin(self, paranoid: bool, engine: Any, late: bool) -> None:
        self.engine = engine
        if late:
            self.patches.enter_context(swapped(feature.NodeDatabases, "load", _with_one_page))

        async def enter() -> Any:
            return await self.app.world(store=self.store_url(), sleep_after_turn=paranoid, **self.options).__aenter__()

        self.world = self.run(enter())

    def store_url(self) -> str:
        return self.url

    def teardown(self) -> None:
        if self.world is not None:
            self.run(self.world.__aexit__(None, None, None))
        self.loop.close()
        self.patches.close()
        for book in self.books.values():
            book.db.close()

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @rule(book=BOOKS, ops=OPS)
    def call(self, book: str, ops: list[Any]) -> None:
        assert self.ask(book, ops) == self.expected(book, ops)

    @rule(book=BOOKS, turns=st.lists(OPS, min_size=2, max_size=4))
    def burst(self, book: str, turns: list[Any]) -> None:
        """The next turn begins on top of pages that are on their way."""

        async def together() -> list[Any]:
            stub = self.world.get(Book, book)
            return await asyncio.gather(*(stub.do(ops) for ops in turns), return_exceptions=True)

        answers = ["oops" if isinstance(answer, Oops) else answer for answer in self.run(together())]
        assert answers == [self.expected(book, ops) for ops in turns]

    @rule(book=BOOKS, ops=PLAIN_OPS, more=PLAIN_OPS)
    def fail_and_look(self, book: str, ops: list[Any], more: list[Any]) -> None:
        for turn in ([*ops, RAISE], [("run", LOOK)], more):
            assert self.ask(book, turn) == self.expected(book, turn)

    @rule(book=BOOKS, ops=PLAIN_OPS, more=PLAIN_OPS, fails=st.booleans())
    def read_beside_a_turn(self, book: str, ops: list[Any], more: list[Any], fails: bool) -> None:
        """A reader says what was true before the turn or after it, and never what is undone."""
        ops = [*ops, ("pause",), *more, *([RAISE] if fails else [])]
        assert self.ask(book, [("run", LOOK)]) == self.expected(book, [("run", LOOK)])
        before = self.books[book].look()

        async def together() -> list[Any]:
            stub = self.world.get(Book, book)
            return await asyncio.gather(stub.do(ops), stub.look(), return_exceptions=True)

        answer, found = self.run(together())
        assert ("oops" if isinstance(answer, Oops) else answer) == self.expected(book, ops)
        assert found in (before, self.books[book].look())

    @rule(book=BOOKS, ops=PLAIN_OPS, when=st.sampled_from(["before", "after"]))
    def commit_fails(self, book: str, ops: list[Any], when: Any) -> None:
        """The caller can't know; asking again under the same request key does it exactly once."""
        self.requests += 1
        for faults in self.faults():
            faults.fail_commit(0, when=when)
        stub = self.world.get(Book, book, request_key=f"request-{self.requests}")
        try:
            told = self.run(stub.do(ops))
        except Unavailable:
            self.run(self.world.advance(timedelta(seconds=10)))
            told = self.run(stub.do(ops))
        for faults in self.faults():
            faults.fail_commits.clear()
        assert told == self.expected(book, ops)

    def faults(self) -> list[Any]:
        return [self.world.faults]

    def nodes(self) -> list[Any]:
        return [self.world.node]

    @rule()
    def sleep(self) -> None:
        self.run(self.world.settle())
        for node in self.nodes():
            node.hibernation.sleep_all()

    @rule(is_clean=st.booleans(), engine=st.sampled_from(ENGINES))
    def restart(self, is_clean: bool, engine: Any) -> None:
        """Another process, and perhaps another engine, takes the objects over."""
        self.engine = engine
        if not is_clean:
            self.run(self.world.crash())
        self.run(self.world.restart())

    def ask(self, book: str, ops: list[Any]) -> Any:
        try:
            return self.run(self.world.get(Book, book).do(ops))
        except Oops:
            return "oops"

    def expected(self, book: str, ops: list[Any]) -> Any:
        try:
            return self.books[book].turn(ops)
        except Oops:
            return "oops"

    @invariant()
    def contents_agree(self) -> None:
        if self.world is not None:
            for name, book in self.books.items():
                assert self.run(self.world.get(Book, name).look()) == book.look()
                assert self.run(self.world.get(Book, name).check()) == [("ok",)]


class MovingSqlModel(SqlModel):
    """The same with two nodes, each of which may have another engine; the owner of an object is asked to go, or dies."""

    options: ClassVar[dict[str, Any]] = {"nodes": 2}

    def faults(self) -> list[Any]:
        return [member.faults for member in self.world.members]

    def nodes(self) -> list[Any]:
        return [member.node for member in self.world.members]

    def owner(self, book: str) -> Any:
        shard = shard_of(ObjectId("Book", book))
        return next(member for member in self.world.members if shard in member.node.epochs)

    @rule(book=BOOKS, engine=st.sampled_from(ENGINES))
    def drain(self, book: str, engine: Any) -> None:
        """The owner hands over what it has, and may have it again later."""
        owner = self.owner(book)
        self.run(self.world.store.drain(owner.node.name, True))
        self.run(self.world.advance(timedelta(seconds=30)))
        assert not owner.node.epochs
        self.engine = engine
        self.contents_agree()
        self.run(self.world.store.drain(owner.node.name, False))
        self.run(self.world.balance())

    @rule(book=BOOKS, ops=PLAIN_OPS, steps=st.integers(0, 12), engine=st.sampled_from(ENGINES))
    def owner_dies(self, book: str, ops: list[Any], steps: int, engine: Any) -> None:
        """In the middle of a turn, or after it; asked again under the same request key it is done exactly once."""
        self.requests += 1
        self.engine = engine
        owner = self.owner(book)

        async def die() -> None:
            call = asyncio.ensure_future(self.stub(book).do(ops))
            for _ in range(steps):
                await asyncio.sleep(0)
            owner.kill()
            await self.world.advance(timedelta(seconds=30))
            await asyncio.gather(call, return_exceptions=True)

        self.run(die())
        assert self.run(self.stub(book).do(ops)) == self.expected(book, ops)
        self.run(owner.start())
        self.run(self.world.balance())

    def stub(self, book: str) -> Any:
        return self.world.get(Book, book, request_key=f"request-{self.requests}")
