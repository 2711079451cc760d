"""Somebody holds a lock on one table of ours: load balancers are told, with the table and the session, until it is let go."""

import asyncio
import json
import re
import urllib.request
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.live.cluster import Member, fleet, until
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.table_locks import NEEDED, READS, WRITES, holding

CASES = [(table, mode) for table in NEEDED for mode in (READS, WRITES)] if IS_LONG else [("objects", READS)]


def readyz(member: Member) -> tuple[int, dict[str, Any]]:
    url = member.wait_for("ready")[1]["http"]
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


async def answers(member: Member, code: int) -> dict[str, Any]:
    """What it says, once it says it with that code."""
    found: dict[str, Any] = {}

    def is_so() -> bool:
        status, body = readyz(member)
        found.update(body)
        return status == code

    await until(is_so, f"/readyz is {code}")
    return found


@pytest.mark.parametrize(("table", "mode"), CASES)
async def test_a_node_is_not_ready_while_a_table_that_it_needs_is_locked(
    table: str, mode: str, postgres_schema_url: str
) -> None:
    """Nobody calls it and nothing is due: that it could not do its work is seen all the same."""
    with fleet(postgres_schema_url, 1, "--http", "127.0.0.1:0") as [member]:
        await answers(member, 200)
        async with holding(postgres_schema_url, mode, table) as pid:
            said = await answers(member, 503)
            if "is locked" not in said["reason"]:  # it was seen by something else first, and is named a moment later
                await until(lambda: "is locked" in readyz(member)[1].get("reason", ""), "it is named")
                said = readyz(member)[1]
            assert f"table {table} is locked by session {pid} of the database" in said["reason"]
        await answers(member, 200)


async def test_a_table_that_only_a_start_needs_may_be_locked(postgres_schema_url: str) -> None:
    with fleet(postgres_schema_url, 1, "--http", "127.0.0.1:0") as [member]:
        await answers(member, 200)
        async with holding(postgres_schema_url, READS, "migrations"):
            async with asyncio.timeout(30):
                for _ in range(50):
                    assert readyz(member)[0] == 200
                    await asyncio.sleep(0.1)


async def test_a_busy_node_among_short_locks_stays_ready(postgres_schema_url: str) -> None:
    """Somebody's maintenance takes a table for a moment, again and again: each time calls wait a little."""
    with fleet(postgres_schema_url, 1, "--http", "127.0.0.1:0") as [member]:
        await answers(member, 200)
        async with app.connect(postgres_schema_url):
            is_over = False

            async def call(caller: int) -> int:
                done = 0
                while not is_over:
                    await app.get(Cell, f"c{caller}").add(f"{caller}:{done}")
                    done += 1
                return done

            callers = [asyncio.create_task(call(caller)) for caller in range(8)]
            for _ in range(15):
                async with holding(postgres_schema_url, READS, "objects"):
                    await asyncio.sleep(0.3)
                assert (await asyncio.to_thread(readyz, member))[0] == 200
                await asyncio.sleep(0.1)
            is_over = True
            assert min(await asyncio.gather(*callers)) > 0


def outages(member: Member) -> float:
    url = member.wait_for("ready")[1]["http"]
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        found = re.findall(r"^wakeful_store_outages_total (\S+)$", answer.read().decode(), re.M)
    return float(found[0])


async def test_the_log_says_once_that_a_table_is_locked_and_not_that_the_store_comes_and_goes(
    postgres_schema_url: str,
) -> None:
    """Each statement that ran out of time was an outage: store.down and store.up, for as long as the lock was held."""
    with fleet(f"{postgres_schema_url}&timeout=6s", 1, "--http", "127.0.0.1:0") as [member]:
        await answers(member, 200)
        async with app.connect(postgres_schema_url):
            async with holding(postgres_schema_url, READS, "objects") as pid:
                call = asyncio.ensure_future(app.get(Cell, "c").add("1"))  # tried again and again
                await until(lambda: outages(member) >= 2, "its statement ran out of time twice")
            await answers(member, 200)
            await asyncio.wait([call])
        assert member.said("store.down") == member.said("store.up") == []
        [locked, over] = member.said("store.locked")
        assert f"the table objects is locked by session {pid}" in locked["text"]
        assert "no table is locked any more" in over["text"]
