"""A cluster with sockets and troubles, from one seed: clients that come, speak and go, nodes that die, freeze and part."""

import asyncio
import random
from contextlib import suppress
from typing import Any

from wakeful import App, DurableObject, Socket
from wakeful.sockets.gateways import ALL
from wakeful.sockets.node_sockets import feature_of
from wakeful.store import Range
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.testing.sockets import SocketClient, SocketClosed
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.errors import WakefulError
from wakeful.values.ids import ObjectId

STEPS = 50
KEYS = ("a", "b", "c")


def program() -> tuple[App, type[Any]]:
    app = App(idle="300ms")

    @app.object
    class Room(DurableObject):
        async def on_connect(self, socket: Socket, request: Any) -> None:
            await self.storage.put(f"conn:{socket.id}", 1)

        async def on_message(self, socket: Socket, message: str | bytes) -> None:
            log = await self.storage.get(f"log:{socket.id}", [])
            await self.storage.put(f"log:{socket.id}", [*log, int(message)])
            await socket.send(message)
            await self.ctx.broadcast(b"x", except_for=[socket])

        async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
            await self.storage.put(f"closed:{socket.id}", await self.storage.get(f"closed:{socket.id}", 0) + 1)

    return app, Room


class Life:
    """One world, its clients, and what they were told."""

    def __init__(self, seed: int, world: World, room: type[Any]) -> None:
        self.dice = random.Random(seed)
        self.world = world
        self.room = room
        self.clients: list[
            tuple[SocketClient, str, Member, str]
        ] = []  # with their key, who held them, and in which life
        self.said: dict[str, int] = {}
        self.connects: set[asyncio.Task[None]] = set()
        self.did: list[str] = []

    def up(self) -> list[Member]:
        return [member for member in self.world.members if member.node is not None and member.faults.gate is None]

    async def step(self) -> None:
        acts = [self.connect] * 4 + [self.say] * 8 + [self.leave, self.die, self.die, self.freeze, self.part, self.part]
        act = self.dice.choice(acts)
        self.did.append(act.__name__)
        await act()
        await self.world.advance(milliseconds=self.dice.choice([0, 1, 5, 50, 400, 3_000]))

    async def connect(self) -> None:
        member, key = self.dice.choice(self.up()), self.dice.choice(KEYS)

        async def go() -> None:
            with suppress(WakefulError, TimeoutError):
                client = await asyncio.wait_for(self.world.connect(self.room, key, member=member), 20)
                self.clients.append((client, key, member, member.name))

        task = asyncio.ensure_future(go())
        self.connects.add(task)
        task.add_done_callback(self.connects.discard)

    async def say(self) -> None:
        for client, *_ in self.dice.sample(self.clients, min(3, len(self.clients))):
            with suppress(SocketClosed):
                number = self.said.get(client.id, 0) + 1
                await client.send(str(number))
                self.said[client.id] = number

    async def leave(self) -> None:
        if self.clients:
            client, *_ = self.dice.choice(self.clients)
            leave = client.close() if self.dice.random() < 0.5 else client.vanish()
            task: asyncio.Task[None] = asyncio.ensure_future(leave)
            self.connects.add(task)
            task.add_done_callback(self.connects.discard)

    async def die(self) -> None:
        if len(self.up()) > 1:
            member = self.dice.choice(self.up())
            await self.say()
            if self.dice.random() < 0.5:
                await self._die_at_a_commit(member)
            if self.dice.random() < 0.7:
                member.kill()
            await member.restart(after=self.dice.choice(["0s", "2s", "20s"]))

    async def _die_at_a_commit(self, member: Member) -> None:
        """While somebody waits for what it commits: before it is on disk, or after."""
        where, left = self.dice.choice(["commit.before", "commit.after"]), self.dice.randrange(3)

        def probe(name: str, number: int) -> None:
            nonlocal left
            left -= name == where
            if left < 0:
                member.faults.on_probe = None
                member.kill()

        member.faults.on_probe = probe
        for _ in range(3):
            await self.say()
            await self.world.advance(milliseconds=2)
        member.faults.on_probe = None

    async def freeze(self) -> None:
        if len(self.up()) > 1:
            member = self.dice.choice(self.up())
            await self.say()
            member.freeze()
            await self.say()
            await self.world.advance(seconds=self.dice.choice([0.1, 2, 8, 90]))
            member.thaw()

    async def part(self) -> None:
        one, two = self.dice.sample(self.world.members, 2)
        await self.say()
        self.world.network.cut(one.name, two.name)
        await self.say()
        await self.world.advance(seconds=self.dice.choice([0.1, 1, 10]))
        self.world.network.heal(one.name, two.name)

    # what must hold

    async def check(self) -> None:
        world = self.world
        await world.nodes(3)
        await world.advance(minutes=6)
        for task in list(self.connects):
            await asyncio.wait_for(task, 300)
        await world.advance(minutes=3)
        live: set[str] = set()
        for member in world.members:
            assert member.node is not None
            live |= set(feature_of(member.node).gateway.sockets)
        for key in KEYS:
            await self._check_room(key, live)
        gates = await world.store.scan(ALL, USER, Range("gate/", "gate0"))
        assert len(gates) <= 3, gates
        for client, _, member, name in self.clients:
            numbers = [int(one) for one in client.got if isinstance(one, str)]
            assert numbers == sorted(set(numbers)), f"{client.id} got {numbers}"
            if client.closed is None and member.name == name:
                assert client.id in live, f"{client.id} is open, and nobody holds it"

    async def _check_room(self, key: str, live: set[str]) -> None:
        rows = await self.world.rows(self.room, key)
        kept = await self.world.store.scan(ObjectId("Room", key), SYSTEM, Range("socket:", "socket;"))
        connected = {row.partition(":")[2] for row in rows if row.startswith("conn:")}
        here = connected & live
        assert {row.partition(":")[2] for row, _ in kept} == here, "kept and held are not the same"
        for id in connected:
            assert rows.get(f"closed:{id}", 0) == (0 if id in here else 1), f"{key} {id}: {rows.get(f'closed:{id}')}"
            log = rows.get(f"log:{id}", [])
            assert log == list(range(1, len(log) + 1)), f"{key} {id}: {log}"
            if id in here:
                assert len(log) == self.said.get(id, 0), f"{key} {id}: said {self.said.get(id)}, heard {len(log)}"


async def live(seed: int) -> None:
    app, room = program()
    async with app.world(nodes=3, seed=seed) as world:
        life = Life(seed, world, room)
        for _ in range(STEPS):
            await life.step()
        await life.check()
        assert life.clients, "nobody ever connected"
