"""Objects whose schedules are due every second, until the process is killed: `python ticker.py URL`."""

import asyncio
import sys

from wakeful import App, DurableObject, RetryPolicy, Run, every, fixed

OBJECTS = 20

app = App()


@app.object
class Ticker(DurableObject):
    @every("1s", catch_up="all", max_catch_up=1_000, grace="1s", overlap="queue_all")
    async def tick(self, run: Run) -> None:
        """Every second; after an outage each that was missed runs, and so does each that came while another ran."""
        await self._note("tick", run)

    @every("1s", catch_up="latest", grace="1s", retry=RetryPolicy(max_attempts=3, backoff=fixed("50ms")))
    async def shaky(self, run: Run) -> None:
        """Fails at first now and then, and is due again before it has got over it."""
        await self._note("shaky", run)
        if run.attempt == 0 and run.nominal_at.second % 7 == 0:
            await asyncio.sleep(0.3)
            raise RuntimeError("at first")

    async def start(self) -> None:
        """Wakes it, which makes it have its schedules."""

    async def _note(self, name: str, run: Run) -> None:
        key = f"{name}:{run.nominal_at.isoformat()}"
        await self.storage.put(key, await self.storage.get(key, 0) + 1)
        await self.storage.put(f"runs:{name}", await self.storage.get(f"runs:{name}", 0) + 1)


async def main(url: str) -> None:
    async with app.run(url):
        await asyncio.gather(*[app.get(Ticker, f"t{number}").start() for number in range(OBJECTS)])
        print("up", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
