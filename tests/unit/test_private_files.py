"""Files that hold values are for their user alone: the database, its log and index, the owner's note, exports."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.cli.export import _write
from wakeful.store import open_url


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_mask() -> object:
    """Whatever the shell's mask lets."""
    before = os.umask(0)
    yield
    os.umask(before)


async def made(path: Path) -> dict[str, int]:
    store = open_url(f"sqlite:{path}")
    await store.open(now=1)
    try:
        await store.claim("n", [0], now=1)
        return {one.name: mode(one) for one in path.parent.iterdir() if one.name.startswith(path.name)}
    finally:
        await store.close()


def test_a_new_database_is_its_user_s_alone(tmp_path: Path) -> None:
    import asyncio

    found = asyncio.run(made(tmp_path / "s.db"))
    assert found == dict.fromkeys(("s.db", "s.db-wal", "s.db-shm", "s.db-owner", "s.db-begun"), 0o600)


def test_a_mode_that_somebody_gave_stays(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(made(tmp_path / "s.db"))
    (tmp_path / "s.db").chmod(0o640)
    found = asyncio.run(made(tmp_path / "s.db"))
    assert (found["s.db"], found["s.db-wal"], found["s.db-shm"]) == (0o640, 0o640, 0o640)


def test_migrate_makes_it_so_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wakeful.cli", "migrate", "--store", f"sqlite:{tmp_path}/m.db"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert {one.name: mode(one) for one in tmp_path.iterdir() if one.name.startswith("m.db")} == dict.fromkeys(
        [one.name for one in tmp_path.iterdir() if one.name.startswith("m.db")], 0o600
    )


def test_an_export_is_its_user_s_alone_also_in_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o644)
    _write(tmp_path / "a", [b"new"])
    assert (mode(tmp_path / "a"), (tmp_path / "a").read_bytes()) == (0o600, b"new")
