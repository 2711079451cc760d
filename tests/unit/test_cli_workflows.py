"""`wakeful workflow`: shown without being woken, started, sent events and operated from a shell."""

import pytest

from tests.unit.cli_stage import Stage, make_stage

wakeful = pytest.fixture(make_stage)

PROGRAM = """
from wakeful import App, RetryPolicy, Workflow

app = App()

async def work(name):
    if name == "bad" or not isinstance(name, str):
        raise OSError("down")
    return name

@app.object
class Flow(Workflow):
    async def run(self, step, name: str):
        await step("work", work, name, retry=RetryPolicy(1))
        return await step.wait_for("go")
"""


@pytest.fixture
def stage(wakeful: Stage) -> Stage:
    (wakeful.path / "app.py").write_text(PROGRAM)
    return wakeful


def test_a_workflow_from_a_shell(stage: Stage) -> None:
    app = ("--app", "app.py")
    assert stage("workflow", "start", "Flow", "a", "good", *app, "--json").json["state"] in ("running", "waiting")
    assert stage("workflow", "pause", "Flow", "a", *app, "--json").json["state"] == "paused"
    shown = stage("workflow", "show", "Flow", "a").words
    assert "Flow/a paused" in shown
    assert stage("workflow", "resume", "Flow", "a", *app).code == 0
    assert stage("workflow", "fork", "Flow", "a", "b", *app, "--json").json["key"] == "b"
    assert stage("workflow", "send", "Flow", "a", "go", '{"n": 1}', *app).code == 0
    assert stage("workflow", "cancel", "Flow", "b", *app).code == 0
    refused = stage("workflow", "fork", "Flow", "a", "a", *app)
    assert (refused.code, "another key" in refused.err) == (2, True)
    unknown = stage("workflow", "show", "Flow", "none")
    assert (unknown.code != 0, "there is no workflow Flow/none" in unknown.err) == (True, True)
    acts = [row["act"] for row in stage("audit", "--json").json["rows"]]
    assert acts == ["workflow.cancel", "workflow.fork", "workflow.resume", "workflow.pause"]


def test_one_that_failed_is_retried_and_restarted(stage: Stage) -> None:
    app = ("--app", "app.py")
    stage("workflow", "start", "Flow", "c", "bad", *app)
    stage("call", "Flow", "c", "status", *app)  # another look, by which it has had its time
    row = stage("workflow", "show", "Flow", "c", "--json").json
    assert (row["state"], row["steps"][0]["error"]) == ("failed", "OSError: down")
    assert stage("workflow", "retry", "Flow", "c", "--from", "work", *app).code == 0
    assert stage("workflow", "restart", "Flow", "c", *app).code == 0


def test_they_are_listed_by_state_and_started_into_a_queue(stage: Stage) -> None:
    app = ("--app", "app.py")
    stage("workflow", "start", "Flow", "a", "5", *app)  # text, as its body says
    assert "no workflows match" in stage("workflow", "ls", "Other").words
    stage("workflow", "start", "Flow", "b", "bad", *app)
    queued = stage(
        "workflow", "start", "Flow", "q", "good", *app, "--queue", "mail", "--queue-key", "acme", "--json"
    ).json
    assert (queued["state"], queued["queue"], queued["queue_key"]) == ("queued", "mail", "acme")
    assert stage("queues", "pause", "mail", *app).code == 0
    started = stage("workflow", "start", "Flow", "q2", "5", *app, "--queue", "mail", "--queue-key", "acme").words
    assert "in queue mail, as acme" in started
    stage("call", "Flow", "a", "status", *app)
    stage("call", "Flow", "b", "status", *app)
    rows = stage("workflow", "ls", "--json").json["workflows"]
    assert [(row["key"], row["state"]) for row in rows[:2]] == [("a", "waiting"), ("b", "failed")]
    shown = stage("workflow", "ls", "Flow", "--state", "failed").words
    assert ("Flow b failed" in shown, "Flow a" in shown) == (True, False)
    first = stage("workflow", "ls", "-n", "1", "--json").json
    assert [row["key"] for row in first["workflows"]] == ["a"]
    second = stage("workflow", "ls", "-n", "1", "--after", first["next"], "--json").json
    assert [row["key"] for row in second["workflows"]] == ["b"]
    assert stage("workflow", "ls", "--state", "asleep").code != 0
    assert stage("workflow", "start", "Flow", "c", "good", *app, "--queue-key", "acme").code == 2
