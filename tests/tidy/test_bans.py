"""Ambient time, randomness and sleeping are banned below the edges: a test must be able to hold them."""

import ast
import re

import pytest

from tests.tidy import tidy_source as source

CLOCK = "clock.now() of the Clock that is passed in"
DICE = "the Dice that is passed in"
SLEEP = "clock.sleep(…) or clock.call_at(…) of the Clock that is passed in"
BANS = {
    "time.time": CLOCK,
    "time.time_ns": CLOCK,
    "time.monotonic": CLOCK,
    "time.monotonic_ns": CLOCK,
    "time.localtime": CLOCK,
    "time.gmtime": CLOCK,
    "time.sleep": SLEEP,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "asyncio.sleep": SLEEP,
    "random": DICE,
    "secrets": DICE,
    "os.urandom": DICE,
    "uuid.uuid1": "an id that is passed in",
    "uuid.uuid4": "an id that is passed in",
}
# Only the edges may: they are where the real world comes in.
EDGES = (
    "wakeful.app",
    "wakeful.lifecycle",
    "wakeful.objects",
    "wakeful.system",
    "wakeful.cli",
    "wakeful.testing",
    "wakeful.http",
)
EDGES += ("wakeful.client", "wakeful.dashboard", "wakeful.telemetry", "wakeful.compat", "wakeful.webhooks")


def banned(text: str) -> list[tuple[int, str, str]]:
    """Each banned use: line, what, instead of it."""
    tree = source.parsed(text)
    names: dict[str, str] = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                found += _hit(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += _hit(node.lineno, node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found += _hit(node.lineno, f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (path := _path(node, names)):
            found += _hit(node.lineno, path)
    return found


def _hit(line: int, path: str) -> list[tuple[int, str, str]]:
    return [(line, path, BANS[path])] if path in BANS else []


def _path(node: ast.expr, names: dict[str, str]) -> str | None:
    """`dt.now` as `datetime.datetime.now`, when `dt` was imported as that."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (inner := _path(node.value, names)):
        return f"{inner}.{node.attr}"
    return None


def test_nothing_ambient_below_the_edges() -> None:
    found = [
        f"src/{name.replace('.', '/')}:{line} uses {what}; use {instead}"
        for name, text in source.modules()
        if name != "wakeful" and not name.startswith(EDGES)
        for line, what, instead in banned(text)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import time_ns",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.utcnow()",
        "from datetime import date as d\nd.today()",
        "import asyncio\n\nasync def f():\n    await asyncio.sleep(1)",
        "import random",
        "from random import random",
        "from uuid import uuid4 as make",
        "import os\nos.urandom(8)",
        "later = __import__\nimport secrets",
    ],
)
def test_the_check_can_fail(text: str) -> None:
    assert banned(text)


def test_what_is_allowed_passes() -> None:
    assert not banned(
        "from datetime import datetime\nimport asyncio, uuid, os\ndatetime.fromisoformat('')\nuuid.UUID(int=1)\nos.getpid()"
    )


def test_no_statement_asks_the_database_for_the_time() -> None:
    """Each is given `now`, so that time in tests is theirs. Only the question what time it is asks."""
    files = [path for path in (source.PACKAGE / "store").rglob("*.sql") if path.name != "time.sql"]
    asks = re.compile(
        r"\bnow\(|current_(time|date)|clock_timestamp|localtime|statement_timestamp|strftime|unixepoch", re.I
    )
    assert len(files) > 20
    assert not [path.name for path in files if asks.search(path.read_text())]


def test_sqlite_is_asked_with_plain_marks() -> None:
    """Python 3.12 warns of `?1` with a sequence of values, and 3.14 refuses it: that store would not open there."""
    files = [path for path in (source.PACKAGE / "store" / "sqlite").iterdir() if path.suffix in (".py", ".sql")]
    found = [path.name for path in files if re.search(r"\?\d", path.read_text())]
    assert files
    assert not found
