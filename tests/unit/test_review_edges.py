"""What a second pair of eyes found on the command line."""

from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage

wakeful = pytest.fixture(make_stage)
START = "2026-03-27T12:00:00+00:00"


def test_an_object_with_a_job_from_outside_goes_into_a_file_and_out_of_it(wakeful: Stage) -> None:
    """Such a job has a place in the order that no owner of a shard gives; it says nothing about epochs."""

    async def life(world: Any, call: Any) -> None:
        await call("heal")
        from wakeful.jobs.job import JobSpec
        from wakeful.jobs.node_jobs import feature_of
        from wakeful.jobs.submission import Scheduling
        from wakeful.runtime.calls import make_stub

        stub = make_stub(world.node, world.node.registry.by_name("Report"), "eu", None, None)
        for method in (stub.heal, stub.tick):
            await Scheduling(world.node, feature_of(world.node), None).one(JobSpec(method, after="5h"), is_newest=False)
        await world.advance(hours=1)

    wakeful.past(life, start=START)
    said = wakeful("export", "Report", "eu", "-o", "eu.jsonl")
    assert "parkeds" not in said.words
    other = f"sqlite:{wakeful.path}/other.db"
    wakeful("migrate", "--store", other)
    done = wakeful("import", "eu.jsonl", "--store", other)
    assert (done.code, done.err) == (0, "")
    wakeful("export", "Report", "eu", "-o", "again.jsonl", "--store", other)
    assert (wakeful.path / "again.jsonl").read_bytes() == (wakeful.path / "eu.jsonl").read_bytes()
    jobs = wakeful("jobs", "--store", other, "--json").json
    assert len(jobs["jobs"]) == 2


def test_what_init_says_to_type_can_be_typed(wakeful: Stage) -> None:
    said = wakeful("init", "my new; project")
    assert "cd 'my new; project' && wakeful dev app.py" in said.words
