"""Sockets of real processes: many idle ones, kill -9 of who holds them, kill -9 of who owns their object."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.http.served_stage import Client, connect
from tests.live.harness import IS_LONG, PROGRAMS, Book, Child
from tests.yardstick import PATIENCE_S

IDLE = 8_000 if IS_LONG else 400
PER_SOCKET_KB = 50  # 10,000 within 500 MB


class Hallway(Child):
    """One process with a server, as its clients see it."""

    def __init__(self, url: str) -> None:
        super().__init__([str(PROGRAMS / "hallway.py"), url], Book())
        self._asked = 0

    @property
    def port(self) -> int:
        return int(self.wait_for("ready")[1])

    def ask(self, *words: Any) -> list[Any]:
        """What it answers to an order."""
        before = self.count(words[0])
        self.order(list(words))
        self.until(lambda: sum(event[0] == words[0] for event in self.events) > before)
        with self._heard:
            return [event for event in self.events if event[0] == words[0]][-1]

    async def connect(self, key: str) -> Client:
        return await connect(self, f"/v1/objects/Room/{key}/socket")  # type: ignore[arg-type]


@contextmanager
def hallway(url: str) -> Iterator[Hallway]:
    made = Hallway(url)
    try:
        made.wait_for("ready")
        yield made
    finally:
        made.close()


async def until(is_so: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """What it says, as soon as it says something."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("waited in vain")


async def hang_up(*clients: Client) -> None:
    for client in clients:
        await client.close()


def closes(rows: dict[str, Any]) -> dict[str, int]:
    return {key: value for key, value in rows.items() if key.startswith("closed:")}


def told(place: Hallway, key: str, count: int) -> dict[str, Any] | None:
    """The object's rows, once it was told of so many sockets that are gone."""
    rows: dict[str, Any] = place.ask("rows", key)[2]
    return rows if len(closes(rows)) == count else None


def test_idle_sockets_of_sleeping_objects_cost_little(tmp_path: Path) -> None:
    async def body(place: Hallway) -> None:
        warm = await place.connect("warm")
        before = place.ask("memory")[1]
        clients, idle = [], set[asyncio.Task[None]]()
        for first in range(0, IDLE, 50):
            clients += await asyncio.gather(*(place.connect(f"k{number}") for number in range(first, first + 50)))
            # Connecting them all may take longer than the server waits for a pong.
            idle |= {asyncio.create_task(client.idle()) for client in [warm, *clients][len(idle) : len(clients)]}
        await until(lambda: place.ask("memory")[3] == 0)
        _, after, held, _ = place.ask("memory")
        assert held == IDLE + 1
        per_kb = (after - before) / IDLE
        print(f"{IDLE} idle sockets: {per_kb:.1f} KB each")
        assert per_kb < PER_SOCKET_KB
        await clients[-1].send("wake up")
        assert await clients[-1].text() == "1"
        await hang_up(warm, *clients)
        await until(lambda: place.ask("memory")[2] == 0)

    with hallway(f"sqlite:{tmp_path}/live.db") as place:
        asyncio.run(body(place))


def test_kill_9_of_who_holds_sockets_tells_each_object_once(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/live.db"

    async def say(place: Hallway) -> None:
        clients = [await place.connect(f"r{number % 3}") for number in range(12)]
        for client in clients[:3]:
            await client.send("hello")
        for client in clients:
            assert await client.text() == "1"
        place.kill()
        await hang_up(*clients)

    with hallway(url) as place:
        asyncio.run(say(place))
    with hallway(url) as place:

        async def check() -> None:
            for key in ("r0", "r1", "r2"):
                rows = await until(partial(told, place, key, 4))
                assert set(closes(rows).values()) == {1}
                assert (rows["messages"], rows["code:1006"]) == (1, 4)

        asyncio.run(check())
        place.order(["stop"])
        place.wait_for("stopped")
        assert place.wait() == 0, place.tail()


def test_two_processes_and_the_death_of_either(postgres_schema_url: str) -> None:
    keys = [f"k{number}" for number in range(40)]
    with hallway(postgres_schema_url) as one, hallway(postgres_schema_url) as two:

        async def body() -> None:
            def both_own() -> Any:
                owned = [set(place.ask("owns", *keys)[1]) for place in (one, two)]
                return owned if all(owned) and owned[0] | owned[1] == set(keys) else None

            _, there = await until(both_own)
            await asyncio.sleep(1.5)  # shards have found their places
            key = sorted(set(there) & set(two.ask("owns", *keys)[1]))[0]
            far, near = await one.connect(key), await two.connect(key)
            for number in range(1, 21):
                await far.send("over there")
                assert [await far.text(), await near.text()] == [str(number)] * 2
            two.kill()  # who owns the object, and holds one of its sockets
            for _ in range(20):
                await far.send("and on")
            got: list[int] = []
            while not got or got[-1] < 40:
                got.append(int(await far.text()))
            assert got == sorted(set(got))  # one that was sent right before the death may be missing, none comes twice
            rows = await until(partial(told, one, key, 1))
            assert (rows["messages"], rows["code:1006"]) == (40, 1)
            await hang_up(far, near)

        asyncio.run(body())
