"""A sealed store stays sealed: the key decides, and a row that somebody removes is an alarm."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wakeful.cli import run
from wakeful.store import Store
from wakeful.store.memory import Disk, MemoryStore
from wakeful.store.protocol import Range
from wakeful.store.sealed_store import CHECK, CHECK_SLOT, SealedStore
from wakeful.store.sqlite import SqliteStore
from wakeful.values.codec import decode, encode
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import NoKey, Undecodable
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.seals import KeyRing, spelled_key
from wakeful.values.timers import Timer

KEY = bytes(range(32))
NOW = 1_760_000_000_000
A, FIRST = ObjectId("Box", "a"), ObjectId("Aaa", "a")


def sealed(inner: Store) -> SealedStore:
    return SealedStore(inner, KeyRing([KEY], os.urandom))


async def put(store: Store, id: ObjectId, name: str, value: str) -> None:
    epochs = await store.claim("n", range(SHARDS), now=NOW)
    commit = Commit(id=id, shard=shard_of(id), epoch=epochs[shard_of(id)], now=NOW, puts={(USER, name): encode(value)})
    assert await store.commit("n", [commit]) == [None]
    await store.release("n", epochs)


async def drop_row(store: Store) -> None:
    """What somebody does who may write to the database."""
    await store.open(now=NOW)
    epochs = await store.claim("evil", range(SHARDS), now=NOW)
    shard = shard_of(CHECK)
    commit = Commit(id=CHECK, shard=shard, epoch=epochs[shard], now=NOW, deletes=[CHECK_SLOT])
    assert await store.commit("evil", [commit]) == [None]
    await store.release("evil", epochs)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_store_that_began_with_a_key_never_takes_a_plain_value(
    kind: str, store_of: Callable[[str], Store]
) -> None:
    inner = store_of(kind)
    store = sealed(inner)
    await store.open(now=NOW)
    await put(store, A, "k", "ours")
    await put(inner, A, "planted", "theirs")
    found = dict(await store.scan(A, USER, Range()))
    assert decode(found["k"]) == "ours"
    with pytest.raises(Undecodable) as caught:
        decode(found["planted"])
    assert caught.value.code == "seal.plain"
    await store.close()


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_row_that_is_gone_is_an_alarm_and_not_a_door(readonly: bool, tmp_path: Path) -> None:
    """Item 5: after a restart, plain values were taken."""
    path = str(tmp_path / "s.db")
    store = sealed(SqliteStore(path))
    await store.open(now=NOW)
    await put(store, A, "k", "ours")
    await store.close()
    inner = SqliteStore(path)
    await drop_row(inner)
    for number in range(3):  # in front of what is sealed
        await put(inner, FIRST, f"{number}", "theirs")
    await inner.close()
    again = sealed(SqliteStore(path))
    with pytest.raises(NoKey, match="wakeful keys mend") as caught:
        await again.open(now=NOW, readonly=readonly)
    assert caught.value.code == "seal.unchecked"


async def test_only_timers_are_sealed_values_too() -> None:
    disk = Disk()
    store = sealed(MemoryStore(disk))
    await store.open(now=NOW)
    assert await store.insert([Timer(A, "job:x", NOW, NOW, 1, payload=encode("x"))], now=NOW) == []
    assert CHECK in disk.rows  # also by a process that owns nothing
    await store.close()
    await sealed(MemoryStore(disk)).open(now=NOW)
    disk.rows[CHECK].pop(CHECK_SLOT)
    with pytest.raises(NoKey) as caught:
        await sealed(MemoryStore(disk)).open(now=NOW)
    assert caught.value.code == "seal.unchecked"


async def test_a_plain_store_still_gets_its_first_key() -> None:
    disk = Disk()
    plain = MemoryStore(disk)
    await plain.open(now=NOW)
    await put(plain, A, "k", "before")
    await plain.close()
    store = sealed(MemoryStore(disk))
    await store.open(now=NOW)
    await put(store, A, "new", "after")
    found = dict(await store.scan(A, USER, Range()))
    assert [decode(found[name]) for name in ("k", "new")] == ["before", "after"]


async def _dropped(path: Path, *, planted: bool) -> None:
    store = sealed(SqliteStore(str(path)))
    await store.open(now=NOW)
    await put(store, A, "k", "ours")
    await store.close()
    inner = SqliteStore(str(path))
    await drop_row(inner)
    if planted:
        await put(inner, A, "planted", "theirs")
    await inner.close()


@pytest.mark.parametrize("planted", [False, True])
def test_doctor_names_it_and_mend_writes_it_anew_unless_something_was_planted(
    planted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    asyncio.run(_dropped(tmp_path / "s.db", planted=planted))
    monkeypatch.setenv("WAKEFUL_KEYS", spelled_key(KEY))
    url = f"sqlite:{tmp_path}/s.db"
    assert run(["doctor", "--store", url]) != 0
    assert "keys mend" in " ".join(capsys.readouterr().out.split())
    code = run(["keys", "mend", "--store", url])
    said = capsys.readouterr()
    if planted:
        assert (code, "[seal.plain]" in said.err) == (1, True), said
        assert run(["keys", "check", "--store", url]) != 0
    else:
        assert code == 0, said
        assert run(["keys", "check", "--store", url]) == 0
