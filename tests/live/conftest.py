"""The live tests share a harness and their children's programs, which are imported by name."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "programs")]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind that survives a process."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/live.db"
    found: str = request.getfixturevalue("postgres_schema_url")
    return found
