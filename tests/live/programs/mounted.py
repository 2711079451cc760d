"""An app of somebody else's, with ours mounted in it: what uvicorn, hypercorn and gunicorn serve in the live tests."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from wakeful import App, DurableObject, Machine, Socket

app = App()


@app.object
class Room(DurableObject):
    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        await socket.send(message)

    async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
        await self.storage.put("closed", code)
        print(f"closed {code}", flush=True)

    async def hello(self, what: str) -> str:
        self.ctx.log.info("hello %s", what)
        return what


@app.object
class Lamp(Machine):
    chart = {"initial": "off", "states": {"off": {"on": {"PRESS": "on"}}, "on": {"on": {"PRESS": "off"}}}}


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with app.run(os.environ.get("WAKEFUL_STORE", "memory:")):
        yield
    print("lifespan over", flush=True)


web = FastAPI(lifespan=lifespan)
web.mount("/durable", app.asgi())
