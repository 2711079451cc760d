"""PostgreSQL answers, and the answer is lost: what was sent is sent again, and written once."""

from typing import Any

import pytest

from tests.unit.test_postgres_session import ALL, NOW, ONE, opened, put
from wakeful.store.postgres.wire import ServerWire
from wakeful.store.postgres.writer import PostgresWriter
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, OutcomeUnknown
from wakeful.values.ids import shard_of
from wakeful.values.timers import Entry


def lose_answers(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """The connections of so many commits from now on break when these are written."""
    run, left = ServerWire.run, [times]

    async def losing(self: ServerWire, statement: Any, args: Any = (), *, writes: bool = False, **more: Any) -> Any:
        rows = await run(self, statement, args, writes=writes, **more)
        if writes and left[0]:
            left[0] -= 1
            self.drop()
            raise OutcomeUnknown("the answer was lost (the test says so)")
        return rows

    monkeypatch.setattr(ServerWire, "run", losing)
    return left


async def test_a_group_whose_answer_was_lost_is_written_once(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again under its number, and found; under a new one, as a careless writer would, it is written twice."""
    entry = Entry(ONE, "alarm", "r1", NOW, NOW, NOW, 0, "run", "a")
    commit = Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=NOW, entries=[entry])
    async with opened(postgres_schema_url) as store:
        await store.claim("a", ALL, now=NOW)
        left = lose_answers(monkeypatch, 2)
        assert await store.commit("a", [commit]) == [None]
        assert (left, await store.count("entries")) == ([0], 1)
        left[0] = 1
        await store.claim("b", ALL, now=NOW, seen=dict.fromkeys(ALL, 0))  # nobody: it was seen otherwise
        assert await store.commit("a", [commit]) == [None]
        assert await store.count("entries") == 2
        attempt = PostgresWriter._try

        async def careless(self: PostgresWriter, parts: Any, shards: Any, values: Any, **more: Any) -> Any:
            self._number += 1
            return await attempt(self, parts, shards, values | {"number": self._number}, **more)

        monkeypatch.setattr(PostgresWriter, "_try", careless)
        left[0] = 1
        assert await store.commit("a", [commit]) == [None]
        assert await store.count("entries") == 4  # which is why it has a number


async def test_a_group_that_arrived_before_its_shard_was_taken_is_not_called_fenced(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(postgres_schema_url) as store, opened(postgres_schema_url) as other:
        await store.claim("a", ALL, now=NOW)
        attempt, tries = PostgresWriter._try, []

        async def robbed(self: PostgresWriter, *args: Any, **more: Any) -> Any:
            if tries:
                await other.claim("b", ALL, now=NOW)
            tries.append(1)
            return await attempt(self, *args, **more)

        monkeypatch.setattr(PostgresWriter, "_try", robbed)
        lose_answers(monkeypatch, 1)
        assert await store.commit("a", [put()]) == [None]
        assert isinstance((await store.commit("a", [put(b"w")]))[0], Fenced)
        assert len(tries) == 3
