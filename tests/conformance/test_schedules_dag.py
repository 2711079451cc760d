"""Dags: tasks that depend on each other, each step durable; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.rota import after, since
from wakeful import App, Dag, RetryPolicy, Run, fixed
from wakeful.values.errors import BadHandler, BadName, BadOption, Conflict


class Mill:
    """A Dag of five tasks: extract → (clean, count) → load, and audit beside them."""

    def __init__(self, stage: Any) -> None:
        self.url = stage.url
        self.app = App()
        self.began: list[str] = []
        self.fails: dict[str, int] = {}
        self.slow: dict[str, float] = {}
        self.dag = Dag("Mill")
        policy = RetryPolicy(2, fixed("2s"))
        self.dag.task(self._task("extract", lambda given: [3, 1, 2], "input"), retry=policy)
        self.dag.task(self._task("clean", lambda given: sorted(given["extract"]), "extract"), after=["extract"])
        self.dag.task(self._task("count", lambda given: len(given["extract"]), "extract"), after=["extract"])
        load = self._task("load", lambda given: (given["clean"], given["count"]), "clean", "count")
        self.dag.task(load, after=["clean", "count"], retry=policy)
        self.dag.task(self._task("audit", lambda given: "ok"))

    def _task(self, name: str, result: Any, *parameters: str) -> Any:
        mill = self

        async def body(given: dict[str, Any]) -> Any:
            mill.began.append(name)
            await asyncio.sleep(mill.slow.get(name, 0))
            mill.fails[name] = mill.fails.get(name, 0) - 1
            if mill.fails[name] >= 0:
                raise ValueError(f"{name} on purpose")
            return result(given)

        # A task's parameters are read by name, so it is made with those names.
        scope: dict[str, Any] = {"body": body}
        args = ", ".join(parameters)
        given = ", ".join(f"{one!r}: {one}" for one in parameters)
        exec(f"async def {name}({args}):\n    return await body({{{given}}})", scope)
        return scope[name]


async def test_tasks_run_after_those_they_come_after_and_are_given_their_results(stage: Any) -> None:
    mill = Mill(stage)
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        run = mill.app.get(cls, "monday")
        begun = await run.start({"day": 1})
        assert (begun.state, set(begun.running), set(begun.waiting)) == (
            "running", {"extract", "audit"}, {"clean", "count", "load"},
        )  # fmt: skip
        await world.settle()
        done = await run.status()
        assert done.state == "done"
        assert done.done == ("extract", "clean", "count", "load", "audit")
        assert [await run.result(task) for task in done.done] == [[3, 1, 2], [1, 2, 3], 3, ([1, 2, 3], 3), "ok"]
        assert (done.waiting, done.running, done.failed) == ((), (), {})
        assert done.started_at == done.finished_at == world.now()
        order = mill.began
        assert sorted(order) == ["audit", "clean", "count", "extract", "load"]
        assert order.index("extract") < min(order.index("clean"), order.index("count"))
        assert max(order.index("clean"), order.index("count")) < order.index("load")


async def test_started_twice_is_one_run_and_other_keys_are_other_runs(stage: Any) -> None:
    mill = Mill(stage)
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        first = mill.app.get(cls, "monday")
        assert (await first.status()).state == "new"
        await asyncio.gather(first.start(1), first.start(2))
        await world.settle()
        assert (await first.start(3)).state == "done"
        await world.advance(seconds=1)
        assert len(mill.began) == 5
        await mill.app.get(cls, "tuesday").start()
        await world.settle()
        assert len(mill.began) == 10


async def test_tasks_may_take_the_input_and_their_run(stage: Any) -> None:
    app, dag = App(), Dag("Takes")

    @dag.task
    async def one(input: Any, run: Run) -> Any:
        return [input, run.attempt, since(run.nominal_at)]

    @dag.task(after=[one], name="two")
    async def second(one: Any) -> Any:
        return one[0] + 1

    cls = app.dag(dag)
    async with app.world(store=stage.url) as world:
        begun = await app.get(cls, "x").start(41)
        again = await app.get(cls, "x").start(99)  # too late to say otherwise
        assert begun.started_at == again.started_at
        await world.settle()
        run = app.get(cls, "x")
        assert (await run.status()).done == ("one", "two")
        assert (await run.result("one"), await run.result("two")) == ([41, 0, 0], 42)


async def test_a_dag_without_tasks_is_done_when_it_starts(stage: Any) -> None:
    app = App()
    cls = app.dag(Dag("Empty"))
    async with app.world(store=stage.url):
        assert (await app.get(cls, "x").start()).state == "done"


async def test_a_failing_task_is_tried_again_as_its_policy_says(stage: Any) -> None:
    mill = Mill(stage)
    mill.fails["extract"] = 1
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        await mill.app.get(cls, "x").start()
        await world.settle()
        half = await mill.app.get(cls, "x").status()
        assert (half.state, half.running, list(half.done)) == ("running", ("extract",), ["audit"])
        with pytest.raises(Conflict, match="no result of a task 'extract'"):
            await mill.app.get(cls, "x").result("extract")
        await world.advance(seconds=3)
        assert (await mill.app.get(cls, "x").status()).state == "done"
        assert mill.began.count("extract") == 2


async def test_a_task_that_is_given_up_is_parked_and_retry_goes_on_from_there(stage: Any) -> None:
    mill = Mill(stage)
    mill.fails["load"] = 2
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        run = mill.app.get(cls, "x")
        with pytest.raises(Conflict, match="no failed task"):
            await run.retry()
        await run.start()
        await world.advance(seconds=4)
        failed = await run.status()
        assert (failed.state, failed.failed) == ("failed", {"load": "ValueError: load on purpose"})
        assert sorted(failed.done) == ["audit", "clean", "count", "extract"]
        [parked] = await world.parked()
        assert parked.attempts == 2
        again = await run.retry()
        assert (again.state, again.running) == ("running", ("load",))
        await world.settle()
        assert (await run.status()).state == "done"
        assert mill.began.count("load") == 3
        assert mill.began.count("extract") == 1
        await world.node.redrive(parked)  # an operator who did not know
        await world.settle()
        assert mill.began.count("load") == 3


async def test_a_parked_task_can_be_redriven_as_anything_else(stage: Any) -> None:
    mill = Mill(stage)
    mill.fails["extract"] = 2
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        await mill.app.get(cls, "x").start()
        await world.advance(seconds=4)
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        status = await mill.app.get(cls, "x").status()
        assert (status.state, status.failed) == ("done", {})


async def test_other_branches_go_on_while_one_has_failed(stage: Any) -> None:
    mill = Mill(stage)
    mill.fails["extract"] = 2
    mill.slow["audit"] = 10
    cls = mill.app.dag(mill.dag)
    async with mill.app.world(store=mill.url) as world:
        await mill.app.get(cls, "x").start()
        await world.advance(seconds=20)
        status = await mill.app.get(cls, "x").status()
        assert (status.state, list(status.done)) == ("failed", ["audit"])


async def test_a_crash_before_or_after_any_commit_loses_and_doubles_no_step(stage: Any) -> None:
    """Each task's result is written once; a task may begin again, but never after its result is there."""
    if stage.url != "memory:":
        spots = [(name, n) for name in ("commit.before", "commit.after") for n in (2, 5)]
    else:
        spots = [(name, n) for name in ("commit.before", "commit.after") for n in range(1, 9)]
    crashes = 0
    for number, (name, n) in enumerate(spots):
        mill = Mill(stage)
        mill.fails["load"] = 1
        cls = mill.app.dag(mill.dag)
        key = f"run-{number}"
        async with mill.app.world(store=mill.url) as world:
            seen = [0]

            def probe(probe: str, _: int, world: Any = world, seen: Any = seen, name: str = name, n: int = n) -> None:
                seen[0] += probe == name
                if probe == name and seen[0] == n:
                    world.kill()

            world.faults.on_probe = probe
            started = asyncio.ensure_future(mill.app.get(cls, key).start())
            await asyncio.wait([started], timeout=1)
            await world.advance(seconds=4)
            world.faults.on_probe = None
            if seen[0] >= n:
                crashes += 1
                await world.restart()
            if started.done():
                started.exception()
            else:
                started.cancel()
            await mill.app.get(cls, key).start()  # the caller asks again; it is one run
            await world.advance(seconds=10)
            status = await mill.app.get(cls, key).status()
            assert status.state == "done", (name, n, status)
            assert await mill.app.get(cls, key).result("load") == ([1, 2, 3], 3)
            runs = [run for run in await world.ledger(cls, key) if run.verdict == "run"]
            assert sorted(run.name for run in runs) == [f"schedule:{one}" for one in sorted(mill.dag.tasks)], (name, n)
            assert await world.parked() == []
    assert crashes >= len(spots) * 2 // 3


async def test_a_schedule_starts_a_run_at_each_of_its_times(stage: Any) -> None:
    mill = Mill(stage)
    cls = mill.app.dag(mill.dag, "every 10s", catch_up="all", grace="1s")
    async with mill.app.world(store=mill.url) as world:
        await world.advance(seconds=12)
        await world.crash()
        await world.restart(after="20s")
        await world.settle()
        for seconds in (10, 20, 30):
            assert (await mill.app.get(cls, after(seconds).isoformat()).status()).state == "done"
        assert mill.began.count("load") == 3


async def test_results_may_be_larger_together_than_one_answer(stage: Any) -> None:
    app, dag = App(), Dag("Large")
    for number in range(3):

        async def task() -> str:
            return "x" * 700_000

        dag.task(task, name=f"t{number}")
    cls = app.dag(dag)
    async with app.world(store=stage.url) as world:
        await app.get(cls, "x").start()
        await world.settle()
        assert (await app.get(cls, "x").status()).state == "done"
        assert (await app.get(cls, "x").start()).done == ("t0", "t1", "t2")
        assert len(await app.get(cls, "x").result("t1")) == 700_000


async def test_a_run_goes_by_the_dag_as_it_is_now(stage: Any) -> None:
    began: list[str] = []
    app, dag = App(), Dag("Changing")
    cls = app.dag(dag)

    def put(name: str, seconds: float = 0) -> None:
        async def task() -> str:
            began.append(name)
            await asyncio.sleep(seconds)
            return name

        dag.task(task, name=name)

    put("a")
    put("b", 10)
    async with app.world(store=stage.url) as world:
        run = app.get(cls, "x")
        await run.start()
        await world.advance(seconds=1)
        await world.crash()
        del dag.tasks["b"]  # taken out while it runs
        put("c", 10)
        await world.restart()
        await world.advance(seconds=20)
        done = await run.status()
        assert (done.state, done.done) == ("done", ("a", "c"))
        assert done.finished_at is not None
        put("d")  # after all was done
        more = await run.status()
        assert (more.state, more.done, more.waiting, more.finished_at) == ("waiting", ("a", "c"), ("d",), None)
        assert (await run.start()).running == ("d",)
        await world.settle()
        last = await run.status()
        assert (last.state, last.finished_at) == ("done", world.now())
        put("b")  # back again: it never had a result
        assert (await run.start()).running == ("b",)
        await world.settle()
        assert await run.result("b") == "b"
        assert began == ["a", "b", "c", "d", "b"]
        assert await world.parked() == []


def test_what_is_wrong_with_a_dag_is_said_when_it_is_made() -> None:
    dag = Dag("Wrong")

    @dag.task
    async def one() -> None: ...

    async def takes(other: Any) -> None: ...

    def sync() -> None: ...

    with pytest.raises(BadOption, match="has a task 'one' already"):
        dag.task(one)
    with pytest.raises(BadOption, match="comes after 'nobody', which is not there yet"):
        dag.task(one, after=["nobody"], name="two")
    with pytest.raises(BadHandler, match="takes 'other', which is none of the tasks it comes after"):
        dag.task(takes, after=[one])
    with pytest.raises(BadHandler, match="async def"):
        dag.task(sync)  # type: ignore[type-var]
    with pytest.raises(BadName):
        Dag("not a name!")
    assert list(dag.tasks) == ["one"]
