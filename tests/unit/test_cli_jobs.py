"""`wakeful jobs`, in this process: listed, shown and cancelled, whoever has the program's types."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import run
from wakeful.cli.app_loader import load

PROGRAM = """
from dataclasses import dataclass
from wakeful import App, DurableObject, RetryPolicy, fixed

app = App()

@dataclass
class Parcel:
    weight: int

@app.object
class Cart(DurableObject):
    async def ship(self, weight):
        return Parcel(weight)

    async def lose(self):
        raise ValueError("lost\\nit")

    async def plan(self):
        once = RetryPolicy(max_attempts=1, backoff=fixed("1s"))
        later = await self.jobs.schedule(self.ship, 2, after="2h", key="two hours", priority=3, tags=["slow"])
        return [
            (await self.jobs.schedule(self.ship, 1)).id,
            later.id,
            (await self.jobs.schedule(self.lose, retry=once, metadata={"why": "ünicode"})).id,
            (await self.jobs.schedule(self.ship, 3, after="1h", depends_on=[later])).id,
        ]
"""


class Jobs:
    """A store in which a program has lived for a minute, and commands on it at the time when that ended."""

    def __init__(self, folder: Path, command: Callable[..., Any]) -> None:
        self.folder = folder
        self.command = command
        self.ids: list[str] = []

    def __call__(self, *args: str, code: int = 0, as_json: bool = True) -> Any:
        return self.command("jobs", *args, code=code, as_json=as_json)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Jobs:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAKEFUL_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "app.py").write_text(PROGRAM)
    before = set(sys.modules), list(sys.path)

    def tidy() -> None:
        sys.path[:] = before[1]
        for name in set(sys.modules) - before[0]:
            if not name.startswith(("wakeful", "rich", "asyncio")):
                del sys.modules[name]

    def command(*args: str, code: int = 0, as_json: bool = True) -> Any:
        capsys.readouterr()
        ended = run([*args, *["--json"] * as_json])
        tidy()
        out, err = capsys.readouterr()
        assert ended == code, (out, err)
        return json.loads(out.splitlines()[0]) if as_json else out + err

    async def live() -> tuple[datetime, list[str]]:
        loaded = load(str(tmp_path / "app.py"))
        app: Any = loaded.app
        async with app.world(start="2126-03-02T08:00Z", store=f"sqlite:{tmp_path}/wakeful.db") as world:
            ids = await world.get(loaded.module.Cart, "ä/1").plan()
            await world.advance(minutes=1)
            return world.now(), ids

    found = Jobs(tmp_path, command)
    now, found.ids = asyncio.run(live())
    tidy()
    ms = int(now.timestamp() * 1000)
    monkeypatch.setattr("wakeful.cli.output.now_ms", lambda: ms)
    return found


def test_all_of_them_are_listed_with_their_states(jobs: Jobs) -> None:
    found = {row["id"]: row for row in jobs()["jobs"]}
    assert {id: row["state"] for id, row in found.items()} == dict(
        zip(jobs.ids, ["done", "scheduled", "failed", "waiting"], strict=True)
    )
    done, later, failed, waiting = (found[id] for id in jobs.ids)
    assert done["result"] == {"$type": "Parcel", "weight": 1}  # without the program's types
    assert (later["job_key"], later["priority"], later["tags"]) == ("two hours", 3, ["slow"])
    assert later["due_at"] == "2126-03-02T10:00:00.000Z"
    assert failed["metadata"] == {"why": "ünicode"}
    assert "lost" in failed["error"]
    assert waiting["depends_on"] == [later["id"]]
    assert {row["key"] for row in found.values()} == {"ä/1"}


def test_they_are_found_by_what_they_are(jobs: Jobs) -> None:
    def ids(*args: str) -> list[str]:
        return [row["id"] for row in jobs(*args)["jobs"]]

    assert ids("--state", "failed") == [jobs.ids[2]]
    assert ids("Cart", "ä/1", "--method", "lose") == [jobs.ids[2]]
    assert ids("--tag", "slow") == ids("list", "--key-prefix", "two") == [jobs.ids[1]]
    assert ids("Other") == []
    page = jobs("-n", "3")
    assert len(page["jobs"]) == 3
    assert len(jobs("--after", page["next"])["jobs"]) == 1
    assert jobs("--state", "lazy", code=2)["error"]["code"] == "job.state"


def test_one_is_shown_for_people_and_for_programs(jobs: Jobs) -> None:
    assert jobs("get", jobs.ids[2])["state"] == "failed"
    said = jobs("get", jobs.ids[2], as_json=False)
    assert 'metadata    {"why": "ünicode"}' in said
    assert "arguments   none" in said
    assert [one["verdict"] for one in jobs("get", jobs.ids[2])["attempts"]] == ["failed"]
    assert "attempt   ended" in said
    assert jobs("get", "Cart/x/none%3A1", code=2)["error"]["code"] == "job.unknown"
    table = jobs(as_json=False)
    assert "scheduled" in table
    assert "priority 3" in table
    assert "waits for 1" in table
    assert "job 'two hours'" in jobs.command("due", as_json=False)
    assert [row["job"] for row in jobs.command("due")] == [jobs.ids[1], jobs.ids[3]]


def test_cancelling_says_whether_it_was_in_time(jobs: Jobs) -> None:
    assert jobs("cancel", jobs.ids[1], code=3)["error"]["code"] == "owner.none"
    done = jobs("cancel", jobs.ids[1], jobs.ids[0], "--app", "app.py", code=1)
    assert done == [{"id": jobs.ids[1], "cancelled": True}, {"id": jobs.ids[0], "cancelled": False}]
    assert jobs("get", jobs.ids[1])["state"] == "cancelled"
    assert jobs("cancel", "nonsense", "--app", "app.py", code=2)["error"]["code"] == "job.unknown"
