"""A shop over HTTP: one program with something of everything, and a client in the same process, in virtual time."""

import asyncio
import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import msgspec
from msgspec import to_builtins

from wakeful import App, DurableObject, Machine, Run, internal, reader
from wakeful.policy.retry import RetryPolicy, fixed
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret
from wakeful.server import Site
from wakeful.testing import World
from wakeful.values.trace import TRACE

START = "2026-01-01T00:00:00+00:00"
BASE = "http://localhost:7420"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    name: str
    count: int = 1


class Address(msgspec.Struct):
    street: str
    zone: str = "UTC"


@dataclass
class Basket:
    lines: list[str] = field(default_factory=list)


def make_app(**options: Any) -> App:
    """The program. `Shop` takes arguments of every kind; `Lamp` is a machine."""
    app = App(**options)

    @app.object
    class Shop(DurableObject):
        """Sells things."""

        state: Basket

        async def add(self, amount: int = 1) -> int:
            """Add to the sum.

            And tell it.
            """
            total: int = await self.storage.get("sum", 0) + amount
            await self.storage.put("sum", total)
            return total

        @reader
        async def total(self) -> int:
            found: int = await self.storage.get("sum", 0)
            return found

        async def order(
            self,
            line: Line,
            at: datetime,
            /,
            colour: Colour = Colour.RED,
            *,
            wait: timedelta | None = None,
            id: UUID | None = None,
            blob: bytes = b"",
            to: Address | None = None,
        ) -> dict[str, Any]:
            return {
                "line": line,
                "at": at,
                "colour": colour.value,
                "wait": wait,
                "id": id,
                "blob": blob,
                "to": to,
                "kinds": [type(one).__name__ for one in (line, at, colour, wait, id, blob, to)],
            }

        async def echo(self, value: Any) -> Any:
            return value

        async def loose(self, first, *rest, **named):  # type: ignore[no-untyped-def]
            return [first, list(rest), named]

        async def typed(self, *numbers: int, **words: str) -> list[Any]:
            return [list(numbers), words]

        async def fails(self, text: str = "no") -> None:
            await self.storage.put("never", 1)
            raise ValueError(text)

        async def slow(self, seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "late"

        async def traced(self) -> str | None:
            return TRACE.get()

        async def plan(self, spec: str = "every day at 09:00") -> str:
            made = await self.schedules.add(spec, self.nightly, 2, name="nightly")
            return made.name

        async def nightly(self, by: int = 1, *, run: Run | None = None) -> None:
            await self.storage.put("night", by)

        async def alarm_soon(self, after: float = 60.0) -> None:
            await self.storage.set_alarm(timedelta(seconds=after))

        async def alarm(self) -> None:
            await self.storage.put("rang", 1)

        async def doomed(self) -> str:
            made = await self.schedules.add(
                timedelta(seconds=1), self.fails, "bad luck", name="doomed", retry=RetryPolicy(1, fixed("1s"))
            )
            return made.name

        @internal
        async def inside(self) -> None: ...

        async def _private(self) -> None: ...

    @app.object
    class Lamp(Machine):
        chart = {
            "initial": "off",
            "states": {"off": {"on": {"TOGGLE": "on"}}, "on": {"on": {"TOGGLE": "off"}, "after": {"60000": "off"}}},
        }

    @app.every.day.at("18:00")
    async def daily() -> None: ...

    return app


@asynccontextmanager
async def opened(app: App | None = None, *, site: dict[str, Any] | None = None, **world: Any) -> AsyncIterator["Stage"]:
    """The program in a world, with a client to it."""
    app = app or make_app()
    async with app.world(start=START, **world) as made:
        served = Site(app, dashboard=False, **(site or {}))
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            yield Stage(app, made, served, client)


@dataclass
class Stage:
    app: App
    world: World
    site: Site
    client: httpx.AsyncClient

    async def ask(self, method: str, path: str, *, token: str | None = None, **options: Any) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return await self.client.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> Any:
        """The body of an answer that must be a 200."""
        answer = await self.ask("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def call(self, key: str, method: str, body: Any = None, **options: Any) -> httpx.Response:
        path = f"/v1/objects/Shop/{quote(key, safe='').replace('.', '%2E')}/{method}"
        return await self.ask("POST", path, **({} if body is None else {"json": body}), **options)

    async def result(self, key: str, method: str, body: Any = None, **options: Any) -> Any:
        answer = await self.call(key, method, body, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    async def token(self, name: str, *scopes: str, tenant: str | None = None) -> str:
        """A new token; from the first on, nobody gets in without one."""
        text, id, hashed = new_secret(PREFIX, lambda count: f"{name}{count}".encode().ljust(count, b"."))
        now = self.world.warp.now()
        made = Token(
            id=id,
            name=name,
            hash=hashed,
            scopes=scopes,
            tenant=tenant,
            created_at=now,
            created_by="test",  # type: ignore[arg-type]
        )
        await self.world.node.send(ALL, "create", (to_builtins(made),), {})
        await self.world.advance(seconds=2)  # what the gate knows is at most a second old
        return text

    @property
    def awake(self) -> set[str]:
        """The user's objects that are awake."""
        return {str(id) for id in self.world.node.awake if not id.cls.startswith("wakeful.")}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem, which must be of that status and code and have all that RFC 9457 and we promise."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found: dict[str, Any] = answer.json()
    assert (answer.status_code, found["code"]) == (status, code), answer.text
    assert found["status"] == status
    assert found["type"].endswith(code)
    assert found["title"]
    assert "\n" not in found["detail"]
    assert found["instance"].startswith("/")
    return found


def later(**parts: float) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(**parts)).isoformat()
