"""A class on two servers, for nodes whose slots are moved under load."""

import os

from wakeful import App, DurableObject

SERVERS = ("a", "b")


def server_url(base: str, name: str) -> str:
    return f"{base}_{name}"


def make(base: str) -> App:
    """The program whose servers are schemas beside that one."""
    made = App(stores={"Order": {name: server_url(base, name) for name in SERVERS}})
    made.object(Order)
    return made


class Order(DurableObject):
    async def add(self) -> int:
        total = int(await self.storage.get("total", 0)) + 1
        await self.storage.put("total", total)
        return total

    async def pass_on(self, other: str) -> None:
        await self.storage.put("sent", await self.storage.get("sent", 0) + 1)
        await self.jobs.schedule(self.ctx.get(Order, other).take)

    async def take(self) -> None:
        await self.storage.put("taken", await self.storage.get("taken", 0) + 1)

    async def sums(self) -> list[int]:
        return [int(await self.storage.get(name, 0)) for name in ("total", "sent", "taken")]


app = make(os.environ.get("WAKEFUL_SPREAD", "postgresql://nowhere/x?schema=x"))
