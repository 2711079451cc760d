"""A game server: players move over binary sockets, and ten times a second all hear where everybody is."""

import asyncio
import struct

from js import WebSocketPair
from workers import DurableObject, Response, WorkerEntrypoint

MOVE, STATE, HELLO = 1, 2, 3  # the first byte of a message
PLACE = struct.Struct("!Bhh")  # who, x, y
SIZE = 1_000
TICK_S = 0.1


class Arena(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.places = {}
        self.sockets = {}
        self.ticking = False

    async def fetch(self, request):
        free = next((number for number in range(1, 256) if number not in self.sockets), None)
        if free is None:
            return Response("the arena is full", status=503)
        client, server = WebSocketPair.new().object_values()
        server.accept()  # listened to in memory: the object stays awake as long as somebody plays
        self.sockets[free], self.places[free] = server, (0, 0)
        server.addEventListener("message", lambda event: self.move(free, bytes(event.data)))
        server.addEventListener("close", lambda event: self.leave(free))
        server.send(bytes([HELLO, free]))
        if not self.ticking:
            self.ticking = True
            self.ctx.waitUntil(self.tick())
        return Response(None, status=101, web_socket=client)

    def move(self, number, message):
        if len(message) != 5 or message[0] != MOVE:
            self.sockets[number].close(1003, "a move is one byte and two numbers of 16 bits")
            return
        x, y = self.places[number]
        by_x, by_y = struct.unpack("!hh", message[1:])
        self.places[number] = (min(SIZE, max(-SIZE, x + by_x)), min(SIZE, max(-SIZE, y + by_y)))

    def leave(self, number):
        self.sockets.pop(number, None)
        self.places.pop(number, None)

    async def tick(self):
        before = None
        while self.sockets:
            await asyncio.sleep(TICK_S)
            state = bytes([STATE]) + b"".join(PLACE.pack(number, *at) for number, at in sorted(self.places.items()))
            if state != before:
                for server in list(self.sockets.values()):
                    server.send(state)
            before = state
        self.ticking = False


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await self.env.ARENAS.getByName(request.url.rpartition("/")[2] or "main").fetch(request)
