"""A shop's stock with search: SQL inside an object. Run it: `python examples/shop.py`.

Each shop has a database of its own. What a turn does to it commits with the turn, or not at all; an order that asks for
more than there is leaves everything as it was. The index of the search is kept by triggers, in the same turn.
"""

import asyncio
from dataclasses import dataclass

from wakeful import App, DurableObject, reader

app = App()

SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, about TEXT NOT NULL, qty INTEGER NOT NULL CHECK (qty >= 0)
);
CREATE TABLE IF NOT EXISTS sold (item INTEGER NOT NULL REFERENCES items (id), qty INTEGER NOT NULL, at TEXT NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5 (name, about, content='items', content_rowid='id');
CREATE TRIGGER IF NOT EXISTS item_added AFTER INSERT ON items BEGIN
  INSERT INTO search (rowid, name, about) VALUES (new.id, new.name, new.about);
END;
"""


@dataclass
class Item:
    name: str
    qty: int


@app.object
class Shop(DurableObject):
    async def on_wake(self) -> None:
        self.sql(SCHEMA)

    async def add(self, name: str, about: str, qty: int) -> None:
        self.sql("INSERT INTO items (name, about, qty) VALUES (?, ?, ?)", name, about, qty)

    async def order(self, **wanted: int) -> None:
        """All of it or nothing: the CHECK of one item undoes the whole turn."""
        for name, qty in wanted.items():
            item = self.sql("UPDATE items SET qty = qty - ? WHERE name = ? RETURNING id", qty, name).one()
            self.sql("INSERT INTO sold VALUES (:id, :qty, :at)", id=item["id"], qty=qty, at=self.ctx.now())

    @reader
    async def find(self, words: str) -> list[Item]:
        query = "SELECT i.name, i.qty FROM search s JOIN items i ON i.id = s.rowid WHERE search MATCH ? ORDER BY rank"
        return self.sql(query, words).all(Item)

    @reader
    async def best(self) -> list[tuple[str, int]]:
        query = "SELECT name, sum(sold.qty) FROM sold JOIN items ON id = item GROUP BY id ORDER BY 2 DESC, 1"
        return self.sql(query).raw()


async def main() -> None:
    async with app.world() as world:
        shop = world.get(Shop, "corner")
        await shop.add("cup", "blue, of clay, for tea", 12)
        await shop.add("pot", "of iron, for soup and tea", 3)
        await shop.add("jug", "blue, of glass", 5)
        await shop.order(cup=4, jug=1)
        try:
            await shop.order(cup=1, pot=9)
        except ValueError as error:
            print("refused:", error)
        await world.crash()
        await world.restart()
        print("for tea:", [f"{item.name} ({item.qty})" for item in await shop.find("tea")])
        print("sold:", await shop.best())


asyncio.run(main())
