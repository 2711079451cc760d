"""The lasting connection: hearing others, being missed, coming back; and networks and servers that don't answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from msgspec.structs import replace

from tests.yardstick import PATIENCE_S, Yardstick
from wakeful.store.postgres import PostgresStore, session
from wakeful.store.postgres.session import channel_of
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import TIMEOUT_MS, parse_url
from wakeful.store.postgres.wire import ServerWire
from wakeful.store.protocol import Hint, NodeRow
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import BadUrl, OutcomeUnknown, StoreDown, StoreError, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

NOW = 1_700_000_000_000
ONE = ObjectId("Customer", "one")
ALL = list(range(256))


@asynccontextmanager
async def opened(url: str, *, readonly: bool = False) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.of_url(url)
    await store.open(now=NOW, readonly=readonly)
    try:
        yield store
    finally:
        await store.close()


async def execute(url: str, sql: str, *args: object) -> list[Any]:
    connection = await asyncpg.connect(parse_url(url).dsn)
    try:
        rows: list[Any] = await connection.fetch(sql, *args)
        return rows
    finally:
        await connection.close()


def row(node: str) -> NodeRow:
    return NodeRow(node, "", NOW, NOW + 5000, "test")


def put(value: bytes = b"v") -> Commit:
    return Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=NOW, puts={(USER, "k"): value})


async def until(is_so: Callable[[], bool]) -> None:
    """Real processes take real time."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it did not come"
        await asyncio.sleep(0.005)


async def cut(url: str) -> None:
    """End every listening session, as a server that restarts does."""
    await execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query ~ 'LISTEN|advisory|pg_locks|notify' AND pid <> pg_backend_pid() AND datname = current_database()",
    )


class Proxy:
    """Stands between client and server, and can stop passing anything on without a word to either."""

    def __init__(self, url: str) -> None:
        self._host = parse_qs(urlsplit(url).query)["host"][0]
        self._name = urlsplit(url).path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.schema = parse_url(url).schema

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}{self._name}?sslmode=disable&schema={self.schema}"

    def drop(self) -> None:
        self._flows.clear()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.5432")
        for source, sink in ((reader, back_writer), (back_reader, writer)):
            task = asyncio.create_task(self._pass(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self._flows.wait()
                sink.write(data)
        except (ConnectionError, OSError):
            pass
        finally:
            sink.close()


# hearing


async def test_what_one_tells_the_others_hear_and_it_does_not_itself(postgres_schema_url: str) -> None:
    heard: dict[str, list[Sequence[Hint]]] = {"a": [], "b": [], "c": []}
    async with (
        opened(postgres_schema_url) as a,
        opened(postgres_schema_url) as b,
        opened(postgres_schema_url.replace("schema=test_", "schema=other_")) as c,
    ):
        assert a.listens
        for name, store in (("a", a), ("b", b), ("c", c)):
            store.watch(heard[name].append)
        await a.tell([Hint(3, NOW, NOW + 5), Hint(3, NOW - 1, NOW), Hint(9, NOW, NOW)])
        await until(lambda: len(heard["b"]) == 1)
        assert heard["b"] == [[Hint(3, NOW - 1, NOW + 5), Hint(9, NOW, NOW)]]
        await a.tell([])
        await until(lambda: len(heard["b"]) == 2)
        assert heard["b"][1] == []
        assert heard["a"] == heard["c"] == []
    await execute(
        postgres_schema_url, f'DROP SCHEMA "{parse_url(postgres_schema_url).schema.replace("test_", "other_")}" CASCADE'
    )


async def test_hints_of_all_shards_are_split_and_many_tellers_share_a_notification(postgres_schema_url: str) -> None:
    heard: list[Sequence[Hint]] = []
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        b.watch(heard.append)
        await a.tell([Hint(n, 10**15 - 1, 10**15 - 1) for n in ALL])
        await until(lambda: sum(map(len, heard)) == 256)
        assert len(heard) == 2
        heard.clear()
        await asyncio.gather(*(a.tell([Hint(n % 4, NOW + n, NOW + n)]) for n in range(1000)))
        await until(lambda: any(hint.last_at == NOW + 999 for hints in heard for hint in hints))
        assert len(heard) <= 20
        assert min(hint.first_at for hints in heard for hint in hints) == NOW
        assert max(hint.last_at for hints in heard for hint in hints) == NOW + 999


async def test_a_session_that_was_cut_comes_back_and_says_that_something_may_be_missing(
    postgres_schema_url: str,
) -> None:
    heard: list[Sequence[Hint]] = []
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        b.watch(heard.append)
        await b.join(row("b"))
        await cut(postgres_schema_url)
        await until(lambda: heard[:1] == [[]])
        await until(lambda: a._session is not None and a._session.is_alive)
        await a.tell([Hint(1, NOW, NOW)])
        await until(lambda: [Hint(1, NOW, NOW)] in heard)
        assert (await b.nodes())[0].is_here is True


async def test_hints_told_while_the_session_is_away_arrive_when_it_is_back(postgres_schema_url: str) -> None:
    heard: list[Sequence[Hint]] = []
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        b.watch(heard.append)
        assert a._session is not None
        assert a._session._wire is not None
        a._session._wire.drop()
        await a.tell([Hint(1, NOW, NOW)])
        await a.tell([Hint(1, NOW + 2, NOW + 2), Hint(2, NOW, NOW)])
        await until(lambda: bool(heard))
        assert heard == [[Hint(1, NOW, NOW + 2), Hint(2, NOW, NOW)]]


async def test_a_foreign_notification_means_look_at_everything(postgres_schema_url: str) -> None:
    heard: list[Sequence[Hint]] = []
    async with opened(postgres_schema_url) as store:
        store.watch(heard.append)
        channel = channel_of(parse_url(postgres_schema_url).schema)
        await execute(postgres_schema_url, "SELECT pg_notify($1, 'hello')", channel)
        await until(lambda: heard == [[]])


def test_a_channel_name_fits_whatever_the_schema_is_called() -> None:
    longest = "s" * 63
    assert channel_of("wakeful") == "wakeful:wakeful"
    assert len(channel_of(longest)) <= 63
    assert channel_of(longest) != channel_of(longest[:-1] + "t")


# being missed


async def test_a_node_is_here_while_its_session_lives(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SETTLE_S", 0.0)
    off = f"{postgres_schema_url}&session_lock=off"
    async with (
        opened(postgres_schema_url) as a,
        opened(off) as blind,
        opened(postgres_schema_url, readonly=True) as reader,
    ):
        b = PostgresStore.of_url(postgres_schema_url)
        await b.open(now=NOW)
        for store, name in ((a, "a"), (b, "b"), (blind, "c")):
            await store.join(row(name))
            await store.join(row(name))
        seen = {one.node: one.is_here for one in await a.nodes()}
        assert seen == {"a": True, "b": True, "c": None}
        assert {one.is_here for one in await blind.nodes()} == {None}
        assert {one.node: one.is_here for one in await reader.nodes()} == seen
        await b.close()
        assert {one.node: one.is_here for one in await a.nodes()} == {"a": True, "b": False, "c": None}
        await a.leave("a")
        assert [one.node for one in await a.nodes()] == ["b", "c"]


async def test_on_a_standby_nobody_is_missed(postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are not copied to it: `wakeful nodes` called every node of a healthy cluster gone."""
    async with opened(postgres_schema_url) as a:
        await a.join(row("a"))
        monkeypatch.setattr("wakeful.store.postgres.migrations._STANDBY", Statement("SELECT true", ()))
        async with opened(postgres_schema_url, readonly=True) as reader:
            assert [(one.node, one.is_here) for one in await reader.nodes()] == [("a", None)]


async def test_nobody_is_missed_right_after_the_server_came_back(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every restart of the server would have every node take everybody's shards."""

    async def young(wire: ServerWire) -> float:
        return 0.1

    monkeypatch.setattr(ServerWire, "uptime_s", young)  # the tests' server has been up for longer
    async with opened(postgres_schema_url) as a:
        b = PostgresStore.of_url(postgres_schema_url)
        await b.open(now=NOW)
        await b.join(row("b"))
        await b.close()
        assert [one.is_here for one in await a.nodes()] == [None]


async def test_a_lock_that_somebody_else_has_is_no_session_and_is_tried_again(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SETTLE_S", 0.0)
    async with opened(postgres_schema_url) as new:
        old = PostgresStore.of_url(postgres_schema_url)
        await old.open(now=NOW)
        await old.join(row("a"))
        await new.join(row("a"))
        assert [one.is_here for one in await new.nodes()] == [None]
        await old.close()
        await new.join(row("a"))
        assert [one.is_here for one in await new.nodes()] == [True]


async def test_opening_again_keeps_the_session_and_its_lock(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        await store.join(row("a"))
        before = store._session
        await store.open(now=NOW)
        assert store._session is before
        assert [one.is_here for one in await store.nodes()] == [True]


async def test_without_listen_there_are_no_hints_and_a_reader_has_no_session(postgres_schema_url: str) -> None:
    async with opened(f"{postgres_schema_url}&listen=off") as store:
        assert not store.listens
        await store.tell([Hint(1, NOW, NOW)])
        await store.join(row("a"))
        assert [one.is_here for one in await store.nodes()] == [True]
        async with opened(postgres_schema_url, readonly=True) as reader:
            assert not reader.listens
            assert reader._session is None
    async with opened(f"{postgres_schema_url}&listen=off&session_lock=off") as store:
        assert store._session is None
        await store.join(row("a"))
        assert [one.is_here for one in await store.nodes()] == [None]


async def test_behind_a_pooler_there_is_no_session(postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 4_711)
    async with opened(postgres_schema_url) as store:
        assert not store.listens
        await store.join(row("a"))
        assert [one.is_here for one in await store.nodes()] == [None]


async def test_the_clock_is_the_database_s(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        before = int(time.time() * 1000)
        at = await store.time()
        assert at is not None
        assert before - 5 <= at <= int(time.time() * 1000) + 5


# networks that swallow


async def test_a_network_that_drops_packets_is_noticed_within_the_timeout(postgres_schema_url: str) -> None:
    async with Proxy(postgres_schema_url) as proxy:
        store = PostgresStore.of_url(f"{proxy.url}&timeout=300ms")
        await store.open(now=NOW)
        await store.claim("a", ALL, now=NOW)
        assert await store.commit("a", [put()]) == [None]
        assert await store.insert([Timer(ONE, "first", NOW, NOW, 1)], now=NOW) == []
        proxy.drop()
        with Yardstick() as machine:
            began = time.monotonic()
            outcomes = await asyncio.gather(
                store.commit("a", [put(b"w")]),
                store.owners(),
                store.insert([Timer(ONE, "second", NOW, NOW, 1)], now=NOW),
                return_exceptions=True,
            )
            noticed_s = time.monotonic() - began
            assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown, StoreDown, OutcomeUnknown]
            began = time.monotonic()
            await store.close()
            closed_s = time.monotonic() - began
        assert noticed_s < machine.allows(2), machine
        assert closed_s < machine.allows(3), machine


async def test_telling_and_joining_over_a_dead_session_does_not_hold_up_the_node(postgres_schema_url: str) -> None:
    async with Proxy(postgres_schema_url) as proxy:
        store = PostgresStore.of_url(f"{proxy.url}&timeout=300ms")
        await store.open(now=NOW)
        proxy.drop()
        with Yardstick() as machine:
            began = time.monotonic()
            await store.tell([Hint(1, NOW, NOW)])
            with pytest.raises(StoreDown):
                await store.join(replace(row("a"), lease_ms=500))  # of which a part is waited for the lock
            took_s = time.monotonic() - began
        assert took_s < machine.allows(2), machine
        await store.close()


# what is wrong with a server, said at the start


async def test_an_unknown_database_is_named_with_the_remedy(postgres_schema_url: str) -> None:
    url = postgres_schema_url.replace("/wakeful_test_", "/no_such_")
    with pytest.raises(StoreDown, match=r"does not exist.*createdb") as caught:
        await PostgresStore.of_url(url).open(now=NOW)
    assert caught.value.code == "store.database"


async def test_an_option_of_the_url_that_the_server_does_not_know_is_no_outage(postgres_schema_url: str) -> None:
    with pytest.raises(StoreDown, match=r"tmeout.*correct the options in the URL") as caught:
        await PostgresStore.of_url(f"{postgres_schema_url}&tmeout=3s").open(now=NOW)
    assert caught.value.code == "store.option"


async def test_a_read_only_server_is_refused_at_the_start(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
    [(name,)] = await execute(postgres_schema_url, "SELECT current_database()")
    await execute(postgres_schema_url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        with pytest.raises(StoreError, match="takes no writes; default_transaction_read_only is on") as caught:
            await PostgresStore.of_url(postgres_schema_url).open(now=NOW)
        assert "primary" not in caught.value.message  # it is the primary
        assert caught.value.code == "store.readonly"
        async with opened(postgres_schema_url, readonly=True) as reader:
            assert (await reader.owners())[0].owner == "a"
    finally:
        connection = await asyncpg.connect(parse_url(postgres_schema_url).dsn)
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f'ALTER DATABASE "{name}" RESET ALL')
        await connection.close()


async def test_missing_rights_and_used_up_connections_are_said_with_the_remedy(postgres_schema_url: str) -> None:
    schema = parse_url(postgres_schema_url).schema
    role = f"role_{schema}"
    async with opened(postgres_schema_url):
        pass
    await execute(postgres_schema_url, f"CREATE ROLE {role} LOGIN")
    theirs = postgres_schema_url.replace("postgres:@", f"{role}:@")
    try:
        with pytest.raises(StoreError, match=f"schema {schema}; the role needs USAGE") as caught:
            await PostgresStore.of_url(theirs).open(now=NOW)
        assert caught.value.code == "store.rights"
        await execute(postgres_schema_url, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        await execute(postgres_schema_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
        with pytest.raises(StoreError, match="INSERT on ledger, migrations, nodes") as caught:
            await PostgresStore.of_url(theirs).open(now=NOW)
        async with opened(theirs, readonly=True) as reader:
            assert await reader.nodes() == []
        with pytest.raises(
            Unavailable, match=r"permission denied.*no schema fresh yet: let .* `wakeful migrate`"
        ) as refused:
            await PostgresStore.of_url(theirs.replace(f"schema={schema}", "schema=fresh")).open(now=NOW)
        assert refused.value.code == "store.rights"
        await execute(postgres_schema_url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
        with pytest.raises(StoreDown, match="max_connections") as full:
            await PostgresStore.of_url(theirs).open(now=NOW)
        assert full.value.code == "store.connections"
        assert "\n" not in str(full.value)
    finally:
        await execute(postgres_schema_url, f"DROP OWNED BY {role}")
        await execute(postgres_schema_url, f"DROP ROLE {role}")


def test_the_url_says_how_long_to_wait_and_what_to_do_without() -> None:
    plain = parse_url("postgresql://h/x")
    assert (plain.timeout_ms, plain.listen, plain.session_lock) == (TIMEOUT_MS, True, True)
    for text, length_ms in (("10s", 10_000), ("500ms", 500), ("7", 7_000)):
        assert parse_url(f"postgresql://h/x?timeout={text}").timeout_ms == length_ms
    off = parse_url("postgresql://h/x?listen=off&session_lock=off&timeout=2s")
    assert (off.listen, off.session_lock, off.dsn) == (False, False, "postgresql://h/x")
    for bad in ("timeout=soon", "timeout=0", "timeout=99ms", "listen=maybe", "session_lock=1"):
        with pytest.raises(BadUrl, match=bad.partition("=")[0]):
            parse_url(f"postgresql://h/x?{bad}")


async def test_a_teller_does_not_wait_for_what_others_tell_after_it(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        answered = 0

        async def tell_on() -> None:
            nonlocal answered
            for n in range(50):
                await store.tell([Hint(n, NOW, NOW)])
                answered += 1

        await asyncio.wait_for(asyncio.gather(*(tell_on() for _ in range(20))), 20)
        assert answered == 1000


async def test_tellers_are_let_go_when_the_session_is_lost_under_them(postgres_schema_url: str) -> None:
    heard: list[Sequence[Hint]] = []
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        b.watch(heard.append)
        assert a._session is not None
        assert a._session._wire is not None
        telling = [asyncio.create_task(a.tell([Hint(n, NOW, NOW)])) for n in range(5)]
        await asyncio.sleep(0)
        a._session._wire.drop()
        telling += [asyncio.create_task(a.tell([Hint(n, NOW, NOW)])) for n in range(5, 9)]
        await asyncio.wait_for(asyncio.gather(*telling), PATIENCE_S)
        await until(lambda: {hint.shard for hints in heard for hint in hints} == set(range(9)))
