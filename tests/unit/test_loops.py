"""A node and its callers share one event loop: others are told so, and long turns leave it to the others now and then."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from tests.yardstick import PATIENCE_S
from wakeful import App, DurableObject, errors
from wakeful.runtime.calls import check_loop

app = App()


@app.object
class Cart(DurableObject):
    async def add(self) -> int:
        count: int = await self.storage.get("n", 0) + 1
        await self.storage.put("n", count)
        await asyncio.sleep(0.001)
        return count

    async def fill(self, count: int) -> None:
        for number in range(count):
            await self.schedules.add(timedelta(days=1), self.add, name=f"s{number}")

    async def owe(self, count: int) -> None:
        for number in range(count):
            await self.jobs.schedule(self.add if number % 2 else app.get(Cart, "other").add, after="1d")


ASKS: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "call": lambda: app.get(Cart, "a").add(),
    "job": lambda: app.jobs.schedule(app.get(Cart, "a").add),
    "jobs": lambda: app.jobs.list(),
    "schedule": lambda: app.schedules(Cart, "a").add("every 1h", "add", name="s"),
    "schedules": lambda: app.schedules(Cart, "a").list(),
}


@pytest.mark.parametrize("what", ASKS)
async def test_who_asks_on_another_event_loop_is_refused_and_nothing_is_stuck(what: str) -> None:
    async with app.run("memory:"):
        asked = [asyncio.to_thread(asyncio.run, ASKS[what]()) for _ in range(5)]
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(one, "code", one) for one in refused] == ["call.loop"] * 5
        assert isinstance(refused[0], errors.BadInput)
        assert "run_coroutine_threadsafe" in str(refused[0])
        async with asyncio.timeout(PATIENCE_S):
            assert await app.get(Cart, "a").add() == 1


async def test_a_thread_hands_its_call_to_the_loop_of_the_app() -> None:
    async with app.run("memory:"):
        loop = asyncio.get_running_loop()

        def view() -> int:
            return asyncio.run_coroutine_threadsafe(app.get(Cart, "a").add(), loop).result(5)

        assert sorted(await asyncio.gather(*(asyncio.to_thread(view) for _ in range(5)))) == [1, 2, 3, 4, 5]
        assert app.jobs.counters()["run"] == await asyncio.to_thread(lambda: app.jobs.counters()["run"])


@pytest.mark.parametrize("method", ["fill", "owe"])
async def test_others_go_on_while_one_turn_sets_many_things_to_do(method: str) -> None:
    async with app.world() as world:
        turn = asyncio.ensure_future(getattr(world.get(Cart, "a"), method)(500))
        passes = 0
        while not turn.done():
            await asyncio.sleep(0)
            passes += 1
        await turn
        assert passes >= 500 / 25


async def test_a_node_that_does_not_run_yet_has_no_loop_to_be_wrong_about() -> None:
    check_loop(None)  # as of a program with several stores, one of which comes up after the others
    other = asyncio.new_event_loop()
    with pytest.raises(errors.BadInput):
        check_loop(other)
    other.close()
