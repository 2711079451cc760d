"""A world's time stands still while a thread works, whoever started it."""

import asyncio
import time

from wakeful import App, DurableObject


def make_app() -> App:
    app = App()

    @app.object
    class Slow(DurableObject):
        async def work(self) -> str:
            return await asyncio.to_thread(self._work)

        def _work(self) -> str:
            time.sleep(0.05)
            return "done"

    return app


async def test_work_in_a_thread_takes_no_virtual_time() -> None:
    app = make_app()
    async with app.world() as world:
        before = world.now()
        asyncio.get_running_loop().call_later(3_600, lambda: None)  # there would be something to jump to
        stub = app.get(app.deployment.registry.by_name("Slow").cls, "a")
        assert await stub.work() == "done"
        assert world.now() == before
        await world.advance(hours=2)
        assert (world.now() - before).total_seconds() == 7_200


async def test_work_that_is_given_up_does_not_stop_time_for_good() -> None:
    async with make_app().world() as world:
        work = asyncio.ensure_future(asyncio.to_thread(time.sleep, 0.05))
        await asyncio.sleep(0)
        work.cancel()
        before = world.now()
        await world.advance(hours=1)
        assert (world.now() - before).total_seconds() == 3_600
