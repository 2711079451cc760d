"""A program before the deploy: a shelf that counts what was put on it, and has had one migration."""

from dataclasses import dataclass
from typing import Any

from wakeful import App, DurableObject, reader

app = App()


@dataclass
class Count:
    sum: int = 0


async def open_book(shelf: Any) -> None:
    await shelf.storage.put("book", [])


@app.object
class Shelf(DurableObject):
    state: Count
    migrations = [open_book]

    async def add(self) -> int:
        self.state.sum += 1
        await self.storage.put("book", [*await self.storage.get("book"), self.state.sum])
        return self.state.sum

    async def mark(self, name: str) -> int:
        await self.storage.put(f"mark:{name}", await self.storage.get(f"mark:{name}", 0) + 1)
        return 1

    @reader
    async def total(self) -> int:
        return self.state.sum
