"""The class that the tests of sockets play with: what it does is written in the tests themselves."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from wakeful import App, DurableObject, Socket
from wakeful.sockets.socket import SocketRequest
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of


class Hall:
    """An app of its own, and what its objects were told, wherever they ran."""

    def __init__(self, **options: Any) -> None:
        self.app = App(**options)
        self.heard: list[tuple[str, Any]] = []  # by which socket's name, what
        self.closed: list[tuple[Any, int, str, bool]] = []  # by which socket's name
        self.wakes = 0
        self.message: Callable[[Any, Socket, str | bytes], Awaitable[Any]] | None = None
        self.connect: Callable[[Any, Socket, SocketRequest], Awaitable[Any]] | None = None
        self.close: Callable[[Any, Socket], Awaitable[Any]] | None = None
        hall = self

        @self.app.object
        class Room(DurableObject):
            async def on_wake(self) -> None:
                hall.wakes += 1

            async def on_connect(self, socket: Socket, request: SocketRequest) -> Any:
                socket.attachment = request.query.get("name", "")
                await self.storage.put("connects", await self.storage.get("connects", 0) + 1)
                return await hall.connect(self, socket, request) if hall.connect is not None else None

            async def on_message(self, socket: Socket, message: str | bytes) -> None:
                hall.heard.append((socket.attachment, message))
                if hall.message is not None:
                    await hall.message(self, socket, message)
                    return
                await self.storage.put("messages", await self.storage.get("messages", 0) + 1)
                await socket.send(f"got {message!r}")

            async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
                hall.closed.append((socket.attachment, code, reason, was_clean))
                await self.storage.put("closes", await self.storage.get("closes", 0) + 1)
                if hall.close is not None:
                    await hall.close(self, socket)

            async def do(self, name: str) -> Any:
                return await hall.acts[name](self)

            async def alarm(self) -> None:
                await self.ctx.broadcast("ring")

        @self.app.object
        class Deaf(DurableObject):
            async def hello(self) -> str:
                return "hello"

        @self.app.object
        class Terse(DurableObject):
            async def on_message(self, socket: Socket, message: str | bytes) -> None:
                await self.ctx.broadcast(message)

            async def count(self) -> int:
                return len(await self.ctx.sockets())

        self.Room, self.Deaf, self.Terse = Room, Deaf, Terse
        self.acts: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self._names = count()

    async def do(self, body: Callable[[Any], Awaitable[Any]], key: str = "r", *, at: Member | None = None) -> Any:
        """Run the body as a turn of the room, called through that node."""
        name = f"act-{next(self._names)}"
        self.acts[name] = body
        node = self.app.deployment.node if at is None else at.node
        assert node is not None
        return await node.send(ObjectId("Room", key), "do", (name,), {})

    async def sockets(self, key: str = "r") -> list[str]:
        """The names of those that are connected, as the object sees them."""

        async def body(room: Any) -> list[str]:
            return [socket.attachment for socket in await room.ctx.sockets()]

        found: list[str] = await self.do(body, key)
        return found


async def rows(world: World, hall: Hall, key: str = "r") -> dict[str, Any]:
    return await world.rows(hall.Room, key)


def key_at(member: Member, cls: str = "Room") -> str:
    """A key whose object lives on that node now."""
    assert member.node is not None
    return next(key for key in (f"k{n}" for n in count()) if shard_of(ObjectId(cls, key)) in member.node.epochs)
