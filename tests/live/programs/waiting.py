"""A machine with one delay, until the process is killed: `python waiting.py URL KEY SECONDS AHEAD`.

AHEAD seconds are added to every clock that the process can see, that of the database included.
"""

import asyncio
import sys
import time
from types import SimpleNamespace
from typing import Any

from wakeful import App, Machine, action, system
from wakeful.store.postgres.store import PostgresStore

SECONDS = sys.argv[3] if len(sys.argv) > 3 else "6"
AHEAD = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0

app = App()


@app.object
class Wait(Machine):
    chart = {
        "initial": "waiting",
        "states": {"waiting": {"after": {f"{SECONDS}s": {"target": "over", "actions": "tell"}}}, "over": {}},
    }

    @action
    async def tell(self, context: Any, event: Any) -> None:
        await self.storage.put("told", await self.storage.get("told", 0) + 1)
        print("fired", time.time() + AHEAD, flush=True)


def set_clocks() -> None:
    """Have this process live that much later."""
    vars(system)["time"] = SimpleNamespace(
        time=lambda: time.time() + AHEAD,
        time_ns=lambda: time.time_ns() + int(AHEAD * 1e9),
        monotonic=time.monotonic,
    )
    asked = PostgresStore.time

    async def later(self: PostgresStore) -> int | None:
        found = await asked(self)
        return None if found is None else found + int(AHEAD * 1000)

    PostgresStore.time = later  # type: ignore[method-assign]


async def main(url: str, key: str) -> None:
    print("here", time.time() + AHEAD, flush=True)
    async with app.run(url):
        machine = app.get(Wait, key)
        snapshot = await machine.snapshot()
        if snapshot.status == "new":
            snapshot = await machine.start()
        due = next(iter(snapshot.due.values()), None)
        print("up", due.timestamp() if due else 0, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    set_clocks()
    asyncio.run(main(sys.argv[1], sys.argv[2]))
