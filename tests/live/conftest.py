"""The live tests run on every kind of store that survives a process."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind that survives a process."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/live.db"
    found: str = request.getfixturevalue("postgres_schema_url")
    return found
