"""The lock of a database file's owner, when somebody has removed it."""

from pathlib import Path

import pytest

from wakeful.store import NodeRow
from wakeful.store.sqlite import SqliteStore
from wakeful.values.errors import StoreDown


async def test_a_new_connection_does_not_take_another_owners_lock_for_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first, second = SqliteStore(str(path)), SqliteStore(str(path))
    await first.open(now=1)
    await first.join(NodeRow("a", "", 1, 2, ""))
    assert first._open_writer is not None
    assert first._open_writer.db is not None
    first._open_writer.db.close()
    first._open_writer.db = None  # as after a rollback that failed: it connects again with the next write
    (tmp_path / "a.db-owner").unlink()
    await second.open(now=1)
    with pytest.raises(StoreDown, match="owner was removed"):
        await first.join(NodeRow("a2", "", 1, 2, ""))
    assert [row.node for row in await second.nodes()] == ["a"]
    await second.close()
    await first.close()
