"""A suite that misses a broken Wakeful is not done: each mistake of `broken.py` is caught by the suites named beside it.

The same checks pass when nothing is broken, which is asserted first.
"""

import asyncio
from contextlib import suppress
from dataclasses import astuple, field, make_dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.object_model import ObjectModel
from tests.model.queue_model import run_queue_model
from tests.sim.scenarios import SCENARIOS
from tests.sim.simulation import run_probe, run_seed
from tests.teeth import broken
from tests.teeth.catching import Catcher, Teeth
from wakeful import App, DurableObject, Limits
from wakeful.runtime.registry import Registry
from wakeful.runtime.status import status_of
from wakeful.store.protocol import Query
from wakeful.values.errors import StoreDown, Unfit
from wakeful.views import due
from wakeful.views.view import View

SEEDS = 100


def simulation() -> None:
    """tests/sim: seeds."""
    for seed in (79, 12, 11, 9, 706, 1774, *range(SEEDS)):  # first those that catch what few do
        run_seed(seed)


def probes() -> None:
    """tests/sim: a crash at every probe."""
    for probe in range(1, run_probe().busy_probes + 1):
        run_probe(probe)


def scenarios() -> None:
    """tests/sim: moments set up by hand."""
    for scenario in SCENARIOS:
        asyncio.run(scenario())


def queue_model() -> None:
    """tests/model: the timer queue."""
    for seed in range(100):
        run_queue_model(seed)


def object_model() -> None:
    """tests/model: objects against the oracle."""
    quick = settings(
        max_examples=120,
        stateful_step_count=20,
        phases=[Phase.generate],
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(ObjectModel, settings=quick)


def memory() -> None:
    """As tests/conformance/test_undone: a balance in memory beside the one in storage."""

    class Account(DurableObject):
        async def on_wake(self) -> None:
            self.balance: int = await self.storage.get("balance", 0)

        async def add(self, amount: int, *, fail: bool = False) -> int:
            self.balance += amount
            await self.storage.put("balance", self.balance)
            if fail:
                raise ArithmeticError
            return self.balance

    async def play() -> None:
        app = App()
        app.object(Account)
        async with app.world() as world:
            account = world.get(Account, "a")
            await account.add(100)
            with pytest.raises(ArithmeticError):
                await account.add(50, fail=True)
            assert await account.add(50) == 150

    asyncio.run(play())


def _deployed(*more: str, total: type = int) -> type[DurableObject]:
    """A version of a program: its two types have these fields more."""
    line = make_dataclass("Line", [("count", int, 0), *((name, int, 0) for name in more)])
    line.__module__ = __name__
    fields = [("lines", list[line], field(default_factory=list)), ("total", total, total())]  # type: ignore[valid-type]
    order = make_dataclass("Order", [*fields, *((name, int, 0) for name in more)])
    globals()["Line"] = line

    class Shop(DurableObject):
        state: order  # type: ignore[valid-type]

        async def fill(self) -> None:
            self.state = order([line(1, *(7 for _ in more))], 1, *(7 for _ in more))

        async def count(self) -> None:
            self.state.total += 1
            self.state.lines[0].count += 1

        async def look(self) -> tuple[Any, ...]:
            return (*astuple(self.state.lines[0]), *astuple(self.state)[1:])

    return Shop


def deploys() -> None:
    """As tests/conformance/test_state_versions: a newer program, an older one, and the newer again."""

    async def play() -> None:
        app = App()
        async with app.world() as world:

            async def deploy(cls: type[DurableObject]) -> Any:
                await world.crash()
                app.deployment.registry = Registry()
                app.object(cls)
                await world.restart()
                return world.get(cls, "s")

            await (await deploy(_deployed("points"))).fill()
            await (await deploy(_deployed())).count()
            assert await (await deploy(_deployed("points"))).look() == (2, 7, 2, 7)
            found: Any = None
            try:
                found = await (await deploy(_deployed(total=str))).look()
            except Unfit as error:
                found = error.path
            assert found == "total"

    asyncio.run(play())


def callers() -> None:
    """As tests/conformance/test_callers_gone: one that waits for a second, and turns that take longer."""

    class Slow(DurableObject):
        async def add(self, seconds: float) -> int:
            value: int = await self.storage.get("n", 0) + 1
            await self.storage.put("n", value)
            await asyncio.sleep(seconds)
            return value

    async def play() -> None:
        app = App(limits=Limits(concurrent_turns=1, slow_start_turns=1))
        app.object(Slow)
        async with app.world() as world:
            for key, seconds, deadline in (("begun", 3, "60s"), ("waiting", 0, "60s"), ("endless", 30, "10s")):
                with suppress(TimeoutError):
                    await asyncio.wait_for(world.get(Slow, key, deadline=deadline).add(seconds), 1)
                if key != "begun":
                    await world.advance(seconds=40)
            rows = {key: await world.rows(Slow, key) for key in ("begun", "waiting", "endless")}
            assert rows == {"begun": {"n": 1}, "waiting": {}, "endless": {}}

    asyncio.run(play())


def months() -> None:
    """As tests/conformance of the ledger: a monthly schedule whose last run is older than anything that is kept."""

    class Ledger(DurableObject):
        async def invoice(self) -> None:
            await self.storage.put("sent", True)

    async def play() -> None:
        app = App()
        app.object(Ledger)
        async with app.world(start="2026-01-31T00:00Z") as world:
            await app.schedules(Ledger, "a").add("cron 0 0 1 * * in UTC", Ledger.invoice, name="invoice")
            await world.advance(days=20)
            found = await world.store.find_entries(Query(cls="Ledger", name="schedule:invoice"))
            assert [entry.verdict for _, entry in found] == ["run"]

    asyncio.run(play())


def stops() -> None:
    """As tests/conformance/test_outages: clean stops while the store is away, of a timer that is under way."""

    class Bell(DurableObject):
        async def set(self) -> None:
            await self.storage.set_alarm(self.ctx.now() + timedelta(seconds=1))

        async def alarm(self) -> None:
            await asyncio.sleep(600)

    async def play() -> None:
        app = App()
        app.object(Bell)
        async with app.world() as world:
            await world.get(Bell, "a").set()
            for _ in range(4):
                await world.advance("2s")
                world.faults.is_down = True
                world.node.store_failed(StoreDown("away"))
                stopping = asyncio.create_task(world.restart(after="60s"))
                await world.advance("30s")
                world.faults.is_down = False
                await stopping
            assert await world.store.find_parked(Query()) == []

    asyncio.run(play())


def lines() -> None:
    """As tests/conformance/test_suspects: one is tried after two crashes, and the other waits for it."""

    class Bell(DurableObject):
        async def set(self) -> None:
            await self.storage.set_alarm(timedelta(seconds=1))

        async def alarm(self) -> None:
            await asyncio.sleep(30)

    async def play() -> None:
        app = App()
        app.object(Bell)
        async with app.world() as world:
            for key in ("a", "b"):
                await world.get(Bell, key).set()
            for _ in range(2):
                await world.advance("5s")
                await world.crash()
                await world.restart()
            await world.advance("5s")
            rows = (await due.page(View.of_node(world.node))).rows
            assert [row["is_running"] for row in rows] == [True, False]
            assert status_of(world.node)["timers_running"] == 1

    asyncio.run(play())


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "alarm_cleared_before_the_commit": (simulation, probes),
    "commit_without_the_epoch_check": (simulation,),
    "claim_of_whatever_there_is": (simulation,),
    "nominal_time_drifts_with_retries": (simulation, probes, object_model),
    "timer_row_not_in_the_turns_commit": (simulation,),
    "answer_released_before_the_commit": (simulation, probes),
    "retry_count_not_persisted": (simulation, object_model),
    "cache_kept_after_a_rollback": (simulation, probes, object_model),
    "copy_kept_after_a_rollback": (memory,),
    "state_kept_after_a_rollback": (simulation, probes, object_model),
    "same_instant_lost_between_pages": (simulation,),
    "timer_at_the_edge_dropped": (queue_model,),
    "crash_count_not_written": (simulation, probes, scenarios),
    "fenced_commit_ignored": (simulation,),
    "page_overwrites_newer_change": (queue_model,),
    "reader_sees_the_running_turn": (simulation,),
    "request_key_not_in_the_turns_commit": (simulation,),
    "savepoint_forgets_the_alarm": (simulation, probes, object_model),
    "wake_beside_a_commit_on_its_way": (scenarios,),
    "stop_hands_back_what_was_replaced": (simulation, scenarios),
    "unknown_fields_of_a_state_dropped": (deploys,),
    "unknown_fields_inside_a_value_dropped": (deploys,),
    "state_of_another_type_taken": (deploys,),
    "turn_ends_with_its_caller": (callers,),
    "call_runs_without_its_caller": (callers,),
    "deadline_goes_with_the_caller": (callers,),
    "newest_verdict_pruned": (months,),
    "stop_keeps_it_to_itself": (stops,),
    "a_note_of_the_dead_counts_as_running": (lines,),
    "those_in_line_count_as_running": (lines,),
}
TEETH = Teeth(broken, BROKEN, beside={"swapped"}, shown=(simulation, probes, object_model))


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
