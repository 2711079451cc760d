"""Clients of a Worker, in a process of their own: `python -m bench.worker_callers PORT SECONDS` says what they saw.

Requests to one object and to a thousand, alarms of new objects, echoes over sockets: the same against us and workerd.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp

CALLERS = 16
OBJECTS = 1_000
ALARMS_MAX = 4_000  # workerd keeps a file for each, and opens all that are due at once
LEAD_MS = 2_000  # from the last alarm that is set until all are due


async def main(port: int, seconds: float) -> dict[str, float]:
    base = f"http://127.0.0.1:{port}"
    connector = aiohttp.TCPConnector(limit=CALLERS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post(path: str) -> None:
            async with session.post(base + path) as answer:
                await answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{path}: {answer.status}")

        numbers = itertools.count()
        found = {"one": await _rate(lambda: post("/one/add"), seconds)}
        await _all([f"/many{number}/add" for number in range(OBJECTS)], post)
        found["many"] = await _rate(lambda: post(f"/many{next(numbers) * 7919 % OBJECTS}/add"), seconds)
        found |= await _alarms(session, base, post, seconds)
    found["echo"] = await _echo(f"{base}/echo/socket", seconds)
    return found


async def _rate(do: Callable[[], Awaitable[None]], seconds: float, most: int = 1 << 60) -> float:
    """How many a second, by callers who each wait for their answer."""
    done, until = 0, time.perf_counter() + seconds

    async def call() -> None:
        nonlocal done
        while time.perf_counter() < until and done < most:
            done += 1
            await do()

    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def _all(paths: list[str], post: Callable[[str], Awaitable[None]]) -> None:
    left = iter(paths)

    async def call() -> None:
        for path in left:
            await post(path)

    await asyncio.gather(*(call() for _ in range(CALLERS)))


async def _alarms(
    session: aiohttp.ClientSession, base: str, post: Callable[[str], Awaitable[None]], seconds: float
) -> dict[str, float]:
    """New objects each set one, all for one instant; and how fast they fire then."""
    due_ms = int(time.time() * 1000 + seconds * 1000) + LEAD_MS
    numbers = itertools.count()
    rate = await _rate(lambda: post(f"/new{next(numbers)}/alarm?{due_ms}"), seconds, ALARMS_MAX)
    count, fired, last_ms = next(numbers), 0, 0.0
    give_up_ms = due_ms + 60_000
    while fired < count and time.time() * 1000 < give_up_ms:
        await asyncio.sleep(0.2)
        async with session.get(f"{base}/fired") as answer:
            fired, last_ms = await answer.json()
    if fired < count:
        raise RuntimeError(f"{fired} of {count} alarms fired within a minute")
    return {"set": rate, "fired": count / max(0.001, (last_ms - due_ms) / 1000), "alarms": count}


async def _echo(url: str, seconds: float) -> float:
    async with aiohttp.ClientSession() as session:
        sockets = [await session.ws_connect(url) for _ in range(CALLERS)]
        free = iter(sockets)

        async def talk() -> int:
            socket, said, until = next(free), 0, time.perf_counter() + seconds
            while time.perf_counter() < until:
                await socket.send_str("hello")
                await socket.receive_str()
                said += 1
            return said

        began = time.perf_counter()
        done = sum(await asyncio.gather(*(talk() for _ in sockets)))
        rate = done / (time.perf_counter() - began)
        await asyncio.gather(*(socket.close() for socket in sockets))
        return rate


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))))
