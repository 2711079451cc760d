"""`wakeful export` and `import`: one object in a file, with all that it has and owes."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.cli.app_loader import load
from wakeful.importers import archive
from wakeful.store import open_url
from wakeful.values.errors import BadValue
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)
START = "2026-03-27T12:00:00+00:00"
EU = ObjectId("Report", "eu")


async def life(world: Any, call: Any) -> None:
    """Storage, verdicts, a pause, versions, a retry that waits, a parked run, a job, a remembered answer."""
    await call("heal")
    await call("add", "every 2 hours", "tick", "ticking", {"tags": ["office"]})
    await call("again", "ticking", "every 3 hours")
    await call("schedules.pause", "weekly", note="holiday")
    await world.advance(days=2)
    await world.node.send(EU, "cancel", ("nothing",), {}, request_key="once")
    await world.node.send(ObjectId("Report", "us"), "add", ("after 1m", "broken", "breaking"), {})
    await world.advance(minutes=2)


def there(stage: Stage, url: str, *args: str) -> Any:
    return stage(*args, "--store", url, "--json").json


def test_an_object_is_the_same_on_the_other_side_but_for_what_a_store_numbers_itself(wakeful: Stage) -> None:
    wakeful.past(life, start=START)
    said = wakeful("export", "Report", "eu", "-o", "eu.jsonl", "--json").json
    assert (said["schedules"], said["timers"], said["answers"]) == (3, 3, 1)
    assert said["ledger"] > 10
    other = f"sqlite:{wakeful.path}/other.db"
    wakeful("migrate", "--store", other)
    dry = wakeful("import", "eu.jsonl", "--dry-run", "--store", other)
    assert "would import Report/eu" in dry.out
    assert there(wakeful, other, "ls") == []
    done = wakeful("import", "eu.jsonl", "--store", other)
    assert (done.code, done.err) == (0, "")
    assert "don't let the one that it was made from live on" in done.words
    here = f"sqlite:{wakeful.path}/wakeful.db"
    for command in (("show", "Report", "eu"), ("why", "Report", "eu", "ticking"), ("schedules", "Report", "eu")):
        assert _without(there(wakeful, here, *command)) == _without(there(wakeful, other, *command)), command
    assert [row for row in there(wakeful, here, "due") if row["key"] == "eu"] == there(wakeful, other, "due")
    wakeful("export", "Report", "eu", "-o", "again.jsonl", "--store", other)
    assert (wakeful.path / "again.jsonl").read_bytes() == (wakeful.path / "eu.jsonl").read_bytes()


def _without(found: Any) -> Any:
    """Numbers of rows are each store's own."""
    if isinstance(found, list):
        return [_without(one) for one in found]
    if isinstance(found, dict):
        return {name: _without(value) for name, value in found.items() if name != "number"}
    return found


def test_it_lives_on_where_it_was_brought(wakeful: Stage) -> None:
    wakeful.past(life, start=START)
    wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    other = f"sqlite:{wakeful.path}/other.db"
    wakeful("migrate", "--store", other)
    assert wakeful("import", "eu.jsonl", "--store", other).code == 0

    async def on() -> list[str]:
        app = load(str(wakeful.path / "app.py")).app
        async with app.world(start="2026-03-29T12:10:00+00:00", store=other) as world:
            before = len(await world.ledger(app.deployment.registry.by_name("Report").cls, "eu", "ticking"))
            await world.advance(hours=6)
            runs = await world.ledger(app.deployment.registry.by_name("Report").cls, "eu", "ticking")
            assert await world.node.send(EU, "cancel", ("nothing",), {}, request_key="once") is False
            return [run.verdict or "" for run in runs[before:]]

    assert asyncio.run(on()) == ["run", "run"]


def test_a_parked_run_travels_and_can_be_redriven(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "after 1m", "broken", "breaking")
        await world.advance(minutes=2)

    wakeful.past(live, start=START)
    wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    other = f"sqlite:{wakeful.path}/other.db"
    wakeful("migrate", "--store", other)
    wakeful("import", "eu.jsonl", "--store", other)
    [row] = there(wakeful, other, "parked")
    assert (row["schedule"], row["error"]) == ("breaking", "ValueError: it is broken")
    assert there(wakeful, other, "redrive", "--all")[0]["ok"]


def test_numbers_of_timers_never_come_again(wakeful: Stage) -> None:
    """The target's epoch of the shard is raised past the file's, or a later timer could have the number of an old one."""
    for _ in range(3):
        wakeful.past(life, start=START)
    wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    carried = archive.read((wakeful.path / "eu.jsonl").read_bytes(), "eu.jsonl")
    newest = max(archive.seqs(carried)) >> 39
    other = f"sqlite:{wakeful.path}/other.db"
    wakeful("migrate", "--store", other)
    wakeful("import", "eu.jsonl", "--store", other)

    async def epochs() -> int:
        store = open_url(other)
        await store.open(now=0, readonly=True)
        found = max(row.epoch for row in await store.owners())
        assert not [row for row in await store.owners() if row.owner is not None]
        await store.close()
        return found

    assert newest >= 2
    assert asyncio.run(epochs()) > newest


def test_only_an_object_that_is_not_there_is_imported_and_all_or_nothing(wakeful: Stage) -> None:
    wakeful.past(life, start=START)
    wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    before = wakeful("show", "Report", "eu", "--json").json
    refused = wakeful("import", "eu.jsonl")
    assert (refused.code, "[import.exists]" in refused.err) == (1, True)
    assert wakeful("show", "Report", "eu", "--json").json == before


def test_a_process_that_runs_the_store_is_refused(wakeful: Stage) -> None:
    wakeful.past(life, start=START)
    wakeful("export", "Report", "us", "-o", "us.jsonl")
    lines = (wakeful.path / "us.jsonl").read_text().replace('"key":"us"', '"key":"new"').splitlines(keepends=True)[:-1]
    data = [line.encode() for line in lines]
    (wakeful.path / "new.jsonl").write_bytes(b"".join([*data, archive._encode(archive._end(data))]))
    with wakeful.running():
        refused = wakeful("import", "new.jsonl")
        assert (refused.code, refused.err.count("\n")) == (3, 1)
        assert "[store.owned]" in refused.err


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda lines: lines[:-1], "not whole"),
        (lambda lines: lines[:-2] + lines[-1:], "not whole"),
        (lambda lines: [lines[0], lines[1].replace('"row"', '"rov"'), *lines[2:]], "not whole"),
        (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "this Wakeful reads version 1"),
        (lambda lines: [*lines[:3], "{broken", *lines[3:]], "not whole"),
        (lambda lines: [lines[0]], "not whole"),
    ],
)
def test_a_file_that_is_not_whole_is_known_for_it(wakeful: Stage, spoil: Any, word: str) -> None:
    wakeful.past(life, start=START)
    wakeful("export", "Report", "us", "-o", "us.jsonl")
    lines = (wakeful.path / "us.jsonl").read_text().splitlines(keepends=True)
    (wakeful.path / "bad.jsonl").write_text("".join(spoil(lines)))
    answer = wakeful("import", "bad.jsonl", "--dry-run")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert word in answer.err


@pytest.mark.parametrize(
    "line",
    [
        {"timer": {"name": "alarm"}},
        {"timer": {"name": 5, "due_at": 1, "nominal_at": 1, "seq": 1}},
        {"row": [0, "x", "%%%"]},
        {"row": [0, "x"]},
        {"ledger": {"verdict": "perhaps"}},
        {"surprise": 1},
        {"a": 1, "b": 2},
        {},
    ],
)
def test_what_a_file_says_is_checked_line_by_line(line: dict[str, Any]) -> None:
    head = {"wakeful": "object", "version": 1, "class": "C", "key": "k", "created_at": 1, "active_at": 1}
    data = [archive._encode(head), archive._encode(line)]
    with pytest.raises(BadValue, match="line 2: it says what can't be"):
        archive.read(b"".join([*data, archive._encode(archive._end(data))]), "f")


def test_what_names_other_objects_is_refused(wakeful: Stage) -> None:
    (wakeful.path / "app.py").write_text(
        (wakeful.path / "app.py").read_text()
        + """
@app.object
class Chain(DurableObject):
    async def go(self):
        first = await self.jobs.schedule(self.step, after="1h")
        await self.jobs.schedule(self.step, after="2h", depends_on=[first.id])

    async def step(self):
        pass
"""
    )

    async def live(world: Any, call: Any) -> None:
        await world.node.send(ObjectId("Chain", "c"), "go", (), {})
        await world.advance(minutes=1)

    wakeful.past(live, start=START)
    answer = wakeful("export", "Chain", "c", "-o", "c.jsonl")
    assert (answer.code, answer.err.rstrip()[-13:]) == (1, "[export.jobs]")
    assert not (wakeful.path / "c.jsonl").exists()


def test_an_object_that_is_not_there_and_options_that_don_t_fit(wakeful: Stage) -> None:
    wakeful.past(life, start=START)
    assert "did you mean 'eu'?" in wakeful("export", "Report", "eus", "-o", "x").err
    wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    for option in (("--class", "X"), ("--key", "k"), ("--replace",), ("--app", "app.py"), ("--from-version", "1")):
        answer = wakeful("import", "eu.jsonl", *option)
        assert (answer.code, "is for machines" in answer.err) == (2, True), option
    (wakeful.path / "other.json").write_text("{}")
    assert "[import.form]" in wakeful("import", "other.json").err
    assert "[import.file]" in wakeful("import", "missing.json").err
    assert "[export.file]" in wakeful("export", "Report", "eu", "-o", "no/such/folder").err
    assert "say where to" in wakeful("export", "Report", "eu", "--json").err


def test_export_writes_to_a_pipe(wakeful: Stage) -> None:
    """Each line is JSON by itself; the head says what it is."""
    wakeful.past(life, start=START)
    command = [sys.executable, "-m", "wakeful.cli", "export", "Report", "eu"]
    done = subprocess.run(command, cwd=wakeful.path, capture_output=True, timeout=60, check=True)
    head, *_, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert (head["class"], head["key"], head["version"]) == ("Report", "eu", 1)
    assert end["end"] == len(done.stdout.splitlines()) - 1
