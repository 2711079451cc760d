"""A client that hangs up: as everywhere, a turn that has begun goes on to its end, one that has not never begins."""

import asyncio
from typing import Any

import pytest

from tests.http.http_stage import make_app, opened
from tests.http.served_stage import WAIT_S, Place
from wakeful import App, DurableObject


def patient_app() -> tuple[App, list[str]]:
    app, began = make_app(), []

    @app.object
    class Slow(DurableObject):
        async def add(self, seconds: float = 0) -> int:
            began.append(self.ctx.key)
            value: int = await self.storage.get("n", 0) + 1
            await self.storage.put("n", value)
            await asyncio.sleep(seconds)
            return value

    return app, began


async def test_a_client_that_gives_up_leaves_the_turn_running() -> None:
    """Where the server takes the request's task away with its client, as some frameworks do."""
    app, began = patient_app()
    async with opened(app) as stage:
        path, key = "/v1/objects/Slow/a/add", {"idempotency-key": "k"}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stage.ask("POST", path, json=[5], headers=key), 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stage.ask("POST", path, json=[0]), 1)  # in line behind it: never runs
        assert (await stage.ask("POST", path, json=[5], headers=key)).json()["result"] == 1
        assert (await stage.ask("POST", path, json=[0])).json()["result"] == 2
        assert began == ["a", "a"]


async def test_a_client_that_hangs_up_leaves_the_turn_running() -> None:
    place, began, over = Place(), asyncio.Event(), asyncio.Event()

    @place.app.object
    class Slow(DurableObject):
        async def add(self) -> int:
            value: int = await self.storage.get("n", 0) + 1
            await self.storage.put("n", value)
            if value == 1:
                began.set()
                await place.gate.wait()
                over.set()
            return value

    async with place.served():
        _, writer = await asyncio.open_connection("127.0.0.1", place.port)
        head = b"POST /v1/objects/Slow/a/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n"
        writer.write(head + b"idempotency-key: k\r\n\r\n")
        await asyncio.wait_for(began.wait(), WAIT_S)
        writer.transport.abort()
        for _ in range(20):  # the server hears of it
            await asyncio.sleep(0)
        place.gate.set()
        await asyncio.wait_for(over.wait(), WAIT_S)
        slow: Any = place.app.get(Slow, "a", request_key="k")
        assert await slow.add() == 1
        assert await place.app.get(Slow, "a").add() == 2
