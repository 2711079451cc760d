"""A copy of a store names the nodes that run the first: what is asked of the copy must never reach them."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.live.cluster import Member
from tests.yardstick import PATIENCE_S
from wakeful.store.postgres.url import parse_url


def command(*args: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "wakeful.cli", *args, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def add(url: str, id: str) -> tuple[int, Any]:
    return command("call", "--store", url, "Cell", "a", "add", id)


async def copy_schema(url: str, name: str) -> None:
    schema = parse_url(url).schema
    connection: Any = await asyncpg.connect(parse_url(url).dsn)
    try:
        await connection.execute(f"CREATE SCHEMA {name}")
        for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema):
            table = row["tablename"]
            await connection.execute(f"CREATE TABLE {name}.{table} (LIKE {schema}.{table} INCLUDING ALL)")
            await connection.execute(
                f"INSERT INTO {name}.{table} OVERRIDING SYSTEM VALUE SELECT * FROM {schema}.{table}"
            )
    finally:
        await connection.close()


def copied(url: str, tmp_path: Path) -> str:
    """Another store with the same rows, made while the first runs."""
    if url.startswith("sqlite:"):
        with sqlite3.connect(tmp_path / "first.db") as there, sqlite3.connect(tmp_path / "copy.db") as here:
            there.backup(here)
        (tmp_path / "copy.db-owner").write_bytes((tmp_path / "first.db-owner").read_bytes())
        return f"sqlite:{tmp_path}/copy.db"
    schema = parse_url(url).schema
    asyncio.run(copy_schema(url, f"{schema}_copy"))
    return url.replace(f"schema={schema}", f"schema={schema}_copy")


@pytest.mark.parametrize(
    ("kind", "options"), [("sqlite", ()), ("postgres", ()), ("postgres", ("--listen", "127.0.0.1:0"))]
)
def test_what_is_asked_of_a_copy_does_not_reach_the_nodes_of_the_first(
    kind: str,
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    first = f"sqlite:{tmp_path}/first.db" if kind == "sqlite" else request.getfixturevalue("postgres_schema_url")
    monkeypatch.setenv("WAKEFUL_SECRET", "0123456789abcdef0123456789abcdef")
    member = Member(first, *options)
    try:
        member.wait_for("ready")
        assert add(first, "one") == (0, 1)
        copy = copied(first, tmp_path)
        code, answer = add(copy, "two")
        assert (code, answer["error"]["code"]) == (3, "owner.none")
        _, said = command("nodes", "--store", copy)
        assert all("pid" not in str(node.get("load")) for node in said["nodes"]), said
        assert add(first, "three") == (0, 2)
    finally:
        member.close()


def test_an_owner_whose_lock_was_removed_gives_way_and_goes_on_when_it_may(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/first.db"
    members = [Member(url)]
    try:
        members[0].wait_for("ready")
        assert command("call", "--store", url, "Cell", "a", "tick", "300")[0] == 0
        members[0].freeze()  # else it would notice at once, and be the owner again before the second comes
        (tmp_path / "first.db-owner").unlink()
        members.append(Member(url))
        members[1].wait_for("ready")
        members[0].thaw()
        members[0].until(lambda: bool(members[0].said("store.down")))
        assert command("call", "--store", url, "Cell", "b", "where") == (0, members[1].pid)
        assert members[1].stop() == 0
        members[0].until(lambda: bool(members[0].said("store.up")))
        assert command("call", "--store", url, "Cell", "b", "where") == (0, members[0].pid)
        _, count = add(url, "one")
        time.sleep(1)
        assert add(url, "two")[1] > count + 1, "its alarms don't go on"
    finally:
        for member in members:
            member.close()
