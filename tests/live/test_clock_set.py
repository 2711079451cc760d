"""Real processes whose wall clock is set under them, by hours: nothing early, nothing twice, nothing lost."""

import asyncio
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import Member
from tests.live.harness import IS_LONG, PROGRAMS, looking
from tests.live.postgres import server
from tests.yardstick import PATIENCE_S
from wakeful.store.protocol import Query
from wakeful.values.timers import Entry

HOUR = 3_600_000
OBJECTS = 3


class Wrong:
    """A clock that is wrong by as much as it is told, for processes with `env`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or not sys.platform.startswith("linux"):
            pytest.skip("needs a C compiler and LD_PRELOAD")
        shim, self._file = folder / "clock.so", folder / "off"
        built = subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", shim, PROGRAMS / "clock.c", "-ldl"],
            capture_output=True,
            timeout=PATIENCE_S,
        )
        if built.returncode != 0:
            pytest.skip(f"the compiler does not work here: {built.stderr.decode()[-300:]}")
        self._file.write_bytes(struct.pack("q", 0))
        self.env = {"LD_PRELOAD": str(shim), "WAKEFUL_CLOCK": str(self._file)}

    def set(self, off_ms: int) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", off_ms))

    def wakeful(self, *args: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "wakeful.cli", *args]
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def wrong() -> Iterator[Wrong]:
    with tempfile.TemporaryDirectory(prefix="wakeful-clock-") as folder:
        os.chmod(folder, 0o755)  # the database's user has to read it as well
        yield Wrong(Path(folder))


def ledger(url: str) -> list[Entry]:
    """All verdicts, the oldest first."""

    async def read() -> list[Entry]:
        async with looking(url) as store:
            found: list[Any] = []
            while page := await store.find_entries(Query(limit=2_000, after=(found[-1][0],) if found else None)):
                found += page
            return [entry for _, entry in reversed(found)]

    return asyncio.run(read())


def counted(url: str) -> int:
    """How many verdicts there are."""

    async def count() -> int:
        async with looking(url) as store:
            return await store.count("entries")

    return asyncio.run(count())


def check(entries: list[Entry]) -> None:
    """Each occurrence has one verdict, no run began before its time, and none is between two of them."""
    by_object: dict[str, list[Entry]] = {}
    for entry in entries:
        by_object.setdefault(entry.id.key, []).append(entry)
    assert len(by_object) == OBJECTS
    for rows in by_object.values():
        counts = Counter(row.nominal_at for row in rows)
        assert max(counts.values()) == 1, counts.most_common(3)
        assert all(row.fired_at >= row.nominal_at for row in rows)
        # What the clock jumped over is answered for by the next run, or fell into the one that was on its way.
        assert {row.verdict for row in rows} <= {"run", "coalesced", "overlap"}
        rows.sort(key=lambda row: row.nominal_at)
        # A row that stands for several says which was the first of them.
        for before, row in pairwise(rows):
            first_at = row.first_at if row.covers > 1 else row.nominal_at
            assert first_at - before.nominal_at == 1_000, (before, row)


def runs_after(url: str, count: int, timeout_s: float = PATIENCE_S) -> list[Entry]:
    """The ledger, once it has so many more runs than that."""
    until = time.monotonic() + timeout_s
    while (found := counted(url)) <= count:
        assert time.monotonic() < until, f"only {found}"
        time.sleep(0.05)
    return ledger(url)


def test_one_process_whose_clock_is_set_ahead_and_back(wrong: Wrong, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/clock.db"
    member = Member(url, program="clocked.py", env=wrong.env)
    try:
        member.wait_for("ready")
        runs_after(url, OBJECTS)
        wrong.set(HOUR)
        count = counted(url)
        ahead = runs_after(url, count + 2 * OBJECTS)
        check(ahead)
        assert sum(entry.covers for entry in ahead if entry.verdict != "run") > OBJECTS * 3_500
        assert "set back" not in wrong.wakeful("doctor", "--store", url)[1]
        wrong.set(0)
        member.until(lambda: [one for one in member.said("clock.step") if "set back" in one["text"]] != [])
        count = counted(url)
        time.sleep(1.2)
        assert counted(url) == count, "what ran an hour ahead is not due for an hour"
        code, said = wrong.wakeful("doctor", "--store", url)
        assert code == 0, said
        assert "in 60 min: the clock was set back since" in said
        wrong.set(HOUR)
        check(runs_after(url, count + OBJECTS))
        assert member.stop() == 0, member.tail()
    finally:
        member.close()


@pytest.mark.skipif(not IS_LONG, reason="takes half a minute; make live runs it")
def test_a_node_of_a_cluster_whose_clock_is_set(wrong: Wrong, postgres_schema_url: str) -> None:
    url = postgres_schema_url
    wrong.set(HOUR)
    members = [Member(url, program="clocked.py", env=env) for env in ({}, wrong.env)]
    try:
        for member in members:
            member.wait_for("ready")
        runs_after(url, OBJECTS)
        for off_ms in (-HOUR, HOUR, 0):
            wrong.set(off_ms)
            time.sleep(6)
            code, said = wrong.wakeful("due", "--store", url)
            assert code == 0, said
            assert "in 60 min" not in said  # by the deployment's clock, whatever this machine's says
        found = ledger(url)
        check(found)
        assert {entry.verdict for entry in found} == {"run"}
        assert max(entry.fired_at - entry.nominal_at for entry in found) < 1_000
        assert [member.stop() for member in members] == [0, 0]
    finally:
        for member in members:
            member.close()


@pytest.mark.skipif(not IS_LONG, reason="takes half a minute; make live runs it")
def test_a_cluster_whose_database_s_clock_is_set(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name, value in wrong.env.items():
            patch.setenv(name, value)
        made = server()
        database = made.__enter__()
    members: list[Member] = []
    try:
        members = [Member(database.url, program="clocked.py") for _ in range(2)]
        for member in members:
            member.wait_for("ready")
        count = len(runs_after(database.url, OBJECTS))
        for off_ms, is_late in ((HOUR, False), (0, True), (HOUR, False)):
            wrong.set(off_ms)
            for member in members:
                way = "back" if is_late else "ahead"
                member.until(lambda m=member, w=way: any(w in one["text"] for one in m.said("clock.step")))  # type: ignore[misc]
            count = counted(database.url)
            if is_late:
                time.sleep(3)
                assert counted(database.url) <= count + OBJECTS
            else:
                runs_after(database.url, count + 2 * OBJECTS)
            check(ledger(database.url))
        assert [member.stop() for member in members] == [0, 0]
    finally:
        for member in members:
            member.close()
        made.__exit__(None, None, None)
