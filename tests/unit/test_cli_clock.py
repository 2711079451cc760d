"""Commands on a machine whose clock is wrong go by the clock of the database, as the nodes do."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import checkups, output, run
from wakeful.store import open_url
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Timer

HOUR = 3_600_000


@pytest.mark.parametrize("off_ms", [-HOUR, HOUR])
def test_what_is_due_is_so_by_the_database_s_clock(
    off_ms: int, postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fill() -> None:
        store = open_url(postgres_schema_url)
        await store.open(now=1)
        now = await store.time()
        assert now is not None
        assert await store.insert([Timer(ObjectId("Order", "a"), "alarm", now + 600_500, now, 1)], now=now) == []
        await store.close()

    asyncio.run(fill())
    for module in (output, checkups):
        monkeypatch.setattr(module, "own_ms", lambda: time.time_ns() // 1_000_000 + off_ms)
    assert run(["due", "--store", postgres_schema_url]) == 0
    assert "in 10 min" in capsys.readouterr().out
    assert run(["doctor", "--store", postgres_schema_url]) == 0
    assert "60 min" in capsys.readouterr().out


def test_without_a_store_it_is_the_machine_s() -> None:
    output.follow(None)
    assert abs(output.now_ms() - time.time_ns() // 1_000_000) < 1_000


@pytest.mark.parametrize("back_ms", [0, HOUR])
def test_a_run_while_the_doctor_waited_for_a_frozen_node_is_not_of_the_future(
    back_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It held the ledger against the time at which it began: "in 6.0 s: the clock was set back since"."""
    url = f"sqlite:{tmp_path}/a.db"
    id = ObjectId("Order", "a")
    now = 1_700_000_000_000
    ran_at = now + 6_000

    async def fill() -> None:
        store = open_url(url)
        await store.open(now=now)
        [epoch] = (await store.claim("n", [shard_of(id)], now=now)).values()
        entry = Entry(id, "alarm", "r", ran_at, ran_at, ran_at, 0, "run", "n")
        commit = Commit(id=id, shard=shard_of(id), epoch=epoch, now=ran_at, entries=[entry])
        assert await store.commit("n", [commit]) == [None]
        await store.close()

    async def statuses(*_: Any) -> dict[str, Any]:
        nonlocal now
        now = ran_at - back_ms
        return {}

    asyncio.run(fill())
    output.follow(None)
    monkeypatch.setattr(output, "own_ms", lambda: now)
    monkeypatch.setattr("wakeful.cli.node_access.statuses", statuses)
    assert run(["doctor", "--store", url]) == 0
    said = capsys.readouterr().out
    assert now == ran_at - back_ms
    assert ("set back" in said) == ("in 60 min: the clock was set back since" in said) == bool(back_ms)
