"""The file that `wakeful export` writes: whole, on disk before it has its name, or not there."""

import os
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli.exit_codes import CommandError
from wakeful.cli.export import _write


def test_it_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(fd: int) -> None:
        steps.append("sync folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "sync file")
        sync(fd)

    def replaced(self: Path, target: Path) -> Any:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    _write(tmp_path / "a", [b"1\n", b"2\n"])
    assert steps == ["sync file", "name", "sync folder"]
    assert (tmp_path / "a").read_bytes() == b"1\n2\n"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_one_and_no_draft(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fails(fd: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(CommandError if isinstance(error, OSError) else KeyboardInterrupt):
        _write(tmp_path / "a", [b"new"])
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]
