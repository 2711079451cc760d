"""A town in virtual time with the dashboard before it, for tests that ask for pages without a browser."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from wakeful import AlarmInfo, App, DurableObject, Machine, RetryPolicy, every
from wakeful.security.gate import Gate
from wakeful.security.tokens import ALL, PREFIX, new_secret
from wakeful.testing.world import World

START = "2026-03-27T12:00:00+00:00"
ODD = "<script>alert(1)</script>/\"'&%2F.."


def town() -> tuple[App, type[Any], type[Any], type[Any]]:
    app = App()

    @app.object
    class Note(DurableObject):
        async def write(self, spec: str) -> None:
            await self.storage.put_many({"text": "hello", "long": ["x" * 40] * 20, "<b>": "<i>"})
            await self.schedules.add(spec, self.read, name="read", tags=("post",))

        async def read(self) -> None: ...

        async def hang(self) -> None:
            await self.storage.put("hung", True)
            await asyncio.sleep(1_000)

        async def pay(self, cents: int) -> int:
            if cents > 100:
                raise ConnectionError("the bank is <closed>")
            return cents

        @every.weekday.at("09:00", zone="Europe/Paris")
        async def open(self) -> None: ...

    async def wire(lamp: Any) -> None: ...

    @app.object
    class Lamp(DurableObject):
        migrations = [wire]

        async def light(self) -> None:
            await self.storage.set_alarm(timedelta(seconds=1))

        async def alarm(self, info: AlarmInfo) -> None:
            raise TimeoutError("no answer")

    @app.object
    class Door(Machine):
        chart = {"initial": "shut", "states": {"shut": {"on": {"OPEN": "open"}}, "open": {"after": {"2h": "shut"}}}}

    return app, Note, Lamp, Door


class Stage(NamedTuple):
    """What a test has."""

    app: App
    world: World
    client: httpx.AsyncClient
    gate: Gate

    async def text(self, path: str, status: int = 200, **headers: str) -> str:
        answer = await self.client.get(path, headers=headers)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-600:])
        return answer.text

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        return await self.client.post(path, data=fields)

    async def token(self, name: str, *scopes: str, tenant: str | None = None) -> str:
        """A new token, as `wakeful tokens create` makes it."""
        text, id, hashed = new_secret(PREFIX, lambda size: (name * size).encode()[:size])
        fields = {"id": id, "name": name, "hash": hashed, "scopes": list(scopes), "tenant": tenant}
        fields |= {"created_at": self.now, "created_by": "test"}
        await self.world.node.send(ALL, "create", (fields,), {})
        return text

    async def login(self, token: str) -> None:
        answer = await self.post("/login", token=token)
        assert answer.status_code == 303, answer.text[-500:]

    @property
    def now(self) -> int:
        return self.world.warp.now()


@asynccontextmanager
async def staged(*, is_seeded: bool = True, prefix: str = "", nodes: int = 1) -> AsyncIterator[Stage]:
    """The town an hour after it was founded."""
    app, note, lamp, door = town()
    gate = Gate(app.deployment)
    site = app.asgi(gate=gate)
    web = Starlette(routes=[Mount(prefix, app=site)]) if prefix else site
    async with app.world(start=START, nodes=nodes) as world:
        if is_seeded:
            await seed(app, note, lamp, door)
            await world.advance(hours=1)
        transport = httpx.ASGITransport(app=web, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield Stage(app, world, client, gate)


async def seed(app: App, note: Any, lamp: Any, door: Any) -> None:
    await app.get(note, "ann").write("every 10m")
    await app.get(note, "eu/bob").write("every 7m")
    await app.get(note, ODD).write("after 3d")
    for number in range(3):
        await app.get(lamp, f"lane-{number}").light()
    await app.get(door, "front").send("OPEN")
    ann, once = app.get(note, "ann"), RetryPolicy(max_attempts=1)
    await app.jobs.schedule(ann.pay, 50, key="small", retry=once)
    await app.jobs.schedule(ann.pay, 500, key="big", retry=once)
    await app.jobs.schedule(ann.pay, 70, after="5h", key="later", retry=once)


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    return found[1] if found else ""
