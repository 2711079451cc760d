"""One trace from whoever asked for something to the commit of what it led to, however long that takes."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace as otel

from tests.telemetry.spans_seen import Watch
from wakeful import App, DurableObject, Machine, action
from wakeful.testing import World
from wakeful.values.trace import TRACE

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PARENT_ID = 0x0AF7651916CD43DD8448EB211C80319C


class House:
    """A program with everything that can be scheduled."""

    def __init__(self) -> None:
        self.app = App()
        self.traces: list[str | None] = []
        house = self

        @self.app.object
        class Cell(DurableObject):
            async def arm(self, after_s: int = 10) -> None:
                await self.storage.set_alarm(timedelta(seconds=after_s))

            async def alarm(self) -> None:
                house.traces.append(TRACE.get())
                if await self.storage.get("again", False):
                    await self.storage.set_alarm(timedelta(seconds=10))
                await self.storage.put("rang", True)

            async def repeat(self) -> None:
                await self.storage.put("again", True)
                await self.arm()

            async def plan(self, spec: str, name: str | None = None) -> None:
                await self.schedules.add(spec, self.work, name=name)

            async def work(self) -> None:
                house.traces.append(TRACE.get())
                await self.storage.put("worked", True)

            async def loop(self, times: int) -> None:
                if times:
                    await self.jobs.schedule(self.loop, times - 1, after=10)

            async def fail(self) -> None:
                raise ValueError("on purpose")

            async def ask(self, key: str) -> None:
                await self.ctx.get(Cell, key).work()

            async def slow(self) -> None:
                await asyncio.sleep(0.01)
                await self.storage.put("slow", True)

        self.Cell = Cell

        @self.app.object
        class Light(Machine):
            chart = {
                "initial": "off",
                "states": {
                    "off": {"on": {"PUSH": "on"}},
                    "on": {"entry": "shine", "after": {"10000": "dim"}},
                    "dim": {"after": {"10000": "off"}},
                },
            }

            @action
            async def shine(self, context: Any, event: Any) -> None:
                house.traces.append(TRACE.get())

        self.Light = Light


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def seen(house: House) -> Watch:
    return Watch(house.app)


async def test_a_call_is_the_caller_the_turn_and_the_commit(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").work()
    commit = seen.one("commit")
    assert seen.path(commit) == ["call Cell.work", "turn Cell.work", "commit"]
    assert [one.span.kind.name for one in seen.all()] == ["SERVER", "INTERNAL", "CLIENT"]
    assert seen.one("turn Cell.work").about.items() >= {
        "wakeful.class": "Cell", "wakeful.key": "a", "wakeful.method": "work", "wakeful.node": world.node.name
    }.items()  # fmt: skip


async def test_a_call_that_one_object_makes_of_another_is_in_its_trace(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").ask("b")
    inner = next(one for one in seen.named("commit") if one.about["wakeful.key"] == "b")
    assert seen.path(inner) == ["call Cell.ask", "turn Cell.ask", "call Cell.work", "turn Cell.work", "commit"]


async def test_calls_that_wait_for_each_other_keep_their_own_traces(house: House, seen: Watch) -> None:
    """The task that works off a mailbox is begun by the first of them, and must not pass its trace to the rest."""
    async with house.app.world() as world:
        cell = world.get(house.Cell, "a")
        await asyncio.gather(cell.slow(), *(cell.work() for _ in range(5)))
        await cell.arm()
        await world.advance(seconds=20)
    works = seen.named("turn Cell.work")
    assert len({one.trace for one in works}) == 5
    for one in works:
        assert seen.path(one) == ["call Cell.work", "turn Cell.work"]
    fire = seen.one("fire Cell.alarm")
    assert fire.trace == seen.one("call Cell.arm").trace


async def test_an_alarm_goes_on_with_the_trace_of_the_turn_that_set_it(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").arm()
        await world.crash()
        await world.restart(after="1h")
        await world.advance(seconds=1)
    commit = [one for one in seen.named("commit") if "turn Cell.alarm" in seen.path(one)]
    assert [seen.path(one) for one in commit] == [
        ["call Cell.arm", "turn Cell.arm", "fire Cell.alarm", "turn Cell.alarm", "commit"]
    ]
    about = seen.one("fire Cell.alarm").about
    assert about["wakeful.lateness_ms"] >= 3_580_000
    assert (about["wakeful.timer"], about["wakeful.attempt"], len(about["wakeful.run_id"])) == ("alarm", 0, 24)


async def test_an_alarm_that_sets_itself_again_begins_a_trace_each_time(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").repeat()
        await world.advance(seconds=35)
    fires = seen.named("fire Cell.alarm")
    assert len(fires) == 3
    assert fires[0].trace == seen.one("call Cell.repeat").trace
    assert len({one.trace for one in fires}) == 3
    assert [one.linked for one in fires] == [[], [fires[0].trace], [fires[1].trace]]


async def test_a_job_goes_on_with_the_trace_of_whoever_scheduled_it(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await house.app.jobs.schedule(house.app.get(house.Cell, "a").work, after="1d")
        await world.advance(days=2)
    commit = seen.one("commit")
    assert seen.path(commit) == ["schedule Cell.work", "fire Cell.job", "turn Cell.job", "commit"]
    assert seen.one("schedule Cell.work").span.kind.name == "PRODUCER"
    assert seen.one("fire Cell.job").span.kind.name == "CONSUMER"


async def test_a_job_belongs_to_the_program_s_own_span(house: House, seen: Watch) -> None:
    tracer = seen.provider.get_tracer("shop")
    async with house.app.world() as world:
        with tracer.start_as_current_span("GET /order"):
            await house.app.jobs.schedule(house.app.get(house.Cell, "a").work, after="1d")
        assert not otel.get_current_span().get_span_context().is_valid
        await world.advance(days=2)
    assert seen.path(seen.one("commit"))[:2] == ["GET /order", "schedule Cell.work"]


async def test_a_job_that_schedules_itself_begins_a_trace_each_time(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await house.app.jobs.schedule(house.app.get(house.Cell, "a").loop, 2)
        await world.advance(seconds=60)
    fires = seen.named("fire Cell.job")
    assert len(fires) == len({one.trace for one in fires}) == 3
    assert [one.linked for one in fires[1:]] == [[fires[0].trace], [fires[1].trace]]


async def test_every_attempt_is_in_the_trace_with_its_error(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await house.app.jobs.schedule(house.app.get(house.Cell, "a").fail)
        await world.advance(hours=1)
    fires = seen.named("fire Cell.job")
    assert len(fires) > 2
    assert {one.trace for one in fires} == {seen.one("schedule Cell.fail").trace}
    assert [one.about["wakeful.attempt"] for one in fires] == list(range(len(fires)))
    assert all(one.is_failed for one in fires)
    assert fires[0].span.status.description == "ValueError: on purpose"
    events = seen.named("turn Cell.job")[0].span.events
    assert [event.name for event in events] == ["exception"]


async def test_one_instant_goes_on_with_the_trace_of_its_add(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").plan("after 1h")
        await world.crash()
        await world.restart()
        await world.advance(hours=2)
    assert seen.path(seen.one("fire Cell.schedule")) == ["call Cell.plan", "turn Cell.plan", "fire Cell.schedule"]


async def test_each_run_of_a_schedule_is_a_trace_that_is_linked_to_the_add(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").plan("every 1h", "hourly")
        await world.advance(hours=3.5)
    fires = seen.named("fire Cell.schedule")
    assert len(fires) == len({one.trace for one in fires}) == 3
    added = seen.one("call Cell.plan").trace
    assert [one.linked for one in fires] == [[added]] * 3
    assert {one.parent for one in fires} == {None}


async def test_a_triggered_run_goes_on_with_the_trace_of_the_trigger(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Cell, "a").plan("every 1d", "daily")
        await house.app.schedules(house.Cell, "a").trigger("daily")
        await world.advance(seconds=5)
    path = seen.path(seen.one("fire Cell.run"))
    assert path == ["call Cell.schedules.trigger", "turn Cell.schedules.trigger", "fire Cell.run"]


async def test_delays_and_actions_of_a_machine_are_in_the_trace_of_the_event(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        await world.get(house.Light, "l").send({"type": "PUSH"})
        await world.advance(seconds=60)
    asked = seen.one("call Light.send").trace
    assert seen.one("fire Light.machine-do").trace == asked
    first, second = seen.named("fire Light.machine")
    assert first.trace == asked
    # A chart may go round for ever: a delay that a delay began is a trace of its own.
    assert second.trace != asked
    assert second.linked == [asked]
    assert len(house.traces) == 1


async def test_a_trace_crosses_nodes(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        nodes = await world.nodes(3)
        await world.advance(seconds=60)
        for number in range(12):
            await world.get(house.Cell, f"c{number}").work()
    by_id = {one.id: one for one in seen.all()}
    pairs = [(by_id[one.parent or 0], one) for one in seen.named("turn Cell.work")]
    assert len(pairs) == 12
    assert len(nodes) == 3
    assert all(caller.name == "call Cell.work" and caller.trace == turn.trace for caller, turn in pairs)
    assert any(caller.about["wakeful.node"] != turn.about["wakeful.node"] for caller, turn in pairs)


async def test_a_trace_from_outside_is_gone_on_with_and_its_decision_kept(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        token = TRACE.set(PARENT)
        await world.get(house.Cell, "a").arm()
        TRACE.set(f"{PARENT[:-2]}00")
        await world.get(house.Cell, "b").arm()
        TRACE.reset(token)
        await world.advance(seconds=60)
    assert {one.trace for one in seen.all()} == {PARENT_ID}
    assert {one.about["wakeful.key"] for one in seen.all()} == {"a"}
    assert house.traces[1] == f"{PARENT[:-2]}00" or house.traces[0] == f"{PARENT[:-2]}00"


@pytest.mark.parametrize("what", ["arm", "repeat"])
async def test_what_nobody_looks_at_leaves_no_spans_and_costs_no_ids(what: str) -> None:
    house = House()
    seen = Watch(house.app, ratio=0.0)
    async with house.app.world() as world:
        await getattr(world.get(house.Cell, "a"), what)()
        await house.app.jobs.schedule(house.app.get(house.Cell, "a").work, after="5s")
        await world.advance(seconds=60)
    assert seen.all() == []
    assert set(house.traces) == {"-"}


async def test_a_trace_is_carried_where_nobody_makes_spans(house: House) -> None:
    """A node that is not set up for it passes on what it got."""
    async with house.app.world() as world:
        token = TRACE.set(PARENT)
        await world.get(house.Cell, "a").arm()
        await world.get(house.Cell, "b").plan("after 1s")
        TRACE.reset(token)
        await world.advance(seconds=60)
        await world.get(house.Cell, "a").work()
    assert house.traces == [PARENT, PARENT, None]


async def test_a_damaged_trace_in_the_store_does_not_stop_a_timer(house: House, seen: Watch) -> None:
    async with house.app.world() as world:
        for number, trace in enumerate(["garbage", "~garbage", "00-zz", "~"]):
            token = TRACE.set(trace)
            # As a newer version may have written it.
            await _raw_alarm(world, f"k{number}", trace)
            TRACE.reset(token)
        await world.advance(seconds=60)
    assert len(house.traces) == 4


async def _raw_alarm(world: World, key: str, trace: str) -> None:
    from wakeful.values.ids import ObjectId
    from wakeful.values.timers import ALARM, Timer
    from wakeful.values.trace import with_trace

    node = world.node
    at = node.clock.now() + 1_000
    await node.add_timer(Timer(ObjectId("Cell", key), ALARM, at, at, at, payload=with_trace(None, trace)))
