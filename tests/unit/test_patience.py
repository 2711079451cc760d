"""A world in which a test awaits what never comes fails and says what everybody waits for; one that waits long does not."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.testing import patience
from wakeful.testing.patience import NeverComes

DAY_S = 86_400


def program() -> App:
    app = App()

    @app.object
    class Desk(DurableObject):
        async def work(self) -> str:
            return "done"

    return app


def stub(app: App, key: str = "a") -> Any:
    return app.get(app.deployment.registry.by_name("Desk").cls, key)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/world.db"


async def test_what_never_comes_is_an_error_that_says_where_everybody_stands(store: str) -> None:
    app = program()

    async def stands_elsewhere() -> None:
        await asyncio.Event().wait()

    async def waits_in_vain() -> None:
        async with app.world(store=store, patience="2d") as world:
            other = asyncio.create_task(stands_elsewhere(), name="the other one")
            await world.settle()
            try:
                await asyncio.Event().wait()
            finally:
                other.cancel()

    with pytest.raises(NeverComes) as caught:
        await waits_in_vain()
    said = str(caught.value)
    assert "days of the world went by" in said
    assert "tests/unit/test_patience.py:" in said
    assert "in waits_in_vain" in said
    [line] = [line for line in said.splitlines() if "the other one: " in line]
    assert "in stands_elsewhere" in line
    assert isinstance(caught.value.__context__, asyncio.CancelledError)  # whose trace ends where the test stood


async def test_to_look_again_and_again_is_to_stand_still() -> None:
    app = program()

    async def looks() -> None:
        async with app.world(patience="1h"):
            first = await app.jobs.schedule(stub(app).work, after="9000d")
            job = await app.jobs.schedule(stub(app).work, depends_on=[first])
            await app.jobs.wait(job)

    with pytest.raises(NeverComes, match="in looks"):
        await looks()


async def test_who_sleeps_in_a_busy_world_wakes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "STEPS_MAX", 200)
    async with program().world():
        for _ in range(2_000):
            await asyncio.sleep(0.01)


async def test_a_world_of_several_nodes_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "STEPS_MAX", 2_000)
    with pytest.raises(NeverComes, match="other tasks at"):
        async with program().world(nodes=3):
            await asyncio.Event().wait()


async def test_nothing_waits_for_time_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ALONE_S", 0.05)

    async def waits_in_vain() -> None:
        async with program().world() as world:
            await world.crash()
            await asyncio.Event().wait()

    with pytest.raises(NeverComes, match="nothing in the world waits for time"):
        await waits_in_vain()


async def test_a_thread_that_comes_back_is_waited_for() -> None:
    async with program().world(patience="1h") as world:
        assert await asyncio.to_thread(lambda: "back") == "back"
        await world.crash()
        assert await asyncio.to_thread(lambda: "back") == "back"


async def test_who_waits_long_is_not_who_waits_in_vain() -> None:
    app = program()
    async with app.world(patience="1h") as world:
        await world.advance(days=10)
        for _ in range(10):
            await world.advance(days=1)
        await world.crash()
        await world.restart(after="30d")
        job = await app.jobs.schedule(stub(app).work, after="55m")
        assert await app.jobs.wait(job) == "done"
    async with app.world(patience="10d"):
        await asyncio.sleep(9 * DAY_S)
        await asyncio.sleep(9 * DAY_S)
        await asyncio.sleep(9 * DAY_S)  # each at a line of its own
    async with app.world(patience=None):
        await asyncio.sleep(30 * DAY_S)
    async with app.world():
        await asyncio.sleep(30 * DAY_S)


async def test_a_test_that_swallows_it_ends_all_the_same() -> None:
    async def deaf() -> None:
        async with program().world(patience="1d"):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()

    def run() -> None:
        with pytest.raises(NeverComes):
            asyncio.run(deaf())

    await asyncio.to_thread(run)
