"""A program with tokens, and someone who sends requests to its site without a network."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import to_builtins

from wakeful import App, DurableObject, internal
from wakeful.security.audit import page
from wakeful.security.scopes import parse_scopes
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret
from wakeful.server.site import Site
from wakeful.testing import World
from wakeful.values.ids import ObjectId

HERE = ("127.0.0.1", 50_000)
HOST = "localhost:7420"
_count = itertools.count(1)


def _bytes(count: int) -> bytes:
    """Different at every call, the same in every run."""
    return (next(_count) * 0x9E3779B97F4A7C15).to_bytes(count + 16, "big")[-count:]


def program(**options: Any) -> App:
    """A class with all that callers may and may not do."""
    app = App(**options)

    @app.object
    class Box(DurableObject):
        async def put(self, text: str) -> str:
            await self.storage.put("text", text)
            return text

        async def plan(self) -> None:
            await self.schedules.add("every day at 09:00", self.fails, name="daily")

        async def fails(self) -> None:
            raise ValueError("secret-in-the-error")

        @internal
        async def inside(self) -> str:
            return "nobody outside"

        async def _private(self) -> str:
            return "nobody outside"

        async def alarm(self) -> None: ...

        def plain(self) -> str:
            return "nobody outside"

    app.box = Box  # type: ignore[attr-defined]
    return app


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    cookies: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        return str(self.json.get("code")) if self.body.startswith(b"{") else ""


class Door:
    """Requests to the site, as a server would hand them over."""

    def __init__(self, app: App, world: World, **options: Any) -> None:
        self.app = app
        self.world = world
        self.site = Site(app, **options)
        self.gate = self.site.gate

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        client: tuple[str, int] | None = HERE,
        host: str | None = HOST,
        more: list[tuple[bytes, bytes]] | None = None,
        scheme: str = "http",
        root_path: str = "",
    ) -> Reply:
        raw, _, query = path.partition("?")
        sent = {} if host is None else {"host": host}
        sent |= {} if token is None else {"authorization": f"Bearer {token}"}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        if body and "content-type" not in sent:
            sent["content-type"] = "application/json"
        from urllib.parse import unquote

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": scheme,
            "path": unquote(raw, errors="replace"),
            "raw_path": raw.encode("latin-1"),
            "query_string": query.encode(),
            "root_path": root_path,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()] + (more or []),
            "client": client,
            "server": ("127.0.0.1", 7420),
        }
        incoming = [{"type": "http.request", "body": body, "more_body": False}]
        outgoing: list[Any] = []

        async def receive() -> Any:
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            outgoing.append(message)

        await self.site(scope, receive, send)
        start = outgoing[0]
        found = [(name.decode(), value.decode("latin-1")) for name, value in start.get("headers", ())]
        cookies = [value for name, value in found if name == "set-cookie"]
        data = b"".join(message.get("body", b"") for message in outgoing[1:])
        return Reply(start["status"], dict(found), data, cookies)

    async def socket(self, path: str, *, token: str | None = None, headers: dict[str, str] | None = None) -> int | None:
        """The code that a WebSocket is refused with; None when it is accepted."""
        sent = {"host": HOST} | ({} if token is None else {"authorization": f"Bearer {token}"}) | (headers or {})
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": HERE,
            "server": ("127.0.0.1", 7420),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        incoming: list[Any] = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
        outgoing: list[Any] = []

        async def receive() -> Any:
            return incoming.pop(0) if incoming else {"type": "websocket.disconnect", "code": 1000}

        async def send(message: Any) -> None:
            outgoing.append(message)

        await self.site(scope, receive, send)
        first = outgoing[0]
        if first["type"] == "websocket.accept":
            return None
        return int(first.get("status", 403))

    async def token(
        self, scope: str, *, tenant: str | None = None, name: str = "", expires_ms: int | None = None, **more: Any
    ) -> str:
        """A new token with these scopes."""
        text, id, hashed = new_secret(PREFIX, _bytes)
        now = self.app.deployment.node.clock.now()  # type: ignore[union-attr]
        token = Token(
            id=id,
            name=name or f"t{id}",
            hash=hashed,
            scopes=parse_scopes(scope),
            tenant=tenant,
            created_at=now,
            created_by="test",
            expires_at=None if expires_ms is None else now + expires_ms,
            **more,
        )
        await self.app.deployment.node.send(ALL, "create", (to_builtins(token),), {})  # type: ignore[union-attr]
        self.gate._known.forget()
        return text

    async def revoke(self, text: str) -> None:
        await self.app.deployment.node.send(ALL, "revoke", (text[3:11],), {})  # type: ignore[union-attr]

    async def audit(self, **options: Any) -> list[dict[str, Any]]:
        return (await page(self.world.store, limit=1_000, **options)).rows

    async def refusals(self) -> list[tuple[str, str]]:
        """Why, and who, newest first."""
        return [(row["outcome"], row["actor"]) for row in await self.audit() if row["kind"] == "refusal"]

    async def object(self, key: str) -> ObjectId:
        """An object with a schedule, a failed run of it, and a value."""
        box = self.app.get(self.app.box, key)  # type: ignore[attr-defined]
        await box.put(f"value of {key}")
        await box.plan()
        return ObjectId("Box", key)
