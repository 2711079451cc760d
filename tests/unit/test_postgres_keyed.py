"""What a group of timers with guards costs on PostgreSQL: one statement, and no part of it that compares all with all."""

import asyncio
from typing import Any

import pytest

from tests.unit.test_postgres_session import NOW, opened
from wakeful.store.postgres.inserter import InsertLine, PendingInsert
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.wire import ServerWire
from wakeful.store.protocol import Guard, Obstacle, Receipt
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

A = ObjectId("A", "a")
PAUSE = Statement("SELECT pg_sleep(0.01)", ())
WAITING = Statement("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'", ())


def timers(count: int, seq: int = 1) -> list[Timer]:
    return [Timer(A, f"k{n}", NOW, NOW, seq) for n in range(count)]


def guards(count: int) -> dict[int, Guard]:
    return {n: Guard(f"record:{n}", f"ask:k{n}:") for n in range(count)}


class Statements:
    """What is sent from now on, and the plans of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.plans: list[str] = []
        run = ServerWire.run

        async def seen(wire: ServerWire, statement: Statement, args: Any = (), **more: Any) -> Any:
            self.sent.append(statement.text)
            explain = Statement(f"EXPLAIN {statement.text}", statement.names)
            self.plans.append("\n".join(row[0] for row in await run(wire, explain, args)))
            return await run(wire, statement, args, **more)

        monkeypatch.setattr(ServerWire, "run", seen)


@pytest.mark.parametrize("each", [True, False])
async def test_a_group_with_guards_is_one_statement_of_single_looks(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    """2,000 jobs with keys took four times as long as without, and nearly all of it was a join of all with all."""
    async with opened(postgres_schema_url) as store:
        await store.insert([Timer(A, "before", NOW, NOW, 1)], now=NOW)
        seen = Statements(monkeypatch)
        receipt = Receipt("lane", 1, NOW + 9)
        assert await store.insert(timers(50), now=NOW, receipt=receipt, guards=guards(50), each=each) == []
        assert len(seen.sent) == 1
        [plan] = seen.plans
        assert "Nested Loop" not in plan
        assert "Join" not in plan
        # Each answer, parked timer and other timer by its own name, not a table of them that was small once.
        assert "requests_expiry" not in plan
        assert "hashed SubPlan" in plan
        assert "requests_pkey" in plan
        assert "Seq Scan" not in plan


async def test_what_is_in_the_way_of_many_is_two_looks_into_the_index_for_each(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one that filters, all timers of an object are read for each of thousands."""
    async with opened(postgres_schema_url) as store:
        await store.insert(timers(3), now=NOW)
        seen = Statements(monkeypatch)
        met = await store.insert(timers(3, seq=2), now=NOW, guards=guards(3), each=True)
        assert met == [Obstacle(n, one) for n, one in enumerate(timers(3))]
        assert len(seen.sent) == 2
        assert "name = " in seen.plans[1]
        assert "Filter: ((f.name" not in seen.plans[1]
        assert seen.plans[1].count("using timers_pkey") == 2


async def test_a_name_that_is_taken_after_the_look_is_met_by_a_second_statement(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first does not look again at each timer it inserts, and fails as a whole."""
    theirs, receipt = Timer(A, "k1", NOW, NOW, 7), Receipt("lane", 1, NOW + 9)
    async with opened(postgres_schema_url) as store, opened(postgres_schema_url) as other:
        await store.insert([Timer(A, "before", NOW, NOW, 1)], now=NOW)
        write, tries = InsertLine._write, []

        async def seen(self: InsertLine, wire: ServerWire, wanted: Any, *, meets: bool) -> Any:
            tries.append(meets)
            return await write(self, wire, wanted, meets=meets)

        async with other._inserter._pool.take() as wire, wire.transaction(timeout_s=60):
            await other._inserter._write(wire, PendingInsert([theirs], NOW, None, {}, False), meets=False)
            monkeypatch.setattr(InsertLine, "_write", seen)
            asked = store.insert(timers(3), now=NOW, receipt=receipt, guards=guards(3), each=True)
            inserting = asyncio.create_task(asked)
            while not await wire.run(WAITING):  # until it waits for this transaction
                await wire.run(PAUSE)
        met = await inserting
        assert (met, tries) == ([Obstacle(1, theirs)], [False, True])
        assert await store.count("timers") == 4
        # One who asks again under the receipt is told the same.
        again = await store.insert(timers(3), now=NOW, receipt=receipt, guards=guards(3), each=True)
        assert again == met
