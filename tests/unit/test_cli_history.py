"""`wakeful history` and `wakeful restore`: the points of an object that sleeps, and having its owner bring one back."""

import asyncio
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.cli.app_loader import load
from wakeful.cli.session import actor
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)

PROGRAM = """
from dataclasses import dataclass
from wakeful import App, DurableObject

app = App()

@dataclass
class Sum:
    cents: int = 0

@app.object
class Shelf(DurableObject):
    history = "30d"
    state: Sum

    async def on_wake(self):
        if await self.storage.get("broken"):
            raise RuntimeError("it can't wake any more")

    async def put(self, key):
        await self.storage.put(key, 1)
        self.state.cents += 1

    async def stock(self, name):
        self.sql("CREATE TABLE IF NOT EXISTS books (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        self.sql("INSERT INTO books (name) VALUES (?)", name)

    async def alarm(self): ...

    async def ring(self):
        await self.storage.set_alarm(4_000_000_000_000)

@app.object
class Box(DurableObject):
    async def put(self, key):
        await self.storage.put(key, 1)
"""
OAK = ObjectId("Shelf", "oak")


@pytest.fixture
def stage(wakeful: Stage) -> Stage:
    (wakeful.path / "app.py").write_text(PROGRAM)
    do(wakeful, ("put", "a"), ("stock", "tea"), ("ring",), ("put", "broken"))
    return wakeful


def do(stage: Stage, *calls: Any, id: ObjectId = OAK) -> None:
    async def run() -> None:
        app = load(str(stage.path / "app.py")).app
        async with app.run(f"sqlite:{stage.path}/wakeful.db") as node:
            for method, *args in calls:
                await node.send(id, method, tuple(args), {})

    asyncio.run(run())


def points(stage: Stage) -> Any:
    return stage("history", "Shelf", "oak", "--json").json["rows"]


def test_points_are_listed_with_what_changed(stage: Stage) -> None:
    rows = points(stage)
    assert [row["by"] for row in rows] == ["put", "ring", "stock", "put"]
    broken, ring, stock, first = [row["changed"] for row in rows]
    assert (broken["keys"], broken["beside"], broken["timers"]) == (["broken"], ["state"], [])
    assert ring["timers"] == ["alarm"]
    assert (stock["tables"], stock["pages"]) == (["books"], 3)
    assert (first["keys"], first["rows"]) == (["a"], 1)
    assert [row["bookmark"] for row in rows] == sorted((row["bookmark"] for row in rows), reverse=True)
    shown = stage("history", "Shelf", "oak", "-n", "2").words
    assert "broken, state" in shown
    assert "there are more; -n shows them" in shown


def test_an_object_without_history_says_so(stage: Stage) -> None:
    do(stage, ("put", "a"), id=ObjectId("Box", "1"))
    assert "Box/1 has no history" in stage("history", "Box", "1").words
    refused = stage("restore", "Box", "1", "--to", "2026-01-01T00:00Z", "--app", "app.py")
    assert (refused.code, "it has no history" in refused.err) == (1, True)
    assert stage("history", "Shelf", "oka").code == 1


def test_a_dry_run_changes_nothing_and_a_restore_brings_back_what_can_not_wake(stage: Stage) -> None:
    first = points(stage)[-1]["bookmark"]
    seen = stage("restore", "Shelf", "oak", "--to", first, "--dry-run", "--json").json
    assert (seen["dry_run"], seen["before"], seen["points"]) == (True, None, 3)
    assert (seen["changed"]["keys"], seen["changed"]["timers"]) == (["broken"], ["alarm"])
    assert "3 commits would be undone: broken" in stage("restore", "Shelf", "oak", "--to", first, "--dry-run").words
    assert len(points(stage)) == 4
    with stage.running():
        done = stage("restore", "Shelf", "oak", "--to", first, "--no-timers", "--json").json
        assert done["changed"]["timers"] == []
        shown = stage("show", "Shelf", "oak", "--json").json
        assert (shown["storage"], shown["state"], len(shown["timers"])) == ({"a": 1}, {"cents": 1}, 1)
        assert stage("sql", "Shelf", "oak").code == 1  # there is no database any more
        assert points(stage)[0]["restored_to"] == first
        undone = stage("restore", "Shelf", "oak", "--to", done["before"])
        assert "to undo this: --to" in undone.words
    assert stage("show", "Shelf", "oak", "--json").json["storage"] == {"a": 1, "broken": 1}
    rows = [(row["actor"], row["act"], row["outcome"]) for row in stage("audit", "--json").json["rows"]]
    assert rows == [(actor(), "history.restore", "done")] * 2


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("2999-01-01T00:00Z", "history.unknown"),
        ("2026-01-01", "time.naive"),
        ("soon", "time.text"),
    ],
)
def test_points_that_are_none_are_refused(stage: Stage, to: str, code: str) -> None:
    refused = stage("restore", "Shelf", "oak", "--to", to, "--app", "app.py")
    assert (refused.code, code in refused.err) == (1 if code == "history.unknown" else 2, True), refused.err
