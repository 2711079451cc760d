"""Workflows of a Worker, from outside: ids, pause, terminate, restart, retention; files; crashes and nodes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from tests.compat.workflow_stage import HEAD, IMPLICIT, WRANGLER, output_of, running
from wakeful import Queue, errors
from wakeful.compat.workers import load


async def test_ids_are_made_taken_once_and_checked(tmp_path: Path) -> None:
    async with running(tmp_path, "return [event.instanceId, event.workflowName, event.payload]") as (worker, world, _):
        flow = worker.env.FLOW
        made = await flow.create()
        assert len(made.id) == 36
        await world.settle()
        assert await output_of(made) == [made.id, "flow", {}]
        await flow.create({"id": "a", "params": [1]})
        with pytest.raises(Exception, match=r"\(instance.already_exists\)"):
            await flow.create(id="a")
        for id in ("", "a b", "-a", "x" * 101, "é", 7):
            with pytest.raises(Exception, match="invalid id"):
                flow.create(id=id)
        for id in ("b", "a b", None):
            with pytest.raises(Exception, match=r"instance\.not_found"):
                await flow.get(id)
        await world.settle()
        assert await output_of(await flow.get("a")) == ["a", "flow", [1]]
        with pytest.raises(Exception, match="1048576"):
            flow.create(params="x" * 1_048_577)
        with pytest.raises(TypeError):
            flow.create(params=object())


async def test_a_batch_leaves_out_what_is_there(tmp_path: Path) -> None:
    async with running(tmp_path, "return event.payload") as (worker, world, _):
        flow = worker.env.FLOW
        await flow.create(id="b")
        made = await flow.create_batch([{"id": one, "params": one} for one in "abc"])
        assert [one.id for one in made] == ["a", "c"]
        await world.settle()
        assert [await output_of(await flow.get(one)) for one in "abc"] == ["a", {}, "c"]
        for batch, words in (([], "at least 1"), ([{}] * 101, "100")):
            with pytest.raises(Exception, match=words):
                flow.createBatch(batch)
        gone = await flow.delete_batch(["a", "x", "c"])
        assert gone.deleted == [{"id": "a"}, {"id": "c"}]
        assert [one["id"] for one in gone.errors] == ["x"]
        with pytest.raises(Exception, match="not_found"):
            await flow.get("a")


async def test_one_that_an_operator_starts_through_a_queue_is_queued(tmp_path: Path) -> None:
    body = 'await step.sleep("an hour", "1 hour")\nreturn event.payload'
    async with running(tmp_path, body) as (worker, world, _):
        for id in ("a", "b"):
            await world.get(worker.app.deployment.registry.by_name("flow").cls, id).start(
                {"n": id}, queue=Queue("one at a time", concurrency=1)
            )
        await world.settle()
        made = [await worker.env.FLOW.get(id) for id in ("a", "b")]
        assert [(await one.status()).status for one in made] == ["waiting", "queued"]
        await world.advance("3h")
        assert [await output_of(one) for one in made] == [{"n": "a"}, {"n": "b"}]


async def test_a_pause_stops_the_clock(tmp_path: Path) -> None:
    body = """
await step.do("work", lambda: DID.append(1))
await step.sleep("an hour", "1 hour")
await step.do("work", lambda: DID.append(2))
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made = await begin()
        await world.advance("40m")
        await made.pause()
        await made.pause()
        assert (await made.status()).status == "paused"
        await world.advance("5h")
        assert (await made.status()).status == "paused"
        await made.resume()
        await made.resume()
        await world.advance("19m")
        assert (await made.status()).status == "waiting"
        await world.advance("1m")
        assert (await made.status()).status == "complete"
        await made.pause()
        assert (await made.status()).status == "complete", "no error, as there"
        assert worker.module.DID == [1, 2]


async def test_a_step_that_runs_comes_to_its_end_before_the_pause(tmp_path: Path) -> None:
    body = """
async def work():
    await asyncio.sleep(60)
    return "done"
found = await step.do("work", work)
await step.do("more", lambda: DID.append(found))
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made = await begin()
        await made.pause()
        assert (await made.status()).status == "waitingForPause"
        await world.advance("61s")
        assert (await made.status()).status == "paused"
        assert worker.module.DID == []
        await made.resume()
        await world.settle()
        assert (await made.status()).status == "complete"
        assert worker.module.DID == ["done"]


async def test_one_that_is_terminated_runs_no_line_more(tmp_path: Path) -> None:
    body = """
try:
    await step.sleep("long", "1 day")
finally:
    await step.do("never", lambda: DID.append(1))
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made = await begin()
        await made.terminate()
        await world.advance("2d")
        assert (await made.status()).status == "terminated"
        assert worker.module.DID == []
        assert [one for one in await world.due() if "forget" not in one.name] == []
        with pytest.raises(Exception, match=r"\(instance.cannot_terminate\)"):
            await made.terminate()


async def test_restarts_from_the_top_and_from_a_step(tmp_path: Path) -> None:
    body = """
for name in ("a", "b", "a"):
    await step.do(name, lambda name=name: DID.append(name))
return event.timestamp.isoformat()
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made, did = await begin(), worker.module.DID
        began = await output_of(made)
        await world.advance("1h")
        for options, again in (
            ({}, ["a", "b", "a"]),
            ({"from": {"name": "b"}}, ["b", "a"]),
            ({"from": {"name": "a", "count": 2, "type": "do"}}, ["a"]),
        ):
            did.clear()
            await made.restart(options)
            await world.settle()
            assert did == again
            assert await output_of(made) == began
        for start in ({"name": "c"}, {"name": "a", "count": 3}, {"name": "a", "type": "sleep"}):
            with pytest.raises(Exception, match=r"\(instance.cannot_restart\)"):
                await made.restart({"from": start})
        with pytest.raises(TypeError):
            made.restart({"from": {"name": "a", "type": "nap"}})
        assert await output_of(made) == began


async def test_what_is_over_is_kept_for_as_long_as_was_asked(tmp_path: Path) -> None:
    body = """
if event.payload:
    raise ValueError("no")
"""
    async with running(tmp_path, body) as (_worker, world, begin):
        kept = {"successRetention": "1 day", "errorRetention": "3 days"}
        good, bad = await begin(retention=kept), await begin(1, retention=kept)
        usual = await begin()
        await world.advance(hours=23)
        assert (await good.status()).status == "complete"
        await bad.restart()
        await world.advance(hours=2)
        with pytest.raises(Exception, match="not_found"):
            await good.status()
        await world.advance(hours=69)
        assert (await bad.status()).status == "errored", "it was restarted, and has ended later"
        await world.advance(hours=1)
        with pytest.raises(Exception, match="not_found"):
            await bad.status()
        await world.advance(days=25)
        assert (await usual.status()).status == "complete"
        await world.advance(days=2)
        with pytest.raises(Exception, match="not_found"):
            await usual.status()
        assert await world.due() == []


async def test_one_that_goes_on_again_is_not_forgotten_for_its_first_end(tmp_path: Path) -> None:
    async with running(tmp_path, 'await step.sleep("long", "2 days")') as (_worker, world, begin):
        made = await begin(retention={"successRetention": "1 day"})
        await world.advance(hours=60)
        await made.restart()
        await world.advance(hours=36)
        assert (await made.status()).status == "waiting"
        await world.advance(hours=35)
        assert (await made.status()).status == "complete"
        await world.advance(hours=1)
        with pytest.raises(Exception, match="not_found"):
            await made.status()


async def test_one_that_is_deleted_is_gone_and_its_id_is_free(tmp_path: Path) -> None:
    async with running(tmp_path, 'await step.sleep("a", "1 day")') as (worker, world, _):
        made = await worker.env.FLOW.create(id="a")
        await world.settle()
        await made.delete()
        await world.settle()
        with pytest.raises(Exception, match="not_found"):
            await made.delete()
        assert await world.due() == []
        assert (await worker.env.FLOW.create(id="a")).id == "a"


async def test_it_is_a_workflow_like_any_other(tmp_path: Path) -> None:
    body = """
found = await step.wait_for_event("ask", "answer")
return [event.payload, found.payload]
"""
    async with running(tmp_path, body) as (worker, world, _):
        flow = world.get(worker.app.deployment.registry.by_name("flow").cls, "by-hand")
        await flow.start("params")
        await world.settle()
        assert (await flow.status()).state == "waiting"
        await flow.send("answer", 1)
        assert await flow.result() == ["params", 1]
        assert await output_of(await worker.env.FLOW.get("by-hand")) == ["params", 1]
        await world.advance(days=31)
        assert (await flow.status()).state == "new"


# files


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "flow"', 'name = "a flow"', "a workflow's name"),
        ('class_name = "Flow"', 'class_name = "Flaw"', "no WorkflowEntrypoint"),
        ('class_name = "Flow"', 'class_name = "Default"', "no WorkflowEntrypoint"),
        ('class_name = "Flow"', 'class_name = "Flow"\nlimits = { steps = 0 }', "limits.steps"),
        ('binding = "FLOW"', 'bound = "FLOW"', "has no `binding`"),
    ],
)
def test_a_file_that_can_t_be_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    code = f"{HEAD}\nclass Flow(WorkflowEntrypoint):\n    async def run(self, event, step):\n        pass\n"
    write_worker(tmp_path, code, WRANGLER.format(date=IMPLICIT, more="").replace(old, new))
    with pytest.raises(errors.BadOption, match=words):
        load(tmp_path)


async def test_a_workflow_of_another_worker_of_the_program(tmp_path: Path) -> None:
    code = f"{HEAD}\nclass Flow(WorkflowEntrypoint):\n    async def run(self, event, step):\n        return 'theirs'\n"
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir(), ours.mkdir()
    write_worker(theirs, code, WRANGLER.format(date=IMPLICIT, more='schedules = ["0 1 * * *"]'))
    borrowed = WRANGLER.replace('"sample"', '"other"').format(date=IMPLICIT, more='script_name = "sample"')
    write_worker(ours, HEAD, borrowed)
    async with played(ours) as (worker, world):
        assert worker.missing == {"FLOW": "a workflow of the Worker sample"}
        with pytest.raises(NotImplementedError, match="of the Worker sample, which is not in this program"):
            worker.env.FLOW.create()
        other = load(theirs, app=worker.app)
        try:
            assert worker.missing == {}
            assert [one.partition(":")[0] for one in other.config.idle] == ["schedules of workflows"]
            made = await worker.env.FLOW.create()
            await world.settle()
            assert await output_of(made) == "theirs"
        finally:
            other.unload()


# crashes and nodes

LIFE = """
@step.do("a")
async def a():
    DID.append("a")
    return "a"

@step.do("b")
async def b():
    DID.append("b")
    return "b"

@step.do("both", concurrent=True)
async def both(a, b):
    DID.append("both")
    return a + b

found = [await both()]
await step.sleep("a bit", "5 seconds")
found.append((await step.wait_for_event("early", "early")).payload)
found.append((await step.wait_for_event("late", "late")).payload)
async def flaky(ctx):
    DID.append("flaky")
    if DID.count("flaky") < 3:
        raise OSError("no")
    return "flaky"
found.append(await step.do("flaky", {"retries": {"limit": 9, "delay": 1000}}, flaky))
return found
"""


async def _live(folder: Path, crash_at: int | None) -> int:
    """The same life of one instance, killed at that trip to the store; how many those are."""
    async with running(folder, LIFE) as (worker, world, _):
        before, flow = world.faults.probes, worker.env.FLOW

        def crash(name: str, at: int) -> None:
            if crash_at is not None and at == before + crash_at:
                world.kill()

        world.faults.on_probe = crash

        async def recover() -> None:
            if world._node is None:
                world.faults.on_probe = None
                await world.restart(after="1s")

        async def act(do: Callable[[], Any]) -> None:
            while True:
                await recover()
                try:
                    await do()
                    return
                except (errors.Unavailable, errors.DeadlineExceeded, errors.NotRunning, asyncio.CancelledError):
                    continue  # the process that was to answer is dead

        async def create() -> None:
            await flow.create_batch([{"id": "a"}])

        async def tell(kind: str) -> None:
            told = await (await flow.get("a")).status()
            instance = await flow.get("a")
            if told.status != "complete":
                await instance.send_event({"type": kind, "payload": kind})

        for do, length in ((create, "1s"), (lambda: tell("early"), "7s"), (lambda: tell("late"), "20s")):
            await act(do)
            await recover()
            with suppress(errors.Unavailable):
                await world.advance(length)
        await recover()
        await world.advance("1m")
        world.faults.on_probe = None
        probes: int = world.faults.probes - before
        assert await output_of(await flow.get("a")) == ["ab", "early", "late", "flaky"]
        did = worker.module.DID
        assert len(did) <= 6 + 2, did  # what ran at the crash runs again, and nothing else does
        assert [one.name for one in await world.due()] == ["workflow-forget"]
        assert await world.parked() == []
        return probes


async def test_a_crash_at_every_probe(tmp_path: Path) -> None:
    last = await _live(tmp_path, None)
    assert last > 20
    for probe in range(1, last + 1):
        try:
            await _live(tmp_path, probe)
        except BaseException as error:
            error.add_note(f"probe {probe}")
            raise


async def test_it_moves_with_its_node(tmp_path: Path) -> None:
    body = """
await step.do("work", lambda: DID.append(event.instanceId))
await step.sleep("a while", "2 minutes")
try:
    await step.do("fails", {"retries": {"limit": 0, "delay": 0}}, lambda: [][1])
except Exception as error:
    return [type(error).__name__, event.instanceId]
"""
    async with running(tmp_path, body, nodes=3) as (worker, world, _):
        flow, ids = worker.env.FLOW, [f"n{n}" for n in range(6)]
        made = await flow.create_batch([{"id": one} for one in ids])
        await world.advance("10s")
        with pytest.raises(Exception, match=r"\(instance.already_exists\)"):
            await flow.create(id="n1")
        await world.members[0].crash()
        await world.advance("4m")
        assert [await output_of(one) for one in made] == [["IndexError", one] for one in ids]
        assert sorted(worker.module.DID) == ids
