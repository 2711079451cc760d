"""A place on the clock that is set again and again."""

from collections.abc import Callable
from typing import Any

from wakeful.values.times import Wakeup


class Clock:
    """Time that a test moves, with every handle that was ever asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._waiting: dict[int, tuple[int, Callable[[], object]]] = {}

    def now(self) -> int:
        return 0

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Any:
        number = len(self.asked)
        self.asked.append(at_ms)
        self._waiting[number] = (at_ms, callback)
        waiting = self._waiting

        class Handle:
            def cancel(self) -> None:
                waiting.pop(number, None)

        return Handle()

    async def sleep(self, length_ms: int) -> None:
        raise NotImplementedError

    def pass_to(self, at: int) -> None:
        for number, (due_at, callback) in sorted(self._waiting.items(), key=lambda item: item[1][0]):
            if due_at <= at and number in self._waiting:
                del self._waiting[number]
                callback()


def test_only_the_last_setting_rings_and_the_same_one_costs_nothing() -> None:
    clock, rung = Clock(), []
    wakeup = Wakeup(clock, lambda: rung.append(wakeup.at))
    for at in (30, 30, 20, 20, 50, 50):
        wakeup.set(at)
    assert clock.asked == [30, 20, 50]
    clock.pass_to(49)
    assert rung == []
    clock.pass_to(50)
    assert rung == [None]  # when it rings it is set for nothing, so it can be set for the same instant again
    wakeup.set(50)
    clock.pass_to(50)
    assert rung == [None, None]


def test_none_calls_it_off() -> None:
    clock, rung = Clock(), []
    wakeup = Wakeup(clock, lambda: rung.append(1))
    wakeup.set(None)
    wakeup.set(10)
    wakeup.set(None)
    clock.pass_to(100)
    assert (rung, wakeup.at, clock.asked) == ([], None, [10])
