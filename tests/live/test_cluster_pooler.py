"""Nodes and programs behind a real PgBouncer that shares its connections by transaction: jobs run, and nothing leaks to others."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwall
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.live.cluster import balanced, fetch, fleet, percentile
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.live.test_cluster_latency import latencies
from tests.yardstick import PATIENCE_S, Yardstick

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# It refuses to run as root; the server's own user may go through the folder of its socket.
USER = ("pgserver" if "pgserver" in {one.pw_name for one in getpwall()} else "nobody") if os.geteuid() == 0 else None

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="no PgBouncer here: apt install pgbouncer")


@contextmanager
def pooler(url: str, folder: Path) -> Iterator[str]:
    """The same store by way of a pooler."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    database = parts.path.strip("/")
    host = options.get("host", [parts.hostname or "127.0.0.1"])[0]
    port = options.get("port", [str(parts.port or 5432)])[0]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        own = probe.getsockname()[1]
    folder.mkdir()
    user, password = parts.username or "postgres", parts.password or ""
    login = f"{user} password={password}" if password else user
    (folder / "users").write_text(f'"{user}" "{password}"\n')
    (folder / "ini").write_text(
        f"[databases]\n{database} = host={host} port={port} dbname={database} user={login}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = 4\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    folder.chmod(0o755)
    for parent in folder.parents[:4]:  # its user may go through pytest's folders
        if parent.stat().st_uid == os.geteuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    assert PGBOUNCER is not None
    process = subprocess.Popen(
        [PGBOUNCER, "-q", str(folder / "ini")], user=USER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"postgresql://{user}@127.0.0.1:{own}/{database}?schema={options['schema'][0]}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


async def until_there(url: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            await fetch(url, "SELECT 1")
            return
        except (OSError, asyncpg.PostgresError):
            assert time.monotonic() < end, "the pooler does not answer"
            await asyncio.sleep(0.05)


async def test_behind_a_pooler_jobs_run_within_a_second_and_others_find_their_connections_as_they_were(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    with pooler(postgres_schema_url, tmp_path / "pooler") as url:
        await until_there(url)
        with fleet(url, 2, env={"WAKEFUL_DIARY": str(diary)}) as members, Yardstick() as machine:
            async with app.connect(url) as node:
                await balanced(node, members)
                assert not node.store.listens
                took = await latencies(diary, "pooled", 30 if IS_LONG else 8, 0.13)
                # Many at once, so that statements of several connections of ours meet on one of the pooler's.
                calls = [app.get(Cell, f"c{n % 20}").add(f"a{n}") for n in range(200)]
                assert len(await asyncio.gather(*calls)) == 200
            looked = [sys.executable, "-m", "wakeful.cli", "nodes", "--store", url]
            for _ in range(2):
                await asyncio.to_thread(
                    subprocess.run, looked, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S
                )
            mine = "SELECT current_setting($1), pg_sleep(0.05)"
            for name, value in (
                ("default_transaction_read_only", "off"),
                ("synchronous_commit", "on"),
                ("enable_seqscan", "on"),
            ):
                found = await asyncio.gather(*(fetch(url, mine, name) for _ in range(4)))
                assert {rows[0][0] for rows in found} == {value}, name
    print(f"behind a pooler: p50 {percentile(took, 0.5):.0f} ms, max {max(took):.0f} ms")
    assert max(took) < machine.allows(1.5) * 1000, machine


async def test_what_a_program_behind_a_pooler_schedules_reaches_nodes_that_are_not_at_once(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    with (
        pooler(postgres_schema_url, tmp_path / "pooler") as url,
        fleet(postgres_schema_url, 1, env={"WAKEFUL_DIARY": str(diary), "WAKEFUL_NO_SCANS": "1"}),
        Yardstick() as machine,
    ):
        await until_there(url)
        async with app.connect(url) as node:
            assert (node.store.listens, node.store.tells) == (False, True)
            took = await latencies(diary, "told", 20, 0.02)
    print(f"from behind a pooler: p50 {percentile(took, 0.5):.0f} ms, max {max(took):.0f} ms")
    assert percentile(took, 0.5) < machine.allows(0.1) * 1000, machine
