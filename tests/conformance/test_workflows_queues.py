"""Workflows that go through a queue: its limits hold for them and for jobs alike, and a place is never lost."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import App, ContinueAsNew, Queue, RetryPolicy, Step, Workflow, errors
from wakeful.runtime.redrives import REDRIVE


class Crowd(Mill):
    """Counts how many bodies are between their first step and their last."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: set[str] = set()
        self.most = 0
        self.body = self._stay

    async def _enter(self, key: str) -> None:
        self.inside.add(key)
        self.most = max(self.most, len(self.inside))
        await self.do(f"enter {key}")

    async def _leave(self, key: str) -> None:
        self.inside.discard(key)

    async def _stay(self, flow: Any, step: Step, length: str = "10s") -> Any:
        await step("enter", self._enter, flow.key)
        await step.sleep("inside", length)
        await step("leave", self._leave, flow.key)
        return flow.key

    async def state(self, world: Any, key: str) -> str:
        return str((await world.get(self.Flow, key).status()).state)


async def counts(mill: Mill, name: str = "q") -> tuple[int, int]:
    info = await mill.app.queues.get(name)
    return info.running, info.waiting


async def test_no_more_are_under_way_than_the_queue_allows_asleep_or_not(store_url: str) -> None:
    mill = Crowd()
    async with mill.world(store=store_url) as world:
        queue = Queue("q", concurrency=2, key="acme")
        flows = [world.get(mill.Flow, f"f{n}") for n in range(6)]
        for flow in flows:
            await flow.start(queue=queue)
        await world.advance(seconds=5)
        assert mill.most == 2
        status = [await flow.status() for flow in flows]
        assert sorted(one.state for one in status) == ["queued"] * 4 + ["sleeping"] * 2
        assert {(one.queue, one.queue_key) for one in status} == {("q", "acme")}
        assert await counts(mill) == (2, 4)
        await world.advance(minutes=1)
        assert mill.most == 2
        assert [await flow.result() for flow in flows] == [f"f{n}" for n in range(6)]
        assert await counts(mill) == (0, 0)


async def test_jobs_and_workflows_wait_in_one_queue_for_each_other() -> None:
    mill = Crowd()
    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        await world.get(mill.Flow, "a").start("1m", queue=queue)
        await world.advance(seconds=1)
        job = await mill.app.jobs.schedule(world.get(mill.Stock, "s").take, 1, queue=queue)
        await world.advance(seconds=1)
        await world.get(mill.Flow, "b").start(queue=queue)
        await world.advance(seconds=30)
        assert (await mill.app.jobs.get(job.id)).state == "waiting"
        await world.advance(seconds=32)
        assert (await mill.app.jobs.get(job.id)).state == "done"
        assert await mill.state(world, "b") == "sleeping"
        await world.advance(minutes=1)
        assert (await mill.app.queues.get("q")).admitted == 3


async def test_a_rate_and_turns_of_keys_hold_for_workflows() -> None:
    mill = Crowd()
    async with mill.world() as world:
        for n in range(4):
            await world.get(mill.Flow, f"big{n}").start("1s", queue=Queue("q", rate="1/m", key="big"))
            await world.settle()
        await world.get(mill.Flow, "small").start("1s", queue=Queue("q", rate="1/m", key="small"))
        await world.advance(seconds=130)
        assert mill.order == ["enter big0", "enter big1", "enter small"]


async def test_the_queue_of_the_class_is_that_of_all_that_say_none() -> None:
    app = App()

    @app.object
    class Slow(Workflow):
        queue = Queue("slow", concurrency=1)

        async def run(self, step: Step) -> None:
            await step.sleep("a while", "10s")

    async with app.world() as world:
        for key in "abc":
            await world.get(Slow, key).start()
        await world.get(Slow, "d").start(queue=Queue("other"))
        await world.settle()
        found = {key: await world.get(Slow, key).status() for key in "abcd"}
        assert sorted(one.state for one in found.values()) == ["queued", "queued", "sleeping", "sleeping"]
        assert (found["d"].state, found["d"].queue) == ("sleeping", "other")
        await world.advance(minutes=1)
        assert [one.name for one in await app.queues.list()] == ["other", "slow"]


async def test_a_child_goes_through_the_queue_it_is_started_with() -> None:
    mill = Crowd()
    mill.child = mill._stay

    async def body(flow: Any, step: Step) -> Any:
        queue = Queue("q", concurrency=1)
        parts = [await step.start(mill.Part, f"p{n}", queue=queue) for n in range(3)]
        return [await part.result() for part in parts]

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.advance(seconds=15)
        assert mill.most == 1
        assert await counts(mill) == (1, 1)
        await world.advance(minutes=1)
        assert await world.get(mill.Flow, "a").result() == ["p0", "p1", "p2"]


async def test_one_that_its_queue_drops_is_cancelled_and_says_why() -> None:
    mill = Crowd()
    mill.child = mill._stay

    async def parent(flow: Any, step: Step) -> Any:
        part = await step.start(mill.Part, "p", queue=Queue("sync", throttle="1/m", key="acme"))
        try:
            return await part.result()
        except errors.StepFailed as error:
            return error.said

    async with mill.world() as world:
        for n in range(3):
            await world.get(mill.Flow, f"v{n}").start("1s", queue=Queue("index", debounce="5s", key="doc"))
            await world.advance(seconds=2)
        await world.advance(seconds=20)
        assert mill.order == ["enter v2"]
        old = world.get(mill.Flow, "v0")
        status = await old.status()
        assert (status.state, "debounced" in (status.error or "")) == ("cancelled", True)
        with pytest.raises(errors.WorkflowCancelled, match="debounced"):
            await old.result()
        [run] = await world.ledger(mill.Flow, "v0")
        assert (run.verdict, "debounced" in (run.error or "")) == ("skipped", True)
        await world.get(mill.Flow, "first").start("1s", queue=Queue("sync", throttle="1/m", key="acme"))
        await world.settle()
        mill.body = parent
        await world.get(mill.Flow, "parent").start()
        await world.advance(seconds=5)
        assert "throttled: 1/m" in await world.get(mill.Flow, "parent").result()


async def test_what_is_sent_to_one_that_waits_is_kept_and_a_second_start_changes_nothing() -> None:
    mill = Crowd()

    async def body(flow: Any, step: Step) -> Any:
        return await step.wait_for("go")

    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        await world.get(mill.Flow, "first").start("1m", queue=queue)
        await world.settle()
        mill.body = body
        flow = world.get(mill.Flow, "a")
        await flow.start(queue=queue)
        await flow.send("go", 7)
        await flow.start(queue=queue)
        await world.advance(seconds=30)
        assert await mill.state(world, "a") == "queued"
        assert await counts(mill) == (1, 1)
        await world.advance(minutes=1)
        assert await flow.result() == 7


async def test_one_that_is_cancelled_while_it_waits_leaves_and_never_begins() -> None:
    mill = Crowd()
    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        for key in "abc":
            await world.get(mill.Flow, key).start(queue=queue)
            await world.settle()
        await world.get(mill.Flow, "b").cancel()
        await world.settle()
        assert await mill.state(world, "b") == "cancelled"
        assert await counts(mill) == (1, 1)
        await world.advance(minutes=1)
        assert mill.order == ["enter a", "enter c"]
        with pytest.raises(errors.WorkflowCancelled):
            await world.get(mill.Flow, "b").result()


async def test_one_that_is_cancelled_while_it_runs_keeps_its_place_until_it_is_undone() -> None:
    mill = Crowd()

    async def undo(_: Any) -> None:
        await asyncio.sleep(30)

    async def body(flow: Any, step: Step) -> Any:
        await step("enter", mill._enter, flow.key, undo=undo)
        await step.sleep("long", "1d")

    mill.body = body
    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        for key in "ab":
            await world.get(mill.Flow, key).start(queue=queue)
            await world.settle()
        await world.get(mill.Flow, "a").cancel()
        await world.advance(seconds=20)
        assert await mill.state(world, "b") == "queued"
        await world.advance(seconds=20)
        assert [await mill.state(world, key) for key in "ab"] == ["cancelled", "sleeping"]


async def test_one_that_is_paused_while_it_waits_leaves_and_joins_behind_the_others() -> None:
    mill = Crowd()
    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        for key in "abc":
            await world.get(mill.Flow, key).start(queue=queue)
            await world.settle()
        await world.get(mill.Flow, "b").pause()
        await world.settle()
        assert await mill.state(world, "b") == "paused"
        assert await counts(mill) == (1, 1)
        await world.get(mill.Flow, "b").resume()
        await world.settle()
        assert (await world.get(mill.Flow, "b").resume()).state == "queued"
        await world.advance(minutes=1)
        assert mill.order == ["enter a", "enter c", "enter b"]
        await world.get(mill.Flow, "d").start(queue=queue)
        await world.settle()
        await world.get(mill.Flow, "e").start(queue=queue)
        await world.get(mill.Flow, "d").pause()  # it has begun, and so keeps its place
        await world.advance(minutes=1)
        assert [await mill.state(world, key) for key in "de"] == ["paused", "queued"]
        await world.get(mill.Flow, "d").resume()
        await world.advance(minutes=1)
        assert [await mill.state(world, key) for key in "de"] == ["done", "done"]
        assert await counts(mill) == (0, 0)


@pytest.mark.parametrize("how", ["retry", "restart", "resume", "redrive", "fork"])
async def test_one_that_failed_or_is_parked_holds_nothing_and_joins_anew(how: str) -> None:
    mill = Crowd()
    is_broken = True

    async def fragile(flow: Any, step: Step) -> Any:
        name = "other" if is_broken and how in ("resume", "redrive") and mill.did["once"] else "once"
        await step(name, mill.do, name)
        await step.sleep("a bit", "1s")
        if is_broken and how in ("retry", "restart", "fork"):
            await step("fails", fail, retry=RetryPolicy(1))
        return "done"

    async def fail() -> None:
        raise ValueError("no")

    mill.body, mill.child = fragile, mill._stay
    async with mill.world(sleep_after_turn=True) as world:
        queue = Queue("q", concurrency=1)
        flow = world.get(mill.Flow, "a")
        await flow.start(queue=queue)
        await world.settle()
        await world.crash()
        await world.restart(after="5s")
        await world.settle()
        assert await mill.state(world, "a") == ("parked" if how in ("resume", "redrive") else "failed")
        assert await counts(mill) == (0, 0)
        is_broken = False
        await world.get(mill.Part, "b").start(queue=queue)
        await world.settle()
        again = flow
        if how == "redrive":
            [parked] = await world.parked()
            await world.node.send(parked.timer.id, REDRIVE, (parked.timer.name, parked.number), {})
        elif how == "fork":
            await flow.fork("c")
            again = world.get(mill.Flow, "c")
        else:
            await getattr(flow, how)()
        await world.settle()
        assert (await again.status()).state == "queued"
        assert await counts(mill) == (1, 1)
        await world.advance(seconds=20)
        assert await again.result() == "done"
        assert await counts(mill) == (0, 0)


async def test_one_that_goes_on_as_new_keeps_its_place() -> None:
    mill = Crowd()

    async def body(flow: Any, step: Step, n: int) -> Any:
        await step("do", mill.do, f"{flow.key}{n}")
        await step.sleep("a bit", "1s")
        return ContinueAsNew(n - 1) if n else "end"

    mill.body = body
    async with mill.world() as world:
        for key in "ab":
            await world.get(mill.Flow, key).start(2, queue=Queue("q", concurrency=1))
            await world.settle()
        await world.advance(seconds=10)
        assert mill.order == ["a2", "a1", "a0", "b2", "b1", "b0"]
        assert (await mill.app.queues.get("q")).admitted == 2


async def test_one_that_is_forgotten_frees_its_place_whether_it_waits_or_runs() -> None:
    mill = Crowd()
    async with mill.world() as world:
        queue = Queue("q", concurrency=1)
        for key in "abc":
            await world.get(mill.Flow, key).start(queue=queue)
            await world.settle()
        await mill.app.forget(mill.Flow, "b")
        await mill.app.forget(mill.Flow, "a")
        await world.advance(seconds=5)
        assert mill.order == ["enter a", "enter c"]
        assert await counts(mill) == (1, 0)


async def test_what_is_no_queue_is_refused_where_it_is_given() -> None:
    mill = Crowd()

    async def body(flow: Any, step: Step) -> Any:
        await step.start(mill.Part, "p", queue="mail")  # type: ignore[arg-type]

    mill.body = body
    async with mill.world() as world:
        with pytest.raises(errors.BadOption) as start:
            await world.get(mill.Flow, "a").start(queue=5)
        assert start.value.code == "queue.option"
        assert await mill.state(world, "a") == "new"
        await world.get(mill.Flow, "a").start()
        await world.settle()
        assert "must be a Queue" in await outcome(world.get(mill.Flow, "a"))
    app = App()
    with pytest.raises(errors.BadOption) as option:

        @app.object
        class Wrong(Workflow):
            queue = "mail"  # type: ignore[assignment]

            async def run(self, step: Step) -> None: ...  # type: ignore[override]

    assert option.value.code == "queue.option"
    with pytest.raises(errors.BadHandler) as name:

        @app.object
        class Hiding(Workflow):
            async def run(self, step: Step, queue: str) -> None: ...  # type: ignore[override]

    assert name.value.code == "workflow.run"


# crashes


async def crashed_at_each_trip(parts: int = 1, part: int = 0) -> None:
    """Killed at one trip to disk after the other: never two at once, each ends, no place is lost."""
    number, is_over = part + 1, False
    while not is_over:
        mill = Crowd()
        async with mill.world() as world:
            queue, keys = Queue("q", concurrency=1), ["a", "b", "c"]
            last = world.faults.probes + number

            def crash(name: str, at: int, world: Any = world, last: int = last) -> None:
                if at == last:
                    world.kill()

            world.faults.on_probe = crash
            with suppress(errors.WakefulError):
                for key in keys:
                    await world.get(mill.Flow, key).start("2s", queue=queue)
                await world.advance(seconds=3)
                await world.get(mill.Flow, "c").cancel()
                await world.advance(seconds=4)
            is_over = world.faults.probes < last
            world.faults.on_probe = None
            if not is_over:
                await world.restart(after="1s")
            with suppress(errors.Conflict):
                for key in keys:
                    await world.get(mill.Flow, key).start("2s", queue=queue)
                await world.get(mill.Flow, "c").cancel()
            await world.advance(minutes=1)
            states = [await mill.state(world, key) for key in keys]
            assert states[:2] == ["done", "done"], (number, states)
            assert states[2] in ("done", "cancelled"), (number, states)
            assert mill.most == 1, number
            assert await counts(mill) == (0, 0), number
            assert await world.parked() == [], number
        number += parts
    assert number > 20


@pytest.mark.parametrize("part", range(2))
async def test_killed_at_each_trip_to_disk_no_place_is_lost(part: int) -> None:
    await crashed_at_each_trip(2, part)


async def test_on_two_nodes_of_which_one_dies_the_limit_is_that_of_the_deployment() -> None:
    mill = Crowd()
    async with mill.world(nodes=2) as world:
        flows = [world.get(mill.Flow, f"f{n}") for n in range(8)]
        for flow in flows:
            await flow.start("5s", queue=Queue("q", concurrency=2))
        await world.advance(seconds=7)
        world.members[1].kill()
        await world.advance(minutes=3)
        assert mill.most == 2
        assert [await flow.result() for flow in flows] == [f"f{n}" for n in range(8)]
        assert await counts(mill) == (0, 0)
