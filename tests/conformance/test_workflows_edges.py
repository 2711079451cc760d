"""What a workflow may not do, who may wait for it, and what becomes of one that kills its process."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import App, ContinueAsNew, DurableObject, RetryPolicy, Step, Workflow, errors, internal
from wakeful.policy.limits import Limits
from wakeful.runtime.activation import Activation
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM
from wakeful.values.ids import ObjectId
from wakeful.workflows import acts, settlement
from wakeful.workflows.records import EVENTS, STEPS, load_steps
from wakeful.workflows.status import STATES


async def test_a_start_is_made_once_whoever_repeats_it() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        return await step("one", mill.do, "one")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        for _ in range(3):
            await flow.start(1)
        await world.settle()
        await flow.start(1)
        await world.settle()
        assert mill.did["one"] == 1
        with pytest.raises(errors.Conflict) as caught:
            await flow.start(2)
        assert caught.value.code == "workflow.started"
        with pytest.raises(errors.BadInput) as bad:
            await world.get(mill.Flow, "b").start(1, 2, other=3)
        assert bad.value.code == "workflow.input"


@pytest.mark.parametrize("way", ["sleep", "call", "timeout", "executor", "nested", "endless"])
async def test_what_a_body_may_not_do_is_said_with_the_remedy(way: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        if way == "sleep":
            await asyncio.sleep(1)
        elif way == "call":
            await flow.ctx.get(mill.Stock, "s").left()
        elif way == "timeout":
            async with asyncio.timeout(1):
                await step.wait_for("x")
        elif way == "executor":
            await asyncio.get_running_loop().run_in_executor(None, print)
        elif way == "nested":
            await step("outer", lambda: step("inner", mill.do, "inner"), retry=RetryPolicy(1))
        else:
            while True:  # noqa: ASYNC110 - that is the mistake
                await asyncio.sleep(0)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        if way == "endless":
            assert (await flow.status()).state == "parked"
            assert "never waits" in ((await flow.status()).error or "")
            return
        said = await outcome(flow)
        assert ("by the body itself" if way == "nested" else "step.sleep") in said


async def test_a_body_that_waits_for_nothing_that_can_come_has_failed() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await asyncio.Event().wait()

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        assert "nobody will ever bring about" in await outcome(world.get(mill.Flow, "a"))


def test_a_class_that_can_be_no_workflow_is_refused_where_it_stands() -> None:
    app = App()
    with pytest.raises(errors.BadHandler) as caught:

        @app.object
        class Bare(Workflow):
            async def run(self) -> None:  # type: ignore[override]
                """Takes no step."""

    assert caught.value.code == "workflow.run"
    with pytest.raises(errors.BadHandler) as bodiless:

        @app.object
        class Bodiless(Workflow):
            """Has no run of its own."""

    assert bodiless.value.code == "workflow.run"
    with pytest.raises(errors.BadOption) as option:

        @app.object
        class Old(Workflow):
            version = 0

            async def run(self, step: Step) -> None: ...  # type: ignore[override]

    assert option.value.code == "workflow.version"
    with pytest.raises(errors.BadInput) as name:

        @app.object
        class Hiding(Workflow):
            async def run(self, step: Step) -> None: ...  # type: ignore[override]

            async def send(self, event: str, data: Any = None) -> None: ...

    assert name.value.code == "class.name"


async def test_the_body_is_nobodys_to_call() -> None:
    mill = Mill()
    async with mill.world() as world:
        with pytest.raises(errors.UnknownMethod):
            await world.get(mill.Flow, "a").run()


async def test_a_step_runs_beside_the_turns_of_its_object() -> None:
    mill = Mill()

    async def slow() -> str:
        await asyncio.sleep(60)
        return "done"

    async def body(flow: Any, step: Step) -> Any:
        return await step("slow", slow)

    mill.body = body
    async with mill.world(sleep_after_turn=True) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(seconds=1)
        assert (await flow.status()).steps == ("slow",)
        await flow.send("x", 1)
        await world.advance(seconds=60)
        assert await flow.result() == "done"


async def test_who_waits_for_its_result_hears_of_it_at_once() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a bit", "30s")
        return 7

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        waiting = asyncio.ensure_future(flow.result())
        await world.advance(seconds=29)
        assert not waiting.done()
        await world.advance(seconds=1)
        assert waiting.done()
        assert await waiting == 7
        with pytest.raises(errors.DeadlineExceeded) as caught:
            await _start_and_wait(world.get(mill.Flow, "b"))
        assert caught.value.code == "workflow.wait"


async def _start_and_wait(flow: Any) -> None:
    await flow.start()
    await flow.result(timeout="1s")


async def test_who_waits_for_one_that_sleeps_holds_nothing_up(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        return await step.wait_for("go", timeout="30s")

    mill.body = body
    async with mill.world(store=store_url, sleep_after_turn=True) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        waiting = [asyncio.ensure_future(flow.result()) for _ in range(3)]
        await world.advance(seconds=20)
        await flow.send("go", 5)
        await world.settle()
        assert [await one for one in waiting] == [5, 5, 5]


async def test_a_method_of_that_name_of_another_class_is_what_it_was() -> None:
    app = App()

    @app.object
    class Exam(DurableObject):
        async def result(self) -> str:
            return "passed"

    @app.object
    class Closed(DurableObject):
        @internal
        async def result(self) -> str:
            return "nobody's business"

    async with app.world() as world:
        assert await world.get(Exam, "a").result() == "passed"
        for cls in ("Closed", "wakeful.none"):
            with pytest.raises((errors.UnknownMethod, errors.UnknownClass)):
                await world.node.send(ObjectId(cls, "a"), "result", (), {})


async def test_a_sleep_begins_when_it_is_asked_for() -> None:
    """Also after a pause: what was done before it is no reason to wake at once."""
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step("slow", slow)
        await step.sleep("a while", "10m")

    async def slow() -> None:
        await asyncio.sleep(5)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await flow.pause()
        await world.advance(hours=1)
        await flow.resume()
        await world.advance(seconds=6)
        assert (await flow.status()).state == "sleeping"
        await world.advance(minutes=11)
        assert (await flow.status()).state == "done"


async def test_a_step_that_kills_its_process_three_times_is_parked_and_goes_on_when_a_person_says_so() -> None:
    mill = Mill()
    worlds: list[Any] = []

    async def deadly() -> str:
        await mill.do("deadly")
        if mill.did["deadly"] <= 3:
            worlds[0].kill()
            await asyncio.sleep(60)
        return "survived"

    async def body(flow: Any, step: Step) -> Any:
        return await step("deadly", deadly)

    mill.body = body
    async with mill.world() as world:
        worlds.append(world)
        flow = world.get(mill.Flow, "a")
        await flow.start()
        for _ in range(4):
            await world.advance(seconds=1)
            if world._node is None:
                await world.restart()
        await world.advance(seconds=5)
        [parked] = await world.parked()
        assert (parked.reason, mill.did["deadly"]) == ("crashed", 3)
        assert (await flow.status()).state == "parked"
        await flow.resume()
        await world.advance(seconds=1)
        assert await flow.result() == "survived"
        assert await world.parked() == []


async def test_it_may_call_itself_which_is_how_it_keeps_something_of_its_own(store_url: str) -> None:
    app = App()

    @app.object
    class Diary(Workflow):
        async def run(self, step: Step) -> Any:  # type: ignore[override]
            me = self.ctx.get(Diary, self.key)
            await step.call(me.note, "begun")
            await step.sleep("a while", "1m")
            return await step.call(me.note, "ended")

        async def note(self, what: str) -> list[str]:
            notes = [*await self.storage.get("notes", []), what]
            await self.storage.put("notes", notes)
            return notes

    async with app.world(store=store_url) as world:
        await world.get(Diary, "a").start()
        await world.settle()
        await world.crash()
        await world.restart(after="1m")
        await world.settle()
        assert await world.get(Diary, "a").result() == ["begun", "ended"]


async def test_a_body_that_swallows_its_end_holds_up_nobody() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        while True:
            try:
                await step.sleep("a while", "1h")
            except asyncio.CancelledError:
                mill.did["swallowed"] += 1
                if mill.did["swallowed"] > 5_000:
                    raise  # else a program that is broken would never end this test

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.restart()
        await world.settle()
        assert (await flow.status()).state == "sleeping"
        assert mill.did["swallowed"] < 1_000


async def test_a_body_that_ends_its_process_ends_itself() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step("one", mill.do, "one")
        raise SystemExit(3)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert await outcome(flow) == "WorkflowFailed: Flow/a failed: SystemExit: 3"


async def test_a_step_ends_whatever_its_function_raises() -> None:
    mill = Mill()

    class Odd(BaseException):
        """No Exception, as those of some libraries."""

    async def odd() -> None:
        mill.did["odd"] += 1
        raise Odd("hm")

    async def body(flow: Any, step: Step) -> Any:
        await step("odd", odd, retry=RetryPolicy(2))

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        assert "step 'odd': Odd: hm" in await outcome(flow)
        assert mill.did["odd"] == 2


async def test_what_did_its_work_is_not_done_again_because_its_result_cant_be_kept() -> None:
    mill = Mill()

    async def pay() -> object:
        mill.did["paid"] += 1
        return object()

    async def body(flow: Any, step: Step) -> Any:
        await step("pay", pay)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(hours=1)
        assert "not plain data" in await outcome(flow)
        assert mill.did["paid"] == 1


async def test_ends_of_children_that_nobody_asks_for_take_no_place_of_events_and_go_with_the_round() -> None:
    mill = Mill(Limits(workflow_events=2))

    async def body(flow: Any, step: Step, rounds: int = 1) -> Any:
        for n in range(3):
            await step.start(mill.Part, f"part\u00a0{rounds}.{n}")
        if await step.wait_for("go"):
            return ContinueAsNew(rounds + 1)
        return rounds

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        for more in (True, False):
            await world.settle()
            assert len(await world.store.scan(ObjectId("Flow", "a"), SYSTEM, Range(EVENTS, f"{EVENTS}~"))) == 3
            await flow.send("go", more)
        await world.settle()
        assert await outcome(flow) == 2


async def test_a_fork_that_was_cut_off_leaves_no_steps_to_who_is_started_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        return [await step(f"{part}", mill.do, f"{part}{n}") for part in "abc"] and await step.wait_for("go")

    mill.body = body
    monkeypatch.setattr(acts, "FORK_BYTES", 0)
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start(1)
        await world.settle()
        rows = await world.store.scan(ObjectId("Flow", "a"), SYSTEM, Range(STEPS, f"{STEPS}~"))
        await world.node.send(ObjectId("Flow", "b"), acts.ADOPT, ("cut off", None, None, [rows[0][1]]), {})
        other = world.get(mill.Flow, "b")
        await other.start(2)
        await world.settle()
        assert mill.did["a2"] == 1
        await world.node.send(ObjectId("Flow", "c"), acts.ADOPT, ("cut off", None, None, [rows[0][1]]), {})
        await flow.fork("c")
        await world.settle()
        third = world.get(mill.Flow, "c")
        assert [one.name for one in await third.steps()] == ["a", "b", "c", "go"]
        await third.send("go", 3)
        await world.settle()
        assert (await outcome(third), mill.did["a1"]) == (3, 1)


async def test_many_sleeps_that_ended_while_nothing_ran_are_one_look_at_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mill, looks = Mill(), Counter[str]()

    async def endless() -> None:
        await asyncio.Event().wait()

    async def body(flow: Any, step: Step) -> Any:
        asyncio.create_task(step("endless", endless))  # noqa: RUF006 - so the body is at work when its node dies
        await asyncio.gather(*[step.sleep("a while", "1h") for _ in range(20)])

    async def counted(turn: Any) -> Any:
        looks["all"] += 1
        return await load_steps(turn)

    mill.body = body
    monkeypatch.setattr(settlement, "load_steps", counted)
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.advance(minutes=1)
        await world.crash()
        await world.restart(after="2h")
        await world.settle()
        assert await outcome(world.get(mill.Flow, "a")) is None
    assert looks["all"] == 1


async def test_a_class_that_is_no_workflow_any_more_is_said(tmp_path: Path) -> None:
    mill, later = Mill(), App()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1h")

    @later.object(name="Flow")
    class Other(DurableObject):
        async def status(self) -> str:
            return "no more"

    mill.body = body
    store = f"sqlite:///{tmp_path}/store.db"
    async with mill.world(store=store) as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
    async with later.world(store=store) as world:
        await world.advance(hours=2)
        [parked] = (await world.parked())[:1]
        assert "no Workflow in this program" in parked.error


async def test_they_are_listed_by_state_without_being_woken(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        if flow.key.startswith("s"):
            await step.sleep("long", "9d")
        elif flow.key.startswith("w"):
            await step.wait_for("go")
        elif flow.key.startswith("f"):
            raise ValueError("no")
        return flow.key

    mill.body = body
    async with mill.world(store=store_url) as world:
        keys = ["d1", "f1", "f2", "s1", "s2", "s3", "w1"]
        for key in keys:
            await world.get(mill.Flow, key).start()
        await world.get(mill.Stock, "a").take(1)
        await world.advance(minutes=1)
        flows = mill.app.workflows
        assert [row.id.key for row in await flows.list()] == keys
        states = {state: [row.id.key for row in await flows.list(cls=mill.Flow, state=state)] for state in STATES}
        assert {state: found for state, found in states.items() if found} == {
            "done": ["d1"],
            "failed": ["f1", "f2"],
            "sleeping": ["s1", "s2", "s3"],
            "waiting": ["w1"],
        }
        page = await flows.list(state="sleeping", limit=2)
        rest = await flows.list(state="sleeping", limit=2, after=page.next)
        assert ([row.id.key for row in rest], rest.next) == (["s3"], None)
        assert [row.id.key for row in await flows.list(key_prefix="f")] == ["f1", "f2"]
        assert not [id for id in world.node.awake if id.cls == "Flow"]
        for wrong in ({"state": "asleep"}, {"limit": 0}, {"after": "x"}, {"after": '[5,"a","b"]'}):
            with pytest.raises(errors.BadOption) as caught:
                await flows.list(**wrong)
            assert caught.value.code == "workflow.list"


@pytest.mark.parametrize("given", [{"foo": 1}, {"timeout": 0, "foo": 1}])
async def test_result_takes_a_timeout_and_nothing_else(given: dict[str, Any]) -> None:
    mill = Mill()
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        for args, kwargs in (((), given), ((1, 2), {}), ((0,), {"timeout": 0})):
            with pytest.raises(errors.BadInput) as caught:
                await flow.result(*args, **kwargs)
            assert caught.value.code == "arguments.unknown"
        assert await flow.result(timeout=0) is None


@pytest.mark.parametrize("what", ["call", "patch", "text"])
async def test_what_a_body_asks_for_in_vain_is_refused_with_the_remedy(what: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        if what == "call":
            await step.call(flow.ctx.get(mill.Part, "p").result)
        else:
            step.patched("" if what == "text" else [1])  # type: ignore[arg-type]

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        said = await outcome(flow)
        assert ("child.result()" if what == "call" else "the name of a patch") in said


@pytest.mark.sources_only("it swaps Activation.submit, which is called directly by what was compiled with it")
async def test_what_is_too_much_for_one_commit_goes_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "COMMIT_BYTES", 3_000)
    mill = Mill()

    async def large(name: str) -> str:
        await mill.do(name)
        return name * 1_000

    async def body(flow: Any, step: Step) -> Any:
        found = await asyncio.gather(*(step(name, large, name) for name in "abcdefghijkl"))
        await asyncio.gather(*(step.publish(one) for one in found))
        return [one[0] for one in found]

    mill.body = body
    async with mill.world() as world:
        sizes: list[int] = []
        submit = Activation.submit

        def weigh(self: Activation, commit: Any) -> int:
            sizes.append(sum(len(data or b"") for data in commit.puts.values()))
            return submit(self, commit)

        monkeypatch.setattr(Activation, "submit", weigh)
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert await flow.result() == list("abcdefghijkl")
        assert [value[0] for _, value in await flow.published()] == list("abcdefghijkl")
        assert set(mill.did.values()) == {1}
        assert 3_000 < max(sizes) < 6_000
