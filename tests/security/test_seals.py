"""Values at rest: unreadable without the key, of no use in another place, and under a newer key when asked for."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful import App, DurableObject, RetryPolicy, fixed
from wakeful.store import Disk, MemoryStore, Store, key_rotation
from wakeful.store.protocol import Query, Range
from wakeful.store.sealed_store import CHECK, SealedStore, Unkeyed, beneath, with_keys
from wakeful.system import key_ring, open_store, read_keys
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, USER, Commit, Remembered
from wakeful.values.errors import BadOption, NoKey, Undecodable
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.seals import (
    MAGIC,
    OVERHEAD,
    SALT_USES_MAX,
    KeyRing,
    is_sealed,
    open_text,
    parse_keys,
    seal_text,
    spelled_key,
)
from wakeful.values.timers import Entry, Parked, Timer

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
A, B = ObjectId("Box", "a"), ObjectId("Box", "b")
NOW = 1_760_000_000_000
SECRET = "the-secret-text"


@dataclass
class Card:
    number: str


def ring(*keys: bytes) -> KeyRing:
    return KeyRing(keys or (OLD,), os.urandom)


def test_what_is_sealed_opens_only_with_its_key_and_in_its_place() -> None:
    keys = ring(OLD)
    sealed = keys.seal(b"value", b"here")
    assert is_sealed(sealed)
    assert len(sealed) == 5 + OVERHEAD
    assert b"value" not in sealed
    assert keys.open(sealed, b"here") == b"value"
    assert ring(NEW, OLD).open(sealed, b"here") == b"value"
    with pytest.raises(Undecodable) as moved:
        keys.open(sealed, b"there")
    assert moved.value.code == "seal.broken"
    with pytest.raises(NoKey, match=keys.ids[0]):
        ring(NEW).open(sealed, b"here")
    for at in range(len(MAGIC), len(sealed)):
        broken = bytearray(sealed)
        broken[at] ^= 1
        with pytest.raises((Undecodable, NoKey)):
            keys.open(bytes(broken), b"here")


def test_no_two_values_share_a_nonce_and_a_salt_is_used_for_a_while_only() -> None:
    keys = ring()
    sealed = [keys.seal(b"same", b"here") for _ in range(2_000)]
    assert len({one[len(MAGIC) :][4:24] for one in sealed}) == 2_000
    assert len({one[8:16] for one in sealed}) == 1
    keys._uses = SALT_USES_MAX
    assert keys.seal(b"same", b"here")[8:16] != sealed[0][8:16]
    assert ring().seal(b"same", b"here")[8:16] != sealed[0][8:16]  # of another process


def test_keys_are_read_from_texts_files_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{spelled_key(NEW)}  # the newest\n\n{spelled_key(OLD)}\n"
    assert parse_keys(text) == parse_keys(f"{spelled_key(NEW)},{spelled_key(OLD)}") == [NEW, OLD]
    file = tmp_path / "keys"
    file.write_text(text)
    assert read_keys(file) == read_keys([spelled_key(NEW), spelled_key(OLD)]) == [NEW, OLD]
    assert key_ring() is None
    monkeypatch.setenv("WAKEFUL_KEYS", spelled_key(OLD))
    assert key_ring().ids == ring(OLD).ids  # type: ignore[union-attr]
    monkeypatch.setenv("WAKEFUL_KEYS_FILE", str(file))
    assert key_ring().ids == ring(NEW, OLD).ids  # type: ignore[union-attr]
    for bad in ("", "# none", "wkk_12", spelled_key(OLD)[:-1], spelled_key(OLD).upper(), "secret"):
        with pytest.raises(BadOption) as caught:
            App(keys=bad)
        assert bad == "" or bad not in str(caught.value)
    with pytest.raises(BadOption, match="can't be read"):
        App(keys=tmp_path / "none")


def test_texts_are_sealed_as_texts_and_plain_ones_stay() -> None:
    keys = ring()
    sealed = seal_text(keys, f"{SECRET} \0 ü \ud800", b"here")
    assert SECRET not in sealed
    assert sealed.isascii()
    assert open_text(keys, sealed, b"here") == f"{SECRET} \0 ü \ud800"
    assert open_text(keys, "plain", b"here") == "plain"
    assert open_text(keys, "sealed:wk1:nonsense", b"here") == "sealed:wk1:nonsense"
    assert "does not open" in open_text(keys, sealed, b"there")
    assert keys.ids[0] in open_text(ring(NEW), sealed, b"here")


async def fill(store: Store, node: str, *, id: ObjectId = A) -> None:
    """Something secret in every table."""
    epochs = await store.claim(node, range(SHARDS), now=NOW)
    timer = Timer(id, "job:x", NOW, NOW, 1, payload=encode(SECRET))
    commit = Commit(
        id=id,
        shard=shard_of(id),
        epoch=epochs[shard_of(id)],
        now=NOW,
        puts={(USER, "k"): encode(SECRET), (SYSTEM, "state"): encode({"s": SECRET})},
        sets=[timer],
        sends=[Timer(B, "sent", NOW, NOW, 2, payload=encode(SECRET))],
        entries=[Entry(id, "job:x", "r1", NOW, NOW, NOW, 1, "failed", node, error=SECRET)],
        parks=[Parked(replace(timer, name="old"), "r2", NOW, 6, "failed", SECRET, f"Traceback {SECRET}")],
        remember=Remembered("key", b"print" + SECRET.encode(), encode(SECRET), NOW + 9_999_999),
        records=[Remembered("\x01rec", b"print", encode(SECRET), NOW + 9_999_999)],
    )
    assert await store.commit(node, [commit]) == [None]
    assert await store.insert([Timer(id, "added", NOW, NOW, 3, payload=encode(SECRET))], now=NOW) == []


async def everything(store: Store) -> list[Any]:
    """All that a reader can get of it."""
    objects = [A, B]
    return [
        *[await store.scan(id, space, Range()) for id in objects for space in (USER, SYSTEM)],
        [(one.alarm, one.rows) for one in await store.load(objects)],
        await store.read(A, USER, ["k"]),
        await store.recall(A, "key", now=NOW),
        await store.find_answers(Query(cls="Box"), now=NOW),
        sorted(await store.find_timers(Query(cls="Box")), key=lambda one: one.seq),
        sorted((await store.timers(range(SHARDS), after=None, until=NOW, limit=10))[0], key=lambda one: one.seq),
        await store.find_entries(Query(cls="Box")),
        await store.find_parked(Query(cls="Box")),
    ]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_nothing_secret_is_readable_beneath_and_all_of_it_above(
    kind: str, store_of: Callable[[str], Store]
) -> None:
    plain, inner = store_of(kind), store_of(kind)
    sealed = SealedStore(inner, ring())
    for store in (plain, sealed):
        await store.open(now=NOW)
        await fill(store, "n")
    try:
        assert await everything(sealed) == await everything(plain)
        assert SECRET not in str(await everything(inner))
        assert SECRET in str(await everything(plain))
        assert await sealed.known_classes() == ["Box"]
        assert await sealed.count("objects") == 2
        assert [info.id for info in await sealed.find_objects(Query(limit=2))] == [A, B]
        [met] = await sealed.insert([Timer(A, "added", NOW, NOW, 9)], now=NOW)
        assert met.timer is not None
        assert met.timer.payload == encode(SECRET)
    finally:
        await plain.close()
        await sealed.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_plain_store_gets_its_seal_and_then_a_newer_key(kind: str, store_of: Callable[[str], Store]) -> None:
    store = store_of(kind)
    await store.open(now=NOW)
    await fill(store, "n")
    before = await everything(store)
    first = SealedStore(store, ring(OLD))
    await first._look()
    assert await everything(first) == before
    await first.claim("n", range(SHARDS), now=NOW)
    assert (await rotated(first))["stale"] == 9
    assert SECRET not in str(await everything(store))
    assert await everything(first) == before
    await key_rotation.finish(first)
    second = SealedStore(store, ring(NEW, OLD))
    await second._look()
    assert second.sealing.is_whole
    found = await rotated(second)
    assert (found["stale"], found["swapped"], found["shut"]) == (10, 10, 0)  # and the row that says which key is needed
    assert (await rotated(second))["stale"] == 0
    third = SealedStore(store, ring(NEW))
    await third._look()
    assert await everything(third) == before
    [info] = [info for info in await third.find_objects(Query()) if info.id == A]
    assert info.bytes == len(encode(SECRET)) + 1 + len(encode({"s": SECRET})) + 5
    gone = SealedStore(store, ring(OLD))
    with pytest.raises(NoKey, match=ring(NEW).ids[0]):
        await gone._look()
    await store.close()


async def rotated(store: SealedStore) -> dict[str, int]:
    totals = {"seen": 0, "stale": 0, "swapped": 0, "shut": 0}
    place = None
    while True:
        found = await key_rotation.page(store, place, now=NOW, is_change=True)
        totals = {name: count + getattr(found, name) for name, count in totals.items()}
        place = found.place
        if place is None:
            return totals


async def test_many_rows_are_sealed_anew_in_pages_that_miss_none(store_of: Callable[[str], Store]) -> None:
    store = store_of("sqlite")
    await store.open(now=NOW)
    epochs = await store.claim("n", range(SHARDS), now=NOW)
    ids = [ObjectId("Box", f"{n:03d}") for n in range(120)]
    commits = [
        Commit(
            id=id,
            shard=shard_of(id),
            epoch=epochs[shard_of(id)],
            now=NOW,
            puts={(space, f"k{n}"): encode(n) for n in range(7 if index else 330) for space in (USER, SYSTEM)},
        )
        for index, id in enumerate(ids)
    ]
    assert set(await store.commit("n", commits)) == {None}
    sealed = SealedStore(store, ring())
    found = await rotated(sealed)
    total = 119 * 14 + 660
    # One more is seen: the row that says which key the store needs from now on, which is there before any other is sealed.
    assert (found["seen"], found["stale"], found["swapped"]) == (total + 1, total, total)
    assert (await rotated(sealed))["stale"] == 0
    await SealedStore(store, ring())._look()
    await store.close()


async def test_a_row_that_changed_meanwhile_is_left_to_who_changed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await store.open(now=NOW)
    await fill(store, "n")
    sealed = SealedStore(store, ring())
    swaps: list[Any] = []
    swap = store.swap

    async def slow(some: Any) -> int:
        swaps.extend(some)
        rows = store.disk.rows[A]
        rows[USER, "k"] = sealed.sealing.seal(encode("newer"), b"row\0Box\0a\x000\0k")
        return await swap(some)

    monkeypatch.setattr(store, "swap", slow)
    await key_rotation.page(sealed, None, now=NOW, is_change=True)
    assert len(swaps) == 2
    assert decode((await sealed.read(A, USER, ["k"]))["k"]) == "newer"


async def test_rows_that_were_swapped_or_put_there_by_others_are_not_believed() -> None:
    disk = Disk()
    store = SealedStore(MemoryStore(disk), ring())
    await store.open(now=NOW)
    await fill(store, "n")
    await rotated(store)
    await key_rotation.finish(store)
    rows = disk.rows[A]
    rows[USER, "other"] = rows[USER, "k"]  # a row in the place of another
    rows[USER, "plain"] = encode("injected")
    found = dict(await store.scan(A, USER, Range()))
    assert decode(found["k"]) == SECRET
    with pytest.raises(NoKey) as moved:
        decode(found["other"])
    assert moved.value.code == "seal.broken"
    with pytest.raises(Undecodable) as plain:
        decode(found["plain"])
    assert plain.value.code == "seal.plain"
    # Timers of the page that can't be opened don't take the others with them.
    key = (A, "job:x")
    disk.timers[key] = replace(disk.timers[key], payload=disk.timers[B, "sent"].payload)
    timers, _ = await store.timers(range(SHARDS), after=None, until=NOW, limit=10)
    assert [is_sealed(one.payload or b"") for one in sorted(timers, key=lambda one: one.seq)] == [True, False, False]
    before = disk.timers[key].payload
    epochs = await store.claim("n", range(SHARDS), now=NOW)
    broken = next(one for one in timers if one.name == "job:x")
    commit = Commit(id=A, shard=shard_of(A), epoch=epochs[shard_of(A)], now=NOW, sets=[broken])
    assert await store.commit("n", [commit]) == [None]
    assert disk.timers[key].payload == before  # tried again later, as it was, with whatever key opens it


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("sealed.db*"))


async def test_a_store_without_its_key_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/sealed.db"
    key = spelled_key(OLD)
    app, plain = App(keys=key), App()

    class Box(DurableObject):
        async def put(self, text: str) -> None:
            await self.storage.put("text", Card(text))

        async def get(self) -> str:
            return str((await self.storage.get("text")).number)

    app.object(Box)
    plain.object(Box)
    async with app.run(url):
        await app.get(Box, "a").put(SECRET)
    assert SECRET.encode() not in on_disk(tmp_path)
    with pytest.raises(NoKey, match="WAKEFUL_KEYS"):
        async with plain.run(url):
            pass
    other = App(keys=spelled_key(NEW))
    with pytest.raises(NoKey, match=ring(OLD).ids[0]):
        async with other.run(url):
            pass
    both = App(keys=[spelled_key(NEW), key])
    both.object(Box)
    async with both.run(url):
        assert await both.get(Box, "a").get() == SECRET
    with pytest.raises(NoKey):
        await open_store(url).open(now=NOW, readonly=True)


async def test_jobs_schedules_alarms_and_errors_work_under_a_seal() -> None:
    app = App(keys=spelled_key(OLD))

    @app.object
    class Box(DurableObject):
        async def put(self, text: str) -> str:
            await self.storage.put("text", text)
            return text

        async def plan(self) -> None:
            await self.schedules.add("every day at 09:00", self.fails, SECRET, name="daily", retry=ONCE)

        async def fails(self, text: str) -> None:
            raise ValueError(text)

    async with app.world() as world:
        box = world.get(Box, "a")
        await box.plan()
        job = await app.jobs.schedule(box.put, SECRET, after="1h", metadata={"what": SECRET})
        await world.advance(hours=2)
        assert await app.jobs.wait(job.id) == SECRET
        await world.advance(days=2)
        assert SECRET in str((await world.ledger(Box, "a", "daily"))[0].error)
        [parked, *_] = await world.parked()
        assert SECRET in parked.traceback
        disk = world._disk
        tables = (disk.rows, disk.timers, disk.entries, disk.parked, disk.remembered)
        assert SECRET not in str(tables)
        await world.crash()
        await world.restart(after=timedelta(hours=1))
        assert await world.rows(Box, "a") == {"text": SECRET}


ONCE = RetryPolicy(max_attempts=1, backoff=fixed("1s"))


async def test_without_keys_nothing_stands_between_a_node_and_its_store() -> None:
    inner = MemoryStore()
    store: Any = with_keys(inner, None)
    await store.open(now=NOW)
    assert isinstance(store, Unkeyed)
    assert beneath(store) is inner
    assert store.commit == inner.commit
    assert store.__dict__["commit"] == inner.commit
    assert await store.read(CHECK, SYSTEM, ["check"]) == {}
