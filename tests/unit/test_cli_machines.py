"""`wakeful reset`, and what `wakeful chart` does besides drawing."""

import asyncio

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.cli.app_loader import load
from wakeful.cli.session import actor
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)

PROGRAM = """
from wakeful import App, Machine

app = App()

@app.object
class Lamp(Machine):
    chart = {
        "initial": "on",
        "context": {"$call": "born"},
        "states": {"on": {"on": {"BREAK": "broken"}}, "broken": {"type": "final"}},
    }

    def born(self, context, event):
        return {"with": event["input"]}
"""


@pytest.fixture
def stage(wakeful: Stage) -> Stage:
    (wakeful.path / "app.py").write_text(PROGRAM)

    async def run() -> None:
        app = load(str(wakeful.path / "app.py")).app
        async with app.run(f"sqlite:{wakeful.path}/wakeful.db") as node:
            await node.send(ObjectId("Lamp", "a"), "send", ("BREAK",), {})

    asyncio.run(run())
    return wakeful


def test_a_machine_that_is_over_begins_anew(stage: Stage) -> None:
    done = stage("reset", "Lamp", "a", "--input", '{"n": 1}', "--app", "app.py", "--json").json
    assert done == {"class": "Lamp", "key": "a", "value": "on", "status": "active"}
    assert stage("show", "Lamp", "a", "--json").json["machine"]["context"] == {"with": {"n": 1}}
    refused = stage("reset", "Lamp", "a", "--app", "app.py")
    assert (refused.code, "machine.active" in refused.err) == (1, True)
    assert 'Lamp/a begins anew, in "on"' in stage("reset", "Lamp", "a", "--force", "--app", "app.py").words
    rows = [(row["actor"], row["act"], row["outcome"]) for row in stage("audit", "--json").json["rows"]]
    assert rows == [
        (actor(), "machine.reset", "done"),
        (actor(), "machine.reset", "failed"),
        (actor(), "machine.reset", "done"),
    ]


def test_a_call_of_the_method_is_no_way_round_the_audit(stage: Stage) -> None:
    refused = stage("call", "Lamp", "a", "reset", "--app", "app.py")
    assert (refused.code, "method.operators" in refused.err, "wakeful reset" in refused.err) == (2, True, True)
    assert stage("show", "Lamp", "a", "--json").json["machine"]["status"] == "done"


def test_what_is_no_input_and_no_machine_is_refused(stage: Stage) -> None:
    refused = stage("reset", "Lamp", "a", "--input", "{", "--app", "app.py")
    assert (refused.code, "--input is no JSON" in refused.err) == (2, True)
    assert stage("reset", "Lamp", "none", "--app", "app.py").code == 1


def test_the_exporter_is_printed_or_written(stage: Stage) -> None:
    printed = stage("chart", "--exporter")
    assert "node export.mjs" in printed.out
    stage("chart", "--exporter", "-o", "export.mjs")
    assert (stage.path / "export.mjs").read_text(encoding="utf-8") == printed.out
    refused = stage("chart")
    assert (refused.code, "chart.target" in refused.err) == (2, True)
