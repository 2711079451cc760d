"""Slots: bounds that hold, the neediest tenant first, and nothing left over when all is done."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful import Limits
from wakeful.runtime.slots import Slot, Slots, SlowStart
from wakeful.testing.timewarp import Timewarp
from wakeful.values.ids import ObjectId, tenant_of


def of(key: str, cls: str = "Job") -> ObjectId:
    return ObjectId(cls, key)


class Line:
    """Turns that ask for a slot; each is told when it has it, and gives it back when the test says so."""

    def __init__(self, **limits: Any) -> None:
        self.slots = Slots(Limits(**limits))
        self.asked: list[tuple[ObjectId, Slot | None]] = []
        self.order: list[str] = []  # keys, as they got their slots
        self._has: list[int] = []

    def ask(self, *keys: str, cls: str = "Job", nested: bool = False) -> None:
        for key in keys:
            slot = self.slots.take(of(key, cls), nested=nested)
            self.asked.append((of(key, cls), slot))
        self.look()

    def look(self) -> None:
        for index, (id, slot) in enumerate(self.asked):
            if index not in self._has and (slot is None or (slot.done() and not slot.cancelled())):
                self._has.append(index)
                self.order.append(id.key)

    def end(self, key: str) -> None:
        index = next(index for index in self._has if self.asked[index][0].key == key)
        self._has.remove(index)
        id, slot = self.asked[index]
        self.asked[index] = (id, None)
        self._ended(index)
        self.slots.give_back(slot, id)
        self.look()

    def _ended(self, index: int) -> None:
        cancelled: Slot = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        self.asked[index] = (self.asked[index][0], cancelled)

    @property
    def running(self) -> list[str]:
        return [self.asked[index][0].key for index in self._has]


async def test_the_next_slot_goes_to_the_tenant_with_the_fewest_running_not_to_the_longest_line() -> None:
    line = Line(concurrent_turns=3)
    line.ask("a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "b/1", "b/2", "b/3")
    assert line.running == ["a/1", "a/2", "a/3"]
    for key in ("a/1", "a/2", "a/3"):
        line.end(key)
    # b has none while a has two; then both have one, and who waited longer is next.
    assert line.order[3:] == ["b/1", "a/4", "b/2"]
    for key in line.running:
        line.end(key)
    assert Counter(tenant_of(key) for key in line.order[3:]) == {"a": 3, "b": 3}


async def test_with_one_slot_tenants_take_turns_and_within_one_the_first_come_is_the_first_served() -> None:
    line = Line(concurrent_turns=1)
    line.ask(*(f"a/{n}" for n in range(5)), *(f"b/{n}" for n in range(3)), "c/0")
    while line.running:
        line.end(line.running[0])
    assert line.order == ["a/0", "a/1", "b/0", "c/0", "a/2", "b/1", "a/3", "b/2", "a/4"]


async def test_tenants_with_one_turn_each_go_in_order_of_arrival() -> None:
    line = Line(concurrent_turns=2)
    keys = [f"k{n}" for n in range(20)]
    line.ask(*keys)
    while line.running:
        line.end(line.running[0])
    assert line.order == keys


async def test_a_newcomer_does_not_overtake_those_who_wait_already() -> None:
    line = Line(concurrent_turns=1)
    line.ask("busy", "old/1", "old/2")
    for n in range(5):
        line.ask(f"new{n}")
        line.end(line.running[0])
    assert line.order == ["busy", "old/1", "new0", "old/2", "new1", "new2"]


async def test_a_class_has_its_own_bound_and_holds_nobody_else_up() -> None:
    line = Line(concurrent_turns=10, turns_of={"Mailer": 2})
    line.ask("a/m1", "a/m2", "a/m3", "a/m4", cls="Mailer")
    line.ask("a/1", "a/2")
    assert line.running == ["a/m1", "a/m2", "a/1", "a/2"]
    line.end("a/1")
    assert "a/m3" not in line.running
    line.end("a/m1")
    assert line.running == ["a/m2", "a/2", "a/m3"]


async def test_the_bound_of_every_class_can_be_set_otherwise_for_one() -> None:
    line = Line(class_turns=1, turns_of={"Wide": 3})
    line.ask("1", "2", cls="One")
    line.ask("3", "4", cls="Other")
    line.ask("5", "6", "7", "8", cls="Wide")
    assert line.running == ["1", "3", "5", "6", "7"]


async def test_a_tenant_has_its_own_bound_and_holds_nobody_else_up() -> None:
    line = Line(tenant_turns=2)
    line.ask("a/1", "a/2", "a/3", "b/1", "b/2", "b/3", "c")
    assert line.running == ["a/1", "a/2", "b/1", "b/2", "c"]
    line.end("b/2")
    assert line.running == ["a/1", "a/2", "b/1", "c", "b/3"]


async def test_within_a_tenant_the_first_come_is_first_served_whatever_its_class() -> None:
    line = Line(concurrent_turns=1, turns_of={"Mailer": 1})
    line.ask("a/0")
    line.ask("a/m1", "a/m2", cls="Mailer")
    line.ask("a/1")
    line.ask("a/m3", cls="Mailer")
    line.ask("a/2")
    while line.running:
        line.end(line.running[0])
    assert line.order == ["a/0", "a/m1", "a/m2", "a/1", "a/m3", "a/2"]


async def test_calls_made_by_a_turn_pass_freely_and_are_counted() -> None:
    line = Line(concurrent_turns=1, tenant_turns=1, class_turns=1)
    line.ask("a/1")
    line.ask("a/2", "a/3", nested=True)
    assert line.running == ["a/1", "a/2", "a/3"]
    line.ask("b")
    line.end("a/1")
    line.end("a/2")
    assert line.running == ["a/3"]
    line.end("a/3")
    assert line.running == ["b"]


async def test_one_that_is_hurried_passes_every_bound_and_leaves_its_line() -> None:
    line = Line(concurrent_turns=1, tenant_turns=1, turns_of={"Job": 1})
    line.ask("a/1", "a/2", "a/3")
    id, slot = line.asked[2]
    assert slot is not None
    line.slots.hurry(slot, id)
    line.slots.hurry(slot, id)
    line.look()
    assert line.running == ["a/1", "a/3"]
    assert (line.slots.taken, line.slots.waiting) == (2, 1)
    line.end("a/3")
    line.end("a/1")
    assert line.running == ["a/2"]


async def test_one_that_gives_up_waiting_leaves_no_trace() -> None:
    line = Line(concurrent_turns=1)
    line.ask("a/1", "a/2", "b/1", "a/3")
    for index in (1, 2):
        id, slot = line.asked[index]
        line.slots.give_back(slot, id)
        assert slot is not None
        assert slot.cancelled()
    assert line.slots.waiting == 1
    line.end("a/1")
    assert line.running == ["a/3"]
    line.end("a/3")
    assert_empty(line.slots)


async def test_one_whose_task_was_cancelled_is_passed_over() -> None:
    line = Line(concurrent_turns=1)
    line.ask("a", "b", "c")
    id, slot = line.asked[1]
    assert slot is not None
    slot.cancel()  # as cancelling the task that awaits it does; it will say so in a moment
    line.end("a")
    assert line.running == ["c"]
    line.slots.give_back(slot, id)
    line.end("c")
    assert_empty(line.slots)


async def test_a_wider_bound_lets_those_who_wait_begin() -> None:
    line = Line(concurrent_turns=1)
    line.ask("a", "b", "c", "d")
    line.slots.widen(3)
    line.look()
    assert line.running == ["a", "b", "c"]
    line.slots.widen(1)
    line.end("a")
    line.end("b")
    assert line.running == ["c"]


def assert_empty(slots: Slots) -> None:
    assert (slots.taken, slots.waiting) == (0, 0)
    assert not slots._tenants
    assert not slots._ticks
    assert not slots._crowds
    assert not any(slots._classes.values())


@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([{}, {"Mailer": 1}, {"Mailer": 2, "Job": 3}]),
)
@settings(max_examples=150)
def test_bounds_hold_slots_are_never_idle_while_one_may_run_and_all_get_theirs(
    seed: int, bound: int, tenant_turns: int | None, class_turns: int | None, turns_of: dict[str, int]
) -> None:
    limits = Limits(concurrent_turns=bound, tenant_turns=tenant_turns, class_turns=class_turns, turns_of=turns_of)
    asyncio.run(_storm(random.Random(seed), limits))


async def _storm(dice: random.Random, limits: Limits) -> None:
    slots = Slots(limits)
    waiting: list[tuple[ObjectId, Slot]] = []
    running: list[tuple[ObjectId, Slot | None, bool]] = []  # whether it passed freely
    asked = 0
    while asked < 120 or waiting or running:
        if asked < 120 and dice.random() < 0.55:
            asked += 1
            id = of(
                f"{dice.choice('aaab')}/{asked}" if dice.random() < 0.8 else f"k{asked}", dice.choice(["Job", "Mailer"])
            )
            is_nested = dice.random() < 0.1
            slot = slots.take(id, nested=is_nested)
            if slot is None:
                running.append((id, None, is_nested))
            else:
                waiting.append((id, slot))
        elif waiting and dice.random() < 0.15:
            id, slot = waiting.pop(dice.randrange(len(waiting)))
            if dice.random() < 0.5:
                slots.hurry(slot, id)
                running.append((id, slot, True))
            else:
                slots.give_back(slot, id)
        elif running:
            id, given, _ = running.pop(dice.randrange(len(running)))
            slots.give_back(given, id)
        for id, slot in [pair for pair in waiting if pair[1].done()]:
            waiting.remove((id, slot))
            running.append((id, slot, False))
        _check(slots, limits, waiting, running)
    assert_empty(slots)


def _check(
    slots: Slots,
    limits: Limits,
    waiting: list[tuple[ObjectId, Slot]],
    running: list[tuple[ObjectId, Slot | None, bool]],
) -> None:
    assert (slots.taken, slots.waiting) == (len(running), len(waiting))
    tenants = Counter(tenant_of(id.key) for id, _, _ in running)
    classes = Counter(id.cls for id, _, _ in running)
    free = sum(is_free for _, _, is_free in running)
    assert len(running) - free <= limits.concurrent_turns

    def has_room(id: ObjectId) -> bool:
        of_class = limits.turns_of.get(id.cls, limits.class_turns)
        of_tenant = limits.tenant_turns
        return (
            len(running) < limits.concurrent_turns
            and (of_class is None or classes[id.cls] < of_class)
            and (of_tenant is None or tenants[tenant_of(id.key)] < of_tenant)
        )

    assert not any(has_room(id) for id, _ in waiting)
    for tenant in tenants:
        assert slots.running(tenant) == tenants[tenant]


async def test_a_hundred_thousand_waiters_of_one_tenant_cost_no_more_each_than_a_few() -> None:
    slots = Slots(Limits(concurrent_turns=1))
    first = of("a/first")
    slots.take(first, nested=False)
    many = [(id, slots.take(id, nested=False)) for id in (of(f"a/{n}") for n in range(100_000))]
    slots.give_back(None, first)
    for id, slot in many:
        assert slot is not None
        assert slot.done()
        slots.give_back(slot, id)
    assert_empty(slots)


# Slow start


@pytest.mark.parametrize("is_off", [False, True])
async def test_slow_start_grows_from_its_initial_value_to_the_limit_by_the_given_clock(is_off: bool) -> None:
    warp = Timewarp(0)
    warp.install()
    try:
        limits = Limits(concurrent_turns=100, slow_start_turns=10, slow_start_ms=0 if is_off else 9_000)
        slots = Slots(limits)
        wider: list[int] = []
        start = SlowStart(slots, limits, warp, on_wider=lambda: wider.append(slots.bound))
        start.begin()
        assert slots.bound == (100 if is_off else 10)
        assert start.is_on is not is_off
        await warp.sleep(4_500)
        assert slots.bound == 100 if is_off else 50 <= slots.bound <= 55
        await warp.sleep(4_700)
        assert slots.bound == 100
        assert not start.is_on
        assert wider == sorted(wider)
        if not is_off:
            # Taking over more while 40 run: not below those.
            for n in range(40):
                slots.take(of(f"k{n}"), nested=False)
            start.begin()
            assert slots.bound == 40
            start.stop()
    finally:
        warp.remove()
