"""What only PostgreSQL can get wrong: locks between sessions, lost connections, URLs, server errors."""

import asyncio
import random
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.arrays import PACKERS
from wakeful.store.postgres.group import gather
from wakeful.store.postgres.url import parse_url
from wakeful.store.protocol import Query, Range
from wakeful.values.commits import SYSTEM, USER, Commit, Remembered, Start
from wakeful.values.errors import (
    BadUrl,
    Fenced,
    OutcomeUnknown,
    SchemaTooNew,
    SchemaTooOld,
    StoreDown,
    StoreError,
    Unavailable,
)
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Parked, Timer

NOW = 1_700_000_000_000
ONE = ObjectId("Customer", "one")
ALL = list(range(256))


def commit_of(id: ObjectId, epoch: int, **what: Any) -> Commit:
    return Commit(id=id, shard=shard_of(id), epoch=epoch, now=NOW, **what)


def put(id: ObjectId, epoch: int, value: bytes = b"v") -> Commit:
    return commit_of(id, epoch, puts={(USER, "k"): value})


@asynccontextmanager
async def opened(url: str) -> Any:
    store = PostgresStore.of_url(url)
    await store.open(now=NOW)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def plain(url: str) -> Any:
    """A connection behind the store's back; `wakeful.` in its SQL is not replaced."""
    connection = await asyncpg.connect(parse_url(url).dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def cut(url: str) -> int:
    """Terminate every session of stores in this database, as a server that goes away does."""
    async with plain(url) as other:
        rows = await other.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'wakeful' AND datname = current_database()"
        )
        for _ in range(200):
            left = await other.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wakeful' AND datname = current_database()"
            )
            if not left:
                break
            await asyncio.sleep(0.01)
    return len(rows)


# fencing


async def test_a_store_that_lost_its_shards_to_another_is_fenced(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        epochs = await a.claim("a", ALL, now=NOW)
        assert await a.commit("a", [put(ONE, epochs[shard_of(ONE)])]) == [None]
        newer = await b.claim("b", [shard_of(ONE)], now=NOW)
        other = next(
            ObjectId("Customer", f"{n}") for n in range(999) if shard_of(ObjectId("Customer", f"{n}")) != shard_of(ONE)
        )
        fenced, fine = await a.commit("a", [put(ONE, 1, b"late"), put(other, 1)])
        assert isinstance(fenced, Fenced)
        assert fine is None
        assert await b.read(ONE, USER, ["k"]) == {"k": b"v"}
        assert await b.commit("b", [put(ONE, newer[shard_of(ONE)], b"mine")]) == [None]


async def test_a_claim_waits_for_a_commit_in_flight(postgres_schema_url: str) -> None:
    schema = parse_url(postgres_schema_url).schema
    async with opened(postgres_schema_url) as store, plain(postgres_schema_url) as flying:
        await store.claim("a", ALL, now=NOW)
        transaction = flying.transaction()
        await transaction.start()
        await flying.execute(f'SELECT FROM "{schema}".shards WHERE shard = 7 FOR SHARE')
        claim = asyncio.create_task(store.claim("b", [7], now=NOW))
        await asyncio.sleep(0.2)
        assert not claim.done()
        await transaction.commit()
        assert await claim == {7: 2}


async def test_a_commit_that_waited_for_a_claim_is_fenced_by_it(postgres_schema_url: str) -> None:
    target = parse_url(postgres_schema_url)
    async with opened(postgres_schema_url) as store, plain(postgres_schema_url) as claiming:
        await store.claim("a", ALL, now=NOW)
        transaction = claiming.transaction()
        await transaction.start()
        await claiming.execute(
            f"UPDATE \"{target.schema}\".shards SET owner = 'b', epoch = epoch + 1 WHERE shard = $1", shard_of(ONE)
        )
        commit = asyncio.create_task(store.commit("a", [put(ONE, 1)]))
        await asyncio.sleep(0.2)
        assert not commit.done()
        await transaction.commit()
        [outcome] = await commit
        assert isinstance(outcome, Fenced)
        assert await store.find_objects(Query()) == []


async def test_two_claims_at_once_give_two_epochs(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as a, opened(postgres_schema_url) as b:
        found = await asyncio.gather(*(store.claim(name, ALL, now=NOW) for store, name in ((a, "a"), (b, "b")) * 3))
        for shard in ALL:
            assert sorted(epochs[shard] for epochs in found) == [1, 2, 3, 4, 5, 6]


async def test_commits_of_two_epochs_in_one_group_are_judged_each_by_its_own(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        await store.claim("a", ALL, now=NOW)
        old, new = await store.commit("a", [put(ONE, 1, b"old"), put(ONE, 2, b"new")])
        assert isinstance(old, Fenced)
        assert new is None
        assert await store.read(ONE, USER, ["k"]) == {"k": b"new"}


# failures


async def test_cut_connections_are_made_again(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        assert await store.commit("a", [put(ONE, 1)]) == [None]
        assert await cut(postgres_schema_url) >= 2
        for _ in range(3):
            try:
                assert await store.commit("a", [put(ONE, 1, b"again")]) == [None]
                break
            except Unavailable:
                continue
        assert await store.read(ONE, USER, ["k"]) == {"k": b"again"}
        assert (await store.claim("a", [0], now=NOW)) == {0: 2}
        await store.open(now=NOW)
        assert await store.count("objects") == 1


async def test_a_session_ended_in_the_middle_of_a_commit_leaves_the_outcome_unknown(postgres_schema_url: str) -> None:
    schema = parse_url(postgres_schema_url).schema
    async with opened(f"{postgres_schema_url}&timeout=3s") as store, plain(postgres_schema_url) as other:
        await store.claim("a", ALL, now=NOW)
        transaction = other.transaction()
        await transaction.start()
        await other.execute(f'SELECT FROM "{schema}".shards FOR UPDATE')
        commit = asyncio.create_task(store.commit("a", [put(ONE, 1)]))
        await asyncio.sleep(0.1)
        await cut(postgres_schema_url)
        with pytest.raises(OutcomeUnknown):
            await commit
        await transaction.rollback()
        assert await store.commit("a", [put(ONE, 1)]) == [None]


async def test_a_read_only_database_is_down_for_writing(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
    reader = PostgresStore.of_url(postgres_schema_url)
    await reader.open(now=NOW, readonly=True)
    try:
        assert len(await reader.owners()) == 256
        with pytest.raises(StoreDown, match="read-only"):
            await reader.commit("a", [put(ONE, 1)])
        with pytest.raises(StoreDown, match="read-only"):
            await reader.claim("a", [1], now=NOW)
    finally:
        await reader.close()


async def test_a_reader_of_an_empty_database_makes_nothing(postgres_schema_url: str) -> None:
    store = PostgresStore.of_url(postgres_schema_url)
    with pytest.raises(SchemaTooOld, match="wakeful migrate"):
        await store.open(now=NOW, readonly=True)


async def test_an_invalid_commit_fails_alone_with_those_that_build_on_it(postgres_schema_url: str) -> None:
    bad = ObjectId("Customer", "bad")
    ids = [ObjectId("Customer", f"{n}") for n in range(20)]
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        group = [put(id, 1) for id in ids]
        group[7:7] = [
            put(bad, 1, b"good"),
            commit_of(bad, 1, sets=[Timer(bad, "nul\0", NOW, NOW, 1)]),
            put(bad, 1, b"on top"),
        ]
        outcomes = await store.commit("a", group)
        assert [n for n, outcome in enumerate(outcomes) if outcome is not None] == [8, 9]
        assert all(isinstance(outcomes[n], StoreError) for n in (8, 9))
        assert await store.read(bad, USER, ["k"]) == {"k": b"good"}
        assert await store.count("objects") == 21
        assert await store.commit("a", [commit_of(ONE, 1, puts={(USER, "\ud800"): b""})]) != [None]
        assert await store.commit("a", [commit_of(ONE, 1, sets=[Timer(ONE, "t", 2**63, NOW, 1)])]) != [None]
        assert await store.count("objects") == 21


async def test_an_unreachable_server_is_down_in_one_line() -> None:
    for url in ("postgresql://u:secret@127.0.0.1:1/x", "postgresql:///x?host=/nowhere/at/all"):
        store = PostgresStore.of_url(url)
        with pytest.raises(StoreDown, match=r"can't be reached: .*; does it run, and do host and port") as caught:
            await store.open(now=NOW)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
        with pytest.raises(StoreDown):
            await store.migrate(now=NOW)
        with pytest.raises(StoreDown, match="closed"):
            await store.owners()


async def test_a_server_that_refuses_says_why_in_one_line(postgres_url: str) -> None:
    nobody = postgres_url.replace("postgres:@", "nobody_here:wrong@")
    if nobody == postgres_url:
        pytest.skip("a server of another making")
    with pytest.raises(StoreDown, match="nobody_here") as caught:
        await PostgresStore.of_url(nobody).open(now=NOW)
    assert "\n" not in str(caught.value)
    assert "wrong" not in str(caught.value)
    assert caught.value.code == "store.auth"


async def test_a_wrong_password_is_one_line(postgres_url: str) -> None:
    """A server that asks for passwords, as far as a client sees: md5 is asked for, then refused."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        start = await reader.readexactly(size - 4)
        if start[:4] == (80877103).to_bytes(4, "big"):  # asks for TLS
            writer.write(b"N")
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size - 4)
        writer.write(b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big"))  # the password, please
        await reader.readexactly(1)
        size = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(size - 4)
        fields = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "u"\0\0'
        writer.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(StoreDown, match='password authentication failed for user "u"') as caught:
            await PostgresStore.of_url(f"postgresql://u:hunter2@127.0.0.1:{port}/x?sslmode=disable").open(now=NOW)
    assert caught.value.code == "store.auth"
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


# versions


async def test_open_makes_the_schema_and_migrate_then_has_nothing_to_do(postgres_schema_url: str) -> None:
    store = PostgresStore.of_url(postgres_schema_url)
    assert await store.migrate(now=NOW) == [
        "0001_core",
        "0002_covers",
        "0003_cluster",
        "0004_receipts",
        "0005_lease",
        "0006_spread",
    ]
    assert await store.migrate(now=NOW) == []
    await store.open(now=NOW)
    assert [row.epoch for row in await store.owners()] == [0] * 256
    await store.close()


async def test_many_that_open_an_empty_database_at_once_all_succeed(postgres_schema_url: str) -> None:
    stores = [PostgresStore.of_url(postgres_schema_url) for _ in range(4)]
    await asyncio.gather(*(store.open(now=NOW) for store in stores))
    for store in stores:
        await store.close()


async def test_a_schema_of_another_version_is_refused(postgres_schema_url: str) -> None:
    schema = parse_url(postgres_schema_url).schema
    async with opened(postgres_schema_url) as store, plain(postgres_schema_url) as other:
        await other.execute(f"INSERT INTO \"{schema}\".migrations VALUES (9999, '9999_later', 0)")
        for act in (store.open, store.migrate):
            with pytest.raises(SchemaTooNew, match="9999"):
                await act(now=NOW)
        await other.execute(f'TRUNCATE "{schema}".migrations')
        await other.execute(f"INSERT INTO \"{schema}\".migrations VALUES (-1, 'before', 0)")
        with pytest.raises(SchemaTooOld, match="wakeful migrate"):
            await store.open(now=NOW)


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/db",
        "postgresql",
        "postgresql://host:port/db",
        "postgresql://host:99999/db",
        "postgresql://h/db?schema=pg_mine",
        "postgresql://h/db?schema=Robert'); DROP",
        "postgresql://h/db?schema=",
        "postgresql://h/db?statement_cache_size=few",
        "postgresql://[::1/db",
        "postgresql://h/db?a",
    ],
)
def test_what_is_not_a_url_of_ours_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        PostgresStore.of_url(url)


def test_the_password_is_not_shown_and_our_options_are_not_passed_on() -> None:
    url = "postgresql://me:p%40ss@a:1,b:2/db?host=/run/x&schema=mine&password=p&statement_cache_size=0"
    target = parse_url(url)
    assert target.dsn == "postgresql://me:p%40ss@a:1,b:2/db?host=/run/x&password=p"
    assert target.shown == "postgresql://me@a:1,b:2/db?host=/run/x&schema=mine&statement_cache_size=0"
    assert (target.schema, target.statement_cache_size) == ("mine", 0)
    assert PostgresStore.of_url("postgres:///db").url == "postgres:///db"


async def test_it_works_without_a_statement_cache(postgres_schema_url: str) -> None:
    async with opened(postgres_schema_url + "&statement_cache_size=0") as store:
        await store.claim("a", ALL, now=NOW)
        assert await store.commit("a", [put(ONE, 1)]) == [None]
        assert await store.read(ONE, USER, ["k"]) == {"k": b"v"}


# rows


async def test_the_longest_names_fit_even_when_they_do_not_compress(postgres_schema_url: str) -> None:
    dice = random.Random(1)
    letters = "".join(map(chr, range(0x21, 0x7F)))
    id = ObjectId(
        "C" + "".join(dice.choices("abcdefghijklmnopqrstuvwxyzABCDEF0123456789_", k=63)),
        "".join(dice.choices(letters, k=512)),
    )
    name = "".join(map(chr, (dice.choice([*range(0x80), *range(0x80)]) for _ in range(2048))))
    timer = Timer(id, "".join(dice.choices(letters, k=512)), NOW, NOW, 1)
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        answer = Remembered("".join(dice.choices(letters, k=1024)), b"f", b"a", NOW + 1)
        commit = commit_of(id, 1, puts={(USER, name): b"x", (SYSTEM, name): b"y"}, sets=[timer], remember=answer)
        assert await store.commit("a", [commit]) == [None]
        assert await store.scan(id, USER, Range()) == [(name, b"x")]
        [info] = await store.find_objects(Query())
        assert (info.rows, info.bytes) == (2, 2 * 2048 + 2)


async def test_an_error_with_a_nul_in_it_is_still_recorded(postgres_schema_url: str) -> None:
    error = "bad byte \0 and \ud800"
    entry = Entry(ONE, "alarm", "r", NOW, NOW, NOW, 1, "failed", "a", error)
    parked = Parked(Timer(ONE, "alarm", NOW, NOW, 1), "r", NOW, 3, "failed", error, error)
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        assert await store.commit("a", [commit_of(ONE, 1, entries=[entry], parks=[parked])]) == [None]
        [(_, found)] = await store.find_entries(Query())
        assert found.error == "bad byte ␀ and \\ud800"


async def test_a_bare_start_does_not_wait_for_the_disk(postgres_schema_url: str) -> None:
    """The setting is for that transaction only: the next commit is durable again."""
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        await store.insert([Timer(ONE, "alarm", NOW, NOW, 5)], now=NOW)
        assert await store.commit("a", [commit_of(ONE, 1, starts=[Start("alarm", 5, 2)])]) == [None]
        [loaded] = await store.load([ONE])
        assert loaded.alarm is not None
        assert (loaded.alarm.started, loaded.alarm.crashes) == (1, 2)
        assert store._writer is not None
        async with store._writer._pool.take() as wire:
            assert wire.can_be_lazy
            assert await wire._connection.fetchval("SHOW synchronous_commit") == "on"


async def test_a_page_of_timers_does_not_read_all_that_are_due_at_one_instant(postgres_schema_url: str) -> None:
    many = [Timer(ObjectId("Job", f"{n}"), "job:x", NOW, NOW, n + 1, priority=n % 3) for n in range(20_000)]
    async with opened(postgres_schema_url) as store:
        await store.insert(many, now=NOW)
        after, seen, more = None, [], True
        while more:
            page, more = await store.timers(ALL, after=after, until=NOW, limit=3_000)
            assert 0 < len(page) <= 3_000
            seen += page
            after = page[-1].sort_key
        assert seen == sorted(many, key=lambda timer: timer.sort_key)


def test_commits_of_one_object_fold_into_rows_that_are_touched_once() -> None:
    first = commit_of(
        ONE,
        1,
        puts={(USER, "a"): b"1", (SYSTEM, "s"): b"1"},
        deletes=[(USER, "b")],
        sets=[Timer(ONE, "x", NOW, NOW, 1), Timer(ONE, "y", NOW, NOW, 2)],
        clears=[("z", 9)],
    )
    second = commit_of(
        ONE,
        1,
        wipe=True,
        deletes=[(USER, "c"), (SYSTEM, "s")],
        puts={(USER, "b"): b"2"},
        clears=[("x", 1), ("y", 7), ("z", 0)],
        starts=[Start("y", 2, 1), Start("z", 9, 1), Start("w", 4, 1)],
    )
    parts, _, values = gather("a", [first, second])
    assert sorted(parts) == ["clears", "deletes", "objects", "puts", "sets", "starts", "wipes"]
    assert values["put_name"] == (b"b",)
    assert values["keep_name"] == (b"b",)
    assert values["delete_name"] == (b"s",)
    assert values["set_name"] == ("y",)
    assert (values["set_started"], values["set_crashes"]) == ((1,), (1,))
    assert sorted(zip(values["clear_name"], values["clear_seq"], strict=True)) == [("x", 0), ("z", 0)]  # type: ignore[call-overload]
    assert values["start_name"] == ("w",)
    assert (values["rows"], values["bytes"]) == ((1,), (2,))


async def test_packed_arrays_are_the_arrays_that_were_meant(postgres_schema_url: str) -> None:
    columns: dict[str, list[Any]] = {
        "_bool": [True, False, True],
        "_bytea": [b"", None, b"x" * 5_000, b"\0\xff"],
        "_int2": [0, -1, 255, 32_767, -32_768],
        "_int4": [0, -1, 2**31 - 1, -(2**31)],
        "_int8": [0, -1, NOW, 2**63 - 1, -(2**63)],
        "_text": ["", None, "é😀", "x" * 5_000],
    }
    async with (
        opened(postgres_schema_url) as store,
        plain(postgres_schema_url) as other,
        store._pools[1].take() as wire,
    ):
        for _, name, encode in PACKERS:
            some = columns[name]
            for column in (
                some,
                [],
                some[:1],
                some[1:2],
                some * 5,
                [some[0]] * 3,
                [some[1]] * 3,
                [some[1], some[0], some[1]],
                some,
                [*some, some[0]],
            ):
                raw = await wire._connection.fetchval(f"SELECT $1::{name}", column)
                assert raw == encode(column) == encode(tuple(column)) or column == []
                text = await wire._connection.fetchval(f"SELECT ($1::{name})::text", column)
                assert await other.fetchval(f"SELECT $1::text::{name}", text) == column
