"""A chat room: clients stay connected while the room sleeps, and one that was away is told what it missed.

Run it: python examples/chat.py. To serve it to browsers: wakeful dev examples/chat.py, then connect to
ws://127.0.0.1:7420/v1/objects/Room/lobby/socket?name=ann
"""

import asyncio
import json

from wakeful import App, DurableObject, Socket

app = App()
KEPT = 100


@app.object
class Room(DurableObject):
    async def on_connect(self, socket: Socket, request) -> None:
        name = request.query.get("name", "")
        if not name.isalnum():
            raise ValueError("say who you are: ?name=…")
        socket.attachment = name
        socket.tags = [f"name:{name}"]
        await self.ctx.auto_response("ping", "pong")
        # What is sent may be lost when a process dies. So the client says what it has, and the room has the rest.
        for key, line in (
            await self.storage.list(prefix="line:", start_after=f"line:{int(request.query.get('after', 0)):08}")
        ).items():
            await socket.send(json.dumps({"number": int(key[5:]), **line}))

    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        number = await self.storage.get("last", 0) + 1
        line = {"from": socket.attachment, "text": str(message)}
        await self.storage.put("last", number)
        await self.storage.put(f"line:{number:08}", line)
        await self.storage.delete(f"line:{number - KEPT:08}")
        await self.ctx.broadcast(json.dumps({"number": number, **line}))

    async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
        self.ctx.log.info("%s left", socket.attachment)

    async def who(self) -> list[str]:
        return [socket.attachment for socket in await self.ctx.sockets()]


async def main() -> None:
    async with app.world() as world:  # a test's world; the same clients as over the network
        ann = await world.connect(Room, "lobby", query={"name": "ann"})
        bob = await world.connect(Room, "lobby", query={"name": "bob"})
        await ann.send("anybody here?")
        print("bob reads", await bob.receive())
        await world.advance(hours=1)
        print("awake after an hour:", len(world.node.awake), "connected:", await world.get(Room, "lobby").who())
        await bob.vanish()
        await ann.send("bob?")
        await world.settle()
        bob = await world.connect(Room, "lobby", query={"name": "bob", "after": "1"})
        print("bob missed", await bob.receive())
        try:
            await world.connect(Room, "lobby", query={"name": "?"})
        except Exception as error:
            print("refused:", error)


if __name__ == "__main__":
    asyncio.run(main())
