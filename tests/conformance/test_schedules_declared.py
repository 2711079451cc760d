"""Schedules that a class declares: a restart, a deploy or a second registration neither doubles, loses nor moves one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.rota import after, since
from wakeful import App, Context, DurableObject, RetryPolicy, Run, Schedules, every, fixed
from wakeful.testing import World
from wakeful.values.errors import BadHandler, BadOption, BadSpec, Conflict

Ran = list[tuple[str, float]]


class Program:
    """One version after the other of a program, on the same disk."""

    def __init__(self, stage: Any) -> None:
        self.url = stage.url
        self.ran: Ran = []  # name, nominal seconds

    def app(self, define: Callable[[Ran], type] | None = None) -> App:
        app = App()
        if define is not None:
            app.object(define(self.ran), name="Desk")
        return app

    def world(self, define: Callable[[Ran], type]) -> World:
        return self.app(define).world(store=self.url)

    async def deploy(self, world: World, define: Callable[[Ran], type] | None, *, after: str = "1s") -> None:
        """Stop, and come back that much later as another program."""
        await world.crash()
        world.app = self.app(define)
        await world.restart(after=after)

    async def wake(self, world: World, key: str = "a") -> None:
        await desk(world, key).hello()


def desk(world: World, key: str = "a") -> Any:
    return world.app.get(world.app.deployment.registry.by_name("Desk").cls, key)


def on(world: World, key: str = "a") -> Any:
    return world.app.schedules(world.app.deployment.registry.by_name("Desk").cls, key)


def base(ran: Ran) -> type:
    class Base(DurableObject):
        async def hello(self) -> None: ...

        async def _note(self, run: Run) -> None:
            ran.append((run.name.partition(":")[2], since(run.nominal_at)))

    return Base


def first(ran: Ran) -> type:
    class Desk(base(ran)):  # type: ignore[misc]
        @every("10s")
        async def sweep(self, run: Run) -> None:
            await self._note(run)

        @every("20s", name="report", tags=["x"], catch_up="all")
        async def write(self, run: Run) -> None:
            await self._note(run)

    return Desk


def changed(ran: Ran) -> type:
    class Desk(base(ran)):  # type: ignore[misc]
        @every("10s", tags=["y"])
        async def sweep(self, run: Run) -> None:
            await self._note(run)

        @every("15s", name="report", tags=["x"], catch_up="all")
        async def write(self, run: Run) -> None:
            await self._note(run)

        @every("7s")
        async def fresh(self, run: Run) -> None:
            await self._note(run)

    return Desk


def without(ran: Ran) -> type:
    class Desk(base(ran)):  # type: ignore[misc]
        @every("10s")
        async def sweep(self, run: Run) -> None:
            await self._note(run)

    return Desk


async def test_an_object_has_the_schedules_of_its_class_from_its_first_turn_on(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await world.advance(seconds=3)
        assert await world.due() == []
        await program.wake(world)
        found = {one.name: one for one in await on(world).list()}
        assert {name: (one.handler, one.is_declared, since(one.next_at)) for name, one in found.items()} == {
            "sweep": ("sweep", True, 13),
            "report": ("write", True, 23),
        }
        assert (found["report"].tags, found["report"].catch_up) == (("x",), "all")
        await world.advance(seconds=21)
        assert program.ran == [("sweep", 13), ("report", 23), ("sweep", 23)]


async def test_a_restart_a_redeploy_and_another_registration_neither_double_lose_nor_move_one(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        before = [(timer.name, timer.due_at, timer.seq) for timer in await world.due()]
        for turn in range(3):
            await world.restart()
            await program.wake(world)
            await program.deploy(world, first)
            if turn:
                await world.sleep_all()
            await program.wake(world)
        assert [(timer.name, timer.due_at, timer.seq) for timer in await world.due()] == before
        assert [(one.version, len(one.versions)) for one in await on(world).list()] == [(1, 1)] * 2
        await world.advance(seconds=19)
        assert sorted(program.ran) == [("report", 20), ("sweep", 10), ("sweep", 20)]


async def test_an_object_that_nobody_calls_is_reconciled_when_a_timer_of_the_old_class_wakes_it(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        await program.deploy(world, changed)
        await world.advance(seconds=28)
        # It wakes at 10: from then on the changed one follows its new spec, and the new one its own.
        assert program.ran == [("sweep", 10), ("fresh", 17), ("sweep", 20), ("fresh", 24), ("report", 25)]
        report = await on(world).get("report")
        assert [(v.number, since(v.since), v.until and since(v.until)) for v in report.versions] == [
            (1, 0, 10),
            (2, 10, None),
        ]
        sweep = await on(world).get("sweep")
        assert (sweep.version, sweep.tags) == (1, ("y",))  # options alone move nothing


async def test_one_that_is_no_longer_declared_retires_and_comes_back_as_a_new_version(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        await world.advance(seconds=5)
        await program.deploy(world, without)
        await program.wake(world)
        report = await on(world).get("report")
        assert (report.state, report.next_at, since(report.versions[0].until)) == ("retired", None, 6)
        assert [timer.name for timer in await world.due()] == ["schedule:sweep"]
        await world.advance(seconds=20)
        with pytest.raises(Conflict, match="is retired, because Desk no longer declares it"):
            await on(world).trigger("report")
        await program.deploy(world, first, after="24s")
        await program.wake(world)
        report = await on(world).get("report")
        assert (report.state, report.version, since(report.next_at)) == ("active", 2, 70)
        assert since(report.versions[0].until) == 6
        await world.advance(seconds=21)
        # Nothing is owed for the time that it was away, although it catches up with all.
        assert [at for name, at in program.ran if name == "report"] == [70]


async def test_an_orphan_that_falls_due_before_its_object_is_called_retires_without_running(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        await program.deploy(world, without, after="25s")
        await world.settle()
        assert [name for name, _ in program.ran if name == "report"] == []
        assert (await on(world).get("report")).state == "retired"
        # It fell due while it was still declared, as far as anybody knew.
        assert [
            row.verdict for row in await world.ledger(world.app.deployment.registry.by_name("Desk").cls, "a", "report")
        ] == ["skipped"]


async def test_what_was_added_at_run_time_is_not_the_declarations_business(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await on(world).add("every 3s", "write", name="own")
        await program.deploy(world, changed)
        await program.wake(world)
        await program.deploy(world, first)
        await program.wake(world)
        own = await on(world).get("own")
        assert (own.is_declared, own.version, since(own.next_at)) == (False, 1, 3)


async def test_a_declared_one_that_is_paused_or_rescheduled_stays_so_through_restarts(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await on(world).pause("sweep", note="tea")
        await on(world).reschedule("report", "every 30s")
        await program.deploy(world, first)
        await program.wake(world)
        assert ((await on(world).get("sweep")).state, (await on(world).get("sweep")).note) == ("paused", "tea")
        assert (await on(world).get("report")).version == 2


def chained(ran: Ran) -> type:
    class Desk(base(ran)):  # type: ignore[misc]
        @every("10s", depends_on=["zero"])
        async def a_second(self, run: Run) -> None:
            await self._note(run)

        @every("10s", depends_on=["a_second"])
        async def b_third(self, run: Run) -> None:
            await self._note(run)

        @every("10s")
        async def zero(self, run: Run) -> None:
            await self._note(run)

    return Desk


async def test_declared_ones_may_depend_on_each_other_in_any_order(stage: Any) -> None:
    program = Program(stage)
    async with program.world(chained) as world:
        await program.wake(world)
        await world.advance(seconds=11)
        assert program.ran == [("zero", 10), ("a_second", 10), ("b_third", 10)]


async def test_a_handler_that_a_deploy_took_away_fails_and_waits_parked(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await on(world).add("every 30s", "write", name="own", retry=RetryPolicy(1))
        await program.deploy(world, without, after="30s")
        await world.settle()
        [parked] = await world.parked()
        assert "Desk has no method 'write'" in parked.error
        await program.deploy(world, first)
        await world.node.redrive(parked)
        await world.settle()
        assert ("own", 30) in program.ran


async def test_a_wake_that_fails_leaves_the_declared_schedules_in_place(stage: Any) -> None:
    ran: list[float] = []
    fails = [True]
    app = App()

    @app.object
    class Moody(DurableObject):
        async def on_wake(self) -> None:
            if fails[0]:
                raise ValueError("not now")

        async def hello(self) -> None: ...

        @every("10s", retry=RetryPolicy(3, fixed("1s")))
        async def sweep(self, run: Run) -> None:
            ran.append(since(run.nominal_at))

    async with app.world(store=stage.url) as world:
        with pytest.raises(ValueError, match="not now"):
            await app.get(Moody, "a").hello()
        await world.advance(seconds=10.5)
        fails[0] = False
        await world.advance(seconds=10)
        assert ran == [10, 20]


async def test_a_class_of_its_own_uses_schedules_by_its_context(stage: Any) -> None:
    app = App()
    ran: list[tuple[str, float]] = []

    @app.object
    class Plain:
        def __init__(self, ctx: Context) -> None:
            self.ctx = ctx
            self.plans = Schedules(ctx)

        async def begin(self) -> Any:
            made = await self.plans.add("every 10s", self.work, "x", name="own")
            await self.plans.every(20).seconds(self.work, "y", name="fluent")
            return made.next_at

        async def work(self, what: str, run: Run) -> None:
            ran.append((what, since(run.nominal_at)))

        @every("15s")
        async def declared(self) -> None:
            ran.append(("declared", since(self.ctx.now())))

    async with app.world(store=stage.url) as world:
        assert await app.get(Plain, "a").begin() == after(10)
        await world.advance(seconds=16)
        await world.crash()
        await world.restart()
        await world.advance(seconds=5)
        assert sorted(ran) == [("declared", 15), ("x", 10), ("x", 20), ("y", 20)]


async def test_a_function_of_the_app_runs_once_per_occurrence_after_restarts_too(stage: Any) -> None:
    ran: list[float] = []

    def program(seconds: int) -> App:
        app = App()

        @app.every(f"{seconds}s", catch_up="all")
        async def sweep(run: Run) -> None:
            ran.append(round(since(run.nominal_at)))  # a restart may take a millisecond

        @app.every("1h", name="other")
        async def plain() -> None: ...

        return app

    async with program(10).world(store=stage.url) as world:
        await world.advance(seconds=25)
        await world.restart()
        await world.crash()
        await world.restart(after="10s")  # 30 is merely late
        assert ran == [10, 20, 30]
        await world.crash()
        world.app = program(10)
        await world.restart()
        await world.advance(seconds=6)
        assert ran == [10, 20, 30, 40]
        await world.crash()
        world.app = program(4)  # from 41 on
        await world.restart()
        await world.advance(seconds=9)
        assert ran == [10, 20, 30, 40, 45, 49]
        await world.crash()
        world.app = App()
        await world.restart(after="30s")
        await world.advance(seconds=10)
        assert ran == [10, 20, 30, 40, 45, 49]
        assert await world.parked() == []


async def test_a_failing_function_is_tried_again(stage: Any) -> None:
    app = App()
    attempts: list[int] = []

    @app.every("10s", retry=RetryPolicy(2, fixed("1s")))
    async def moody(run: Run) -> None:
        attempts.append(run.attempt)
        if run.attempt == 0:
            raise ValueError

    async with app.world(store=stage.url) as world:
        await world.advance(seconds=13)
        assert attempts == [0, 1]


def test_what_is_wrong_with_a_declaration_is_said_when_the_class_is_registered() -> None:
    def twice() -> type:
        class Twice(DurableObject):
            @every("10s", name="same")
            async def a(self) -> None: ...

            @every("20s", name="same")
            async def b(self) -> None: ...

        return Twice

    def unknown() -> type:
        class Unknown(DurableObject):
            @every("10s", depends_on=["nobody"])
            async def a(self) -> None: ...

        return Unknown

    def circle() -> type:
        class Circle(DurableObject):
            @every("10s", depends_on=["b"])
            async def a(self) -> None: ...

            @every("10s", depends_on=["a"])
            async def b(self) -> None: ...

        return Circle

    def deaf() -> type:
        class Deaf(DurableObject):
            @every("10s", on_missed="nobody")
            async def a(self) -> None: ...

        return Deaf

    def option() -> type:
        class Option(DurableObject):
            @every("10s", catchup="all")
            async def a(self) -> None: ...

        return Option

    for define, error, text in (
        (twice, BadOption, "declares two schedules called 'same'"),
        (unknown, BadOption, "'a' depends on 'nobody'"),
        (circle, BadOption, "would wait for itself"),
        (deaf, BadHandler, "has no method 'nobody' to be a on_missed"),
        (option, BadOption, "unknown option 'catchup'"),
    ):
        app = App()
        before = set(app.deployment.registry.names())
        with pytest.raises(error, match=text):
            app.object(define())
        assert set(app.deployment.registry.names()) == before
    with pytest.raises(BadSpec):
        every("500ms")(test_what_is_wrong_with_a_declaration_is_said_when_the_class_is_registered)


def test_what_can_not_be_a_function_of_the_app_is_refused() -> None:
    app = App()

    async def twice() -> None: ...

    async def needs(what: str) -> None: ...

    def sync() -> None: ...

    app.every("10s")(twice)
    for function, error, text in (
        (twice, BadOption, "'twice' is on the app's clock already"),
        (needs, BadHandler, "takes what"),
        (sync, (BadHandler, BadSpec), "async def"),
        (lambda: None, (BadHandler, BadSpec), "async def"),
    ):
        with pytest.raises(error, match=text):
            app.every("10s")(function)
