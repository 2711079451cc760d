"""Machines that get events as fast as they take them, until the process is killed: `python cells.py URL FIRST`.

Reports `taken KEY NUMBER` for every event whose answer came.
"""

import asyncio
import random
import sys

from tests.sim.machine_life import KEYS, check_cell, make_app

__all__ = ["KEYS", "app", "check_cell"]

app, Cell = make_app("deadline", random.Random())


async def send(key: str, first: int) -> None:
    for number in range(first, first + 1_000_000, len(KEYS)):
        await app.get(Cell, key, request_key=f"take {number}").send("TAKE", number=number)
        print("taken", key, number, flush=True)
        if random.random() < 0.2:
            await app.get(Cell, key).send("NEXT")
        await asyncio.sleep(0.01)


async def main(url: str, first: int) -> None:
    async with app.run(url):
        print("up", flush=True)
        await asyncio.gather(*[send(key, first + index) for index, key in enumerate(KEYS)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
