"""The program after the deploy: one more migration renames the field of the state and writes the book in another form."""

from dataclasses import dataclass
from typing import Any

from wakeful import App, DurableObject, reader

app = App()


@dataclass
class Count:
    total: int = 0


async def open_book(shelf: Any) -> None:
    await shelf.storage.put("book", [])


async def rename_total(shelf: Any) -> None:
    raw = shelf.ctx.raw_state
    if "sum" in raw:
        raw["total"] = raw.pop("sum")
    await shelf.storage.put("pages", {str(number): True for number in await shelf.storage.get("book")})
    await shelf.storage.delete("book")


@app.object
class Shelf(DurableObject):
    state: Count
    migrations = [open_book, rename_total]

    async def add(self) -> int:
        self.state.total += 1
        await self.storage.put("pages", {**await self.storage.get("pages"), str(self.state.total): True})
        return self.state.total

    async def mark(self, name: str) -> int:
        await self.storage.put(f"mark:{name}", await self.storage.get(f"mark:{name}", 0) + 1)
        return 2

    @reader
    async def total(self) -> int:
        return self.state.total
