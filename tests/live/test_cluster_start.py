"""A node that can't be one says so when it starts, with the remedy, and leaves nothing of itself behind."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg

from tests.live.cluster import Member, fetch
from tests.live.harness import PROGRAMS
from tests.yardstick import PATIENCE_S
from wakeful.store.postgres.url import parse_url

SECRET, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
# A role that may have so few connections at once that a node can't work.
FEW = 3


class Fault(NamedTuple):
    """How a node is started, and what it must say."""

    code: str
    remedy: str
    url: str
    options: tuple[str, ...] = ()
    secret: str = SECRET


async def execute(url: str, *statements: str) -> None:
    connection: Any = await asyncpg.connect(parse_url(url).dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def somebody_at() -> Iterator[int]:
    """A port that is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield int(taken.getsockname()[1])


def start(fault: Fault) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "wakeful.cli",
        "run",
        f"{PROGRAMS / 'fleet.py'}:app",
        "--store",
        fault.url,
        "--json",
    ]
    options = fault.options or ("--listen", "127.0.0.1:0")
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WAKEFUL_FLEET": "1", "WAKEFUL_SECRET": fault.secret},
    )


async def test_a_node_that_can_t_be_one_says_why_and_leaves_nothing(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    schema = parse_url(url).schema
    old, few = f"{schema}_old", f"few_{schema}"
    healthy = Member(url, "--listen", "127.0.0.1:0", env={"WAKEFUL_SECRET": SECRET})
    try:
        healthy.wait_for("ready")
        await execute(
            url,
            f"CREATE ROLE {few} LOGIN CONNECTION LIMIT {FEW}",
            f"GRANT ALL ON SCHEMA {schema} TO {few}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {few}",
            f"CREATE SCHEMA {old}",
            f"CREATE TABLE {old}.migrations AS SELECT * FROM {schema}.migrations WHERE number = 1",
        )
        with somebody_at() as port:
            faults = [
                Fault("cluster.secret", "give both the same", url, secret=OTHER),
                Fault(
                    "cluster.name", "give both the same name", url, ("--cluster", "another", "--listen", "127.0.0.1:0")
                ),
                Fault("store.older", "wakeful migrate", url.replace(f"schema={schema}", f"schema={old}")),
                Fault("store.readonly", "turn it off", f"{url}&default_transaction_read_only=on"),
                Fault(
                    "store.connections",
                    "raise max_connections",
                    url.replace("//postgres:@", f"//{few}@").replace("//postgres@", f"//{few}@"),
                ),
                Fault("address.in_use", "choose another", url, ("--listen", f"127.0.0.1:{port}")),
                Fault(
                    "address.unreachable", "--advertise", url, ("--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1")
                ),
            ]
            started = [start(fault) for fault in faults]
            said = []
            for process in started:
                try:
                    out, err = process.communicate(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
                    err += "(it ran)"
                said.append((process.returncode, out, err))
        # A node that speaks a version which nobody here understands.
        await execute(
            url,
            f"INSERT INTO {schema}.nodes (node, address, joined_at, lease_until, about, version) "
            f"VALUES ('ancient', '', 0, {2**52}, 'an old node', 0)",
        )
        faults.append(Fault("cluster.version", "stop the old nodes", url))
        process = start(faults[-1])
        out, err = process.communicate(timeout=PATIENCE_S)
        said.append((process.returncode, out, err))
        await execute(url, f"DELETE FROM {schema}.nodes WHERE node = 'ancient'")
        problems = [problem for fault, what in zip(faults, said, strict=True) if (problem := wrong(fault, *what))]
        nodes = [row[0] for row in await fetch(url, "SELECT node FROM {s}.nodes")]
        for _ in range(50):  # what it had let go for the ancient one comes back to it
            owners = [row[0] for row in await fetch(url, "SELECT DISTINCT owner FROM {s}.shards")]
            if None not in owners:
                break
            await asyncio.sleep(0.1)
    finally:
        healthy.close()
        await execute(url, f"DROP SCHEMA IF EXISTS {old} CASCADE", f"DROP OWNED BY {few}", f"DROP ROLE IF EXISTS {few}")
    assert not problems, "\n".join(problems)
    assert (nodes, owners) == ([healthy.name], [healthy.name]), "somebody is half in"
    print("\n".join(err.strip() for _, _, err in said))


def wrong(fault: Fault, code: int, out: str, err: str) -> str | None:
    """What is wrong with how it ended, if anything."""
    about = f"{fault.code}: exit code {code}, said {err.strip()!r}, {out[-300:]!r}"
    lines = [line for line in err.splitlines() if line.strip()]
    if code == 0 or len(lines) != 1 or not lines[0].startswith("error: ") or not lines[0].endswith(f"[{fault.code}]"):
        return about
    if fault.remedy not in lines[0] or json.loads(out.splitlines()[-1])["error"]["code"] != fault.code:
        return about
    return None


async def test_a_node_that_finds_its_tables_locked_says_that_it_waits_and_stops_when_asked(
    postgres_schema_url: str,
) -> None:
    url = postgres_schema_url
    schema = parse_url(url).schema
    members = [Member(url)]
    members[0].wait_for("ready")
    assert members[0].stop() == 0
    connection: Any = await asyncpg.connect(parse_url(url).dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {schema}.nodes, {schema}.shards IN EXCLUSIVE MODE")  # as `move` does
            members += (waiting := Member(url), going := Member(url))
            waiting.until(lambda: bool(waiting.said("store.start")))
            assert "wakeful doctor" in waiting.said("store.start")[0]["text"]
            going.until(lambda: bool(going.said("store.start")))
            assert going.stop() == 0, going.tail()
            assert "ready" not in [event[0] for event in waiting.events]
        waiting.wait_for("ready")
        assert waiting.stop() == 0
    finally:
        await connection.close()
        for member in members:
            member.close()
