"""The plain core is light: what an import pulls in, and what a wheel is made of."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy import tidy_source as source

# Of the extras: servers, drivers, telemetry, and what only the command line shows.
HEAVY = (
    "aiohttp",
    "asyncpg",
    "click",
    "cryptography",
    "jinja2",
    "multipart",
    "opentelemetry",
    "psycopg",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
    "uvloop",
    "yaml",
)
MODULES = 231
IMPORT_MS_MAX = 150  # of processor time: how busy the machine is meanwhile is not the import's doing
# A machine that is slower than ours is allowed what it needs for the standard library in proportion.
ASYNCIO_TIMES_MAX = 4
PROGRAM = """
import json, sys, time
begun = time.process_time()
import asyncio, datetime, typing
base = time.process_time()
{code}
done = time.process_time()
print(json.dumps([(base - begun) * 1000, (done - base) * 1000, sorted(sys.modules)]))
"""


def loaded(code: str, compiled: Path | None = None) -> tuple[float, float, set[str]]:
    """How long asyncio took to import, then how long the code did, in a new process; and what is loaded after it."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled)} if compiled else {**os.environ}
    env.pop("PYTHONDONTWRITEBYTECODE" if compiled else "", None)
    program = [sys.executable, "-c", PROGRAM.format(code=code)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60, env=env)
    base, took, names = json.loads(done.stdout)
    return base, took, {name.split(".")[0] for name in names} | {name for name in names if name.startswith("wakeful.")}


@pytest.mark.parametrize("code", ["import wakeful", "from wakeful import App, DurableObject, every; App()"])
def test_the_core_pulls_in_nothing_heavy(code: str) -> None:
    _, _, names = loaded(code)
    assert sorted(names & set(HEAVY)) == []


def test_an_app_loads_no_more_modules_of_ours_than_it_needs() -> None:
    _, _, names = loaded("import wakeful.app")
    ours = [name for name in names if name.startswith("wakeful.")]
    assert len(ours) < MODULES, "each is a file to find and read; what one neighbour alone needs goes into it"


@pytest.mark.parametrize("code", ["import wakeful", "from wakeful import App"])
def test_the_core_is_imported_in_a_moment(code: str, tmp_path: Path) -> None:
    """The best of some, once compiled: what is slow for other reasons is slow by chance."""
    loaded(code, tmp_path)
    tries = []
    for _ in range(8):
        base, took, _names = loaded(code, tmp_path)
        tries.append((base, took))
        if took < max(IMPORT_MS_MAX, base * ASYNCIO_TIMES_MAX):
            return
    pytest.fail(f"asyncio and then {code!r} took, in milliseconds: {tries}")


def test_what_is_heavy_is_found() -> None:
    _, _, names = loaded("import wakeful.server")
    assert {"starlette", "uvicorn"} <= names


def test_the_metadata_says_what_tools_ask_for() -> None:
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"  # an SPDX expression, which makers of SBOMs read
    assert {"Homepage", "Documentation", "Repository", "Changelog", "Issues"} <= set(project["urls"])
    assert "Typing :: Typed" in project["classifiers"]
    assert (source.PACKAGE / "py.typed").is_file()
    assert project["scripts"] == {"wakeful": "wakeful.cli:main"}
    core = {text.split(">")[0] for text in project["dependencies"]}
    assert core == {"click", "msgspec", "rich", "tzdata"}
    import wakeful

    assert project["version"] == wakeful.__version__
    for extra in ("postgres", "server", "client", "telemetry", "encryption", "all", "docs"):
        assert project["optional-dependencies"][extra]
