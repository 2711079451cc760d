"""A server of sockets in a process of its own: says where it listens, and how much memory it takes when it is asked."""

import asyncio
import gc
import json
import sys
from typing import Any

from tally import _die_with_parent, _say

from wakeful import App, DurableObject, Socket
from wakeful.server.embedded_server import serving
from wakeful.sockets.node_sockets import feature_of
from wakeful.values.ids import ObjectId, shard_of

app = App(idle="200ms")


@app.object
class Room(DurableObject):
    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        count = await self.storage.get("messages", 0) + 1
        await self.storage.put("messages", count)
        await self.ctx.broadcast(f"{count}")

    async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
        await self.storage.put(f"closed:{socket.id}", await self.storage.get(f"closed:{socket.id}", 0) + 1)
        await self.storage.put(f"code:{code}", await self.storage.get(f"code:{code}", 0) + 1)

    async def rows(self) -> dict[str, Any]:
        return await self.storage.list()


def rss_kb() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def main() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with app.run(sys.argv[1]) as node, serving(app, node, "127.0.0.1:0", dashboard=False) as served:
        _say("ready", served.port, node.name)
        while line := await orders.readline():
            word, *rest = json.loads(line)
            if word == "memory":
                gc.collect()
                _say("memory", rss_kb(), len(feature_of(node).gateway.sockets), len(node.awake))
            elif word == "rows":
                _say("rows", rest[0], await app.get(Room, rest[0]).rows())
            elif word == "owns":
                _say("owns", [key for key in rest if shard_of(ObjectId("Room", key)) in node.epochs])
            elif word == "stop":
                break
    _say("stopped")


if __name__ == "__main__":
    _die_with_parent()
    asyncio.run(main())
