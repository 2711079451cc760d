"""Commands on a machine whose clock is wrong go by the clock of the database, as the nodes do."""

import asyncio
import time

import pytest

from wakeful.cli import checkups, printing, run
from wakeful.store import open_url
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

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
    for module in (printing, checkups):
        monkeypatch.setattr(module, "own_ms", lambda: time.time_ns() // 1_000_000 + off_ms)
    assert run(["due", "--store", postgres_schema_url]) == 0
    assert "in 10 min" in capsys.readouterr().out
    assert run(["doctor", "--store", postgres_schema_url]) == 0
    assert "60 min" in capsys.readouterr().out


def test_without_a_store_it_is_the_machine_s() -> None:
    printing.follow(None)
    assert abs(printing.now_ms() - time.time_ns() // 1_000_000) < 1_000
